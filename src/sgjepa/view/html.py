"""The page: HTML, style and modules that lie in `page/` beside this file, put together without a build step.

Modules name each other as "view/NAME"; an import map says where they are: paths on the server, data: URLs in a page that is
sent as a file. "view/source" is where frames come from: `live` asks the server, `still` reads what was exported.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from sgjepa import report

_PAGE = Path(__file__).with_name("page")
_LOOKS = Path(report.__path__[0]) / "page.css"  # its code draws, and would need matplotlib
STYLE = "view.css"
MODULES = ("clock", "curve", "drive", "film", "laws", "main", "success", "valley")


def read(name: str) -> str:
    """A file of the page."""
    return (_PAGE / name).read_text(encoding="utf-8")


def style() -> str:
    """The report's variables and looks, then the viewer's own."""
    return _LOOKS.read_text(encoding="utf-8") + read(STYLE)


def served() -> tuple[str, str]:
    """The page of a server, and the policy for its header: its own files, its own socket, nothing else."""
    imports = {f"view/{name}": f"/{name}.js" for name in MODULES} | {"view/source": "/live.js"}
    text, map_hash = _assembled(imports, '<link rel="stylesheet" href="/view.css">', '<script type="module" src="/main.js">')
    return text, f"{_COMMON}; script-src 'self' {map_hash}; style-src 'self'; img-src data:; connect-src 'self'"


def alone(data: str) -> str:
    """The page as a file, with everything inside but the pictures. data: JSON, of export.py."""
    imports = {f"view/{name}": _as_url(read(f"{name}.js")) for name in MODULES}
    imports["view/source"] = _as_url(read("still.js"))
    start = 'import "view/main";'
    escaped = data.replace("<", r"\u003c")  # no text in it may end the script
    script = f'<script type="application/json" id="data">{escaped}</script>\n<script type="module">{start}'
    text, map_hash = _assembled(imports, f"<style>\n{style()}</style>", script)
    policy = f"{_COMMON}; script-src {map_hash} {_hash(start)} data:; style-src 'unsafe-inline'; img-src 'self' file: data:"
    return text.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>', 1)


_COMMON = "default-src 'none'; base-uri 'none'; form-action 'none'"


def _assembled(imports: dict[str, str], style_tag: str, script: str) -> tuple[str, str]:
    found = json.dumps({"imports": imports})
    text = read("index.html").replace("<!-- style -->", style_tag)
    scripts = f'<script type="importmap">{found}</script>\n{script}</script>'
    return text.replace("<!-- scripts -->", scripts), _hash(found)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _as_url(script: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(script.encode()).decode()}"
