"""A real browser for tests: Chromium without a screen, driven through its DevTools protocol. It notes what pages complain
about and what they ask for."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import connect

from sgjepa.cli.install import browser

BROWSER = browser()
_COMMAND = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
_LEFT = ("Inspected target navigated or closed", "Cannot find context", "Execution context was destroyed")
_PATIENCE = 180.0  # seconds: two cores may be busy with other things
_PATIENT: dict[str, Any] = {"max_size": None, "open_timeout": _PATIENCE, "ping_interval": None}


class PageLeftError(RuntimeError):
    """The page that was asked has been left for another one."""


class Browser:
    """One process with its own profile, and as many tabs as one opens. Close it, or use it in a `with`."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="sgjepa-browser-")
        command = [str(BROWSER), *_COMMAND, f"--user-data-dir={self._profile}", "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stderr
        for line in self._process.stderr:
            if found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line):
                self._port = int(found[1])
                return
        raise RuntimeError("the browser did not start")

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        with connect(self._address(), **_PATIENT) as socket:
            socket.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            made = json.loads(socket.recv(timeout=_PATIENCE))["result"]["targetId"]
        with urlopen(f"http://127.0.0.1:{self._port}/json/list") as answer:
            target = next(one for one in json.load(answer) if one["id"] == made)
        return Tab(target["webSocketDebuggerUrl"], address, width, height, dark)

    def _address(self) -> str:
        with urlopen(f"http://127.0.0.1:{self._port}/json/version") as answer:
            return str(json.load(answer)["webSocketDebuggerUrl"])

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its helpers too, which would write into the profile again
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tab:
    """A page. complaints: of its console and of its scripts. requests: every address that it asked for."""

    def __init__(self, driver: str, address: str, width: int, height: int, dark: bool):
        self._open = contextlib.ExitStack()
        self._socket, self._count = self._open.enter_context(connect(driver, **_PATIENT)), 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.go(address)

    def go(self, address: str) -> None:
        """Leave the page for another one."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState !== 'loading' && document.body !== null")

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=_PATIENCE))
            if message.get("id") == self._count:
                if "error" in message:
                    left = any(words in message["error"]["message"] for words in _LEFT)
                    raise (PageLeftError if left else RuntimeError)(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails'].get('exception', {}).get('description')}")
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 180.0) -> Any:
        """Until an expression is true, also on the page that follows; returns its value."""
        deadline = time.monotonic() + seconds
        while not (found := self._ask(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}; the page said {self.complaints}")
            time.sleep(0.05)
        return found

    def _ask(self, script: str) -> Any:
        """As `run`; None if the page was left while it was asked."""
        try:
            return self.run(script)
        except PageLeftError:
            return None

    def key(self, name: str) -> None:
        """Press and release a key."""
        text = {"text": name} if len(name) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name)

    def drag(self, selector: str, places: list[float]) -> None:
        """Take a slider's thumb and move it over shares of its width, then let go."""
        find = f"const b = document.querySelector({json.dumps(selector)})"
        corner = "const r = b.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]"
        box = self.run(f"(() => {{ {find}; b.scrollIntoView({{block: 'center'}}); {corner}; }})()")
        share = self.run(f"(() => {{ {find}; return (b.value - b.min) / (b.max - b.min); }})()")

        def at(place: float) -> dict[str, Any]:
            x = box[0] + 13 + place * (box[2] - 26)  # the thumb stays inside: style's --thumb
            return {"x": x, "y": box[1] + box[3] / 2, "button": "left", "buttons": 1, "clickCount": 1}

        self.call("Input.dispatchMouseEvent", type="mousePressed", **at(share))
        for place in places:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", **at(place))
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **at(places[-1]))

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """whole: also what lies below the window."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self.call("Page.close")
        self._open.close()

    def _note(self, message: dict[str, Any]) -> None:
        kind, about = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"].get("exception", {}).get("description", about)))
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value", one.get("description")) for one in about["args"]]))
        elif kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif kind == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif kind == "Network.webSocketCreated":
            self.requests.append(about["url"])
