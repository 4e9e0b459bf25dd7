"""Assembly of the page's HTML, style and scripts from the folder `page/`, without a build step.

Scripts import each other as "view/NAME", and an import map says where they are: paths on the server, data: URLs in a page
that is one file. "view/source" is where frames come from: `live` requests them from the server, `exported` has them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from sgjepa import report

_FOLDER = Path(__file__).with_name("page")
MODULES = ("clock", "error_curve", "film", "law_fit", "main", "policy_scene", "sliders", "success")
_REPORT_STYLE = Path(report.__path__[0]) / "page.css"  # importing report.page would need matplotlib
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"


def read(name: str) -> str:
    """The text of a file of the page."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def style() -> str:
    """The style of reports, then the viewer's."""
    return _REPORT_STYLE.read_text(encoding="utf-8") + read("view.css")


def served_page() -> tuple[str, str]:
    """The page of a server, and its content security policy: its own files, its own socket, nothing else."""
    imports = {f"view/{name}": f"/{name}.js" for name in MODULES} | {"view/source": "/live.js"}
    text, map_hash = _assemble(imports, '<link rel="stylesheet" href="/view.css">', '<script type="module" src="/main.js">')
    return text, f"{_POLICY}; script-src 'self' {map_hash}; style-src 'self'; img-src data:; connect-src 'self'"


def standalone_page(data: str) -> str:
    """The page as one file with everything except the frames. data: JSON, from export.py."""
    imports = {f"view/{name}": _data_url(read(f"{name}.js")) for name in MODULES}
    imports["view/source"] = _data_url(read("exported.js"))
    start = 'import "view/main";'
    escaped = data.replace("<", r"\u003c")  # a text in it must not end the script
    script = f'<script type="application/json" id="data">{escaped}</script>\n<script type="module">{start}'
    text, map_hash = _assemble(imports, f"<style>\n{style()}</style>", script)
    policy = f"{_POLICY}; script-src {map_hash} {_hash(start)} data:; style-src 'unsafe-inline'; img-src 'self' file: data:"
    return text.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>', 1)


def _assemble(imports: dict[str, str], style_tag: str, script: str) -> tuple[str, str]:
    """The page, and the hash of its import map."""
    import_map = json.dumps({"imports": imports})
    text = read("index.html").replace("<!-- style -->", style_tag)
    scripts = f'<script type="importmap">{import_map}</script>\n{script}</script>'
    return text.replace("<!-- scripts -->", scripts), _hash(import_map)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _data_url(script: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(script.encode()).decode()}"
