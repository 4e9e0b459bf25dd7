"""The viewer as a user meets it: the command, its server, and its page in a real browser."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest
from browser import BROWSER, Browser, Tab
from viewed import viewed
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sgjepa import cli
from sgjepa.view import html

__all__ = ["viewed"]  # a fixture
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no browser: sgjepa doctor --fix browser")
READY = "document.body.dataset.answered?.endsWith('rest') && true"
PAINTED = "document.querySelector('{} canvas').toDataURL()"


@contextlib.contextmanager
def running(
    runs: list[Path], folder: Path, package: Path = Path(__file__).parent.parent / "src", python: str = sys.executable
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command itself, in an empty folder, and its port. package: the folder that sgjepa is imported from."""
    command = [python, "-m", "sgjepa", "view", *map(str, runs), "--port", "0", "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        said = process.stdout.readline()
        port = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        assert port, process.stderr and process.stderr.read()
        yield process, int(port[1])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def port(viewed: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running(viewed, tmp_path_factory.mktemp("server")) as (_, found):
        yield found


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    found = answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def socket_to(port: int, **how: Any) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}/live", max_size=None, **how)


def hear(client: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of that kind, without its pictures."""
    while True:
        content = client.recv(timeout=60)
        assert isinstance(content, bytes)
        length = int.from_bytes(content[:4], "little")
        head: dict[str, Any] = json.loads(content[4 : 4 + length])
        if head["kind"] == kind:
            return head | {"bytes": len(content) - 4 - length}


def question(number: int, gravity: float, **changes: Any) -> str:
    return json.dumps({"number": number, "world": "square", "seed": 0, "law": {"gravity": gravity}, "models": []} | changes)


# --- what the server gives, and to whom ----------------------------------------------------------------------------


def test_it_serves_the_files_of_its_page_and_nothing_else(port: int) -> None:
    own = ["/", "/view.css", "/live.js", "/about", *(f"/{name}.js" for name in html.MODULES)]
    assert [get(port, path)[0] for path in own] == [200] * len(own)
    others = [
        "/server.py",
        "/page/main.js",
        "/../server.py",
        "/%2e%2e/server.py",
        "//etc/passwd",
        "/still.js",
        "/index.html",
    ]
    assert [get(port, path)[0] for path in others] == [404] * len(others)


def test_every_answer_forbids_what_the_page_does_not_need(port: int) -> None:
    _, headers, body = get(port, "/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert b"http://" not in body
    assert b"https://" not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "[::1]"])
def test_requests_that_name_another_host_are_refused(port: int, host: str) -> None:
    assert get(port, "/", host)[0] == 400
    assert get(port, "/about", host)[0] == 400


def test_a_page_of_another_origin_cannot_open_the_socket(port: int) -> None:
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        with pytest.raises(InvalidStatus), socket_to(port, origin=origin):
            pass
    with socket_to(port, origin=f"http://127.0.0.1:{port}") as client:
        client.send(question(1, 4.0))
        assert hear(client, "truth")["number"] == 1


def test_it_listens_to_this_machine_only(port: int) -> None:
    mine = [one.laddr for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port]
    assert {address.ip for address in mine} == {"127.0.0.1"}


def test_malformed_messages_are_answered_and_the_socket_stays(port: int) -> None:
    with socket_to(port) as client:
        for message in ("{", "[]", b"\x00\xff", question(3, 5000.0), question(4, 4.0, models=["x"]), "7" * 30_000):
            client.send(message)
            said = hear(client, "error")["message"]
            assert len(said.splitlines()) == 1
        client.send(question(5, 4.0))
        found = hear(client, "truth")
        assert found["number"] == 5
        assert found["bytes"] == 64 * 32 * 32 * 3
        assert hear(client, "done")["number"] == 5


def test_two_clients_at_once_each_see_their_own_law(port: int) -> None:
    with socket_to(port) as one, socket_to(port) as other:
        one.send(question(1, 1.0))
        other.send(question(1, 9.0))
        first, second = hear(one, "truth"), hear(other, "truth")
        assert first["outline"] != second["outline"]


# --- the command ---------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_one_line(viewed: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert cli.main(["view", str(viewed[0]), "--port", str(number), "--no-browser"]) == 4
    assert capsys.readouterr().err == (
        f"sgjepa: error: port {number} is taken; choose another --port, or 0 for any that is free\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["zoo:nobody"], "unknown model of the zoo 'nobody'"),
        (["nowhere", "--port", "70000"], "--port must lie between 0 and 65535"),
        (["nowhere", "--laws", "3"], "add --export DIR"),
        (["nowhere", "--export", "out", "--laws", "1"], "at least 2 values"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["view", "--no-browser", *([] if "--port" in arguments else ["--port", "0"]), *arguments]) == 3
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_line_names_it(
    viewed: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "starlette" else real(name))
    assert cli.main(["view", str(viewed[0]), "--no-browser"]) == 4
    assert "pip install 'sgjepa[view]'" in capsys.readouterr().err


def require_gone(folder: Path, port: int) -> None:
    """Nothing is left of a server: no file, nobody on its port."""
    assert list(folder.iterdir()) == []
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_server_says_so_in_one_line_and_leaves_nothing_behind(
    viewed: list[Path], tmp_path: Path, number: signal.Signals
) -> None:
    with running(viewed[:1], tmp_path) as (process, port):
        with socket_to(port) as client:
            client.send(question(1, 4.0, models=[viewed[0].name]))
            hear(client, "truth")
            assert psutil.Process(process.pid).children(recursive=True) == []
            process.send_signal(number)
            process.wait(timeout=120)  # while the page is still open: it does not hold the server
        assert process.returncode == 130
        assert process.stderr
        assert process.stderr.read() == "sgjepa: the viewer is closed; run the same command again to go on\n"
    require_gone(tmp_path, port)


# --- the page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture
def tab(chromium: Browser, port: int) -> Iterator[Tab]:
    """The page, with all its answers, at rest."""
    found = chromium.open(f"http://127.0.0.1:{port}/")
    found.wait(READY)
    found.key(" ")
    yield found
    assert found.complaints == []
    assert [one for one in found.requests if not re.match(rf"(http|ws)://127\.0\.0\.1:{port}/|data:", one)] == []
    found.close()


def seen(tab: Tab) -> dict[str, Any]:
    """What a person could tell apart."""
    return {
        "truth": tab.run(PAINTED.format(".panel:nth-child(1)")),
        "imagined": tab.run(PAINTED.format(".panel:nth-child(2)")),
        "curve": tab.run("document.querySelector('#curve path')?.getAttribute('d')"),
        "words": tab.run("document.querySelector('.panel:nth-child(2) .chip')?.textContent"),
        "law": tab.run("document.querySelector('#true output').textContent"),
        "frame": tab.run("document.querySelector('#time').textContent"),
    }


def settled(tab: Tab, before: str) -> None:
    """All answers to something newer than what `before` names are there."""
    tab.wait(f"{READY} && parseInt(document.body.dataset.answered) > parseInt('{before}')")


def answered(tab: Tab) -> str:
    return str(tab.run("document.body.dataset.answered"))


@needs_browser
def test_the_charts_cursor_stays_inside_its_axes(tab: Tab) -> None:
    place = """(() => { const grid = document.querySelector('#curve .grid').getBoundingClientRect();
      const marks = [...document.querySelectorAll('#curve .cursor, #curve .dot-mark')];
      return marks.map((mark) => { const box = mark.getBoundingClientRect(), at = box.x + box.width / 2;
        return [mark.getAttribute('visibility'), grid.left - 1 <= at && at <= grid.right + 1, at - grid.left]; }); })()"""
    shown = {}
    for frame in (0, 19, 20, 40, 63):
        tab.run(f"scrub.value = {frame}, scrub.dispatchEvent(new Event('input'))")
        shown[frame] = tab.run(place)
        assert len(shown[frame]) == 3, "the cursor, and a dot of each model"
        assert all(inside for _, inside, _ in shown[frame])
    assert {kind for frame in (0, 19) for kind, *_ in shown[frame]} == {"hidden"}, "nothing is imagined yet"
    assert {kind for frame in (20, 40, 63) for kind, *_ in shown[frame]} == {"visible"}
    assert shown[20][0][2] == pytest.approx(0, abs=1), "the first imagined frame stands on the left axis"
    assert shown[20][0][2] < shown[40][0][2] < shown[63][0][2]


@needs_browser
def test_dragging_gravity_changes_frames_and_the_curve_follows(tab: Tab) -> None:
    tab.run("scrub.value = 40, scrub.dispatchEvent(new Event('input'))")
    before, mark = seen(tab), answered(tab)
    assert before["words"] == "inside"
    tab.drag("#true-gravity", [0.6, 0.7, 0.8, 0.85, 0.9])
    settled(tab, mark)
    after = seen(tab)
    assert after["law"].startswith("g = 8.8")
    assert "sigma out" in after["words"]
    assert {key for key in before if before[key] == after[key]} == {"frame"}
    assert tab.run("document.querySelectorAll('#answers li').length") == 2


@needs_browser
def test_another_law_can_be_told_and_the_truth_stays(tab: Tab) -> None:
    tab.run("scrub.value = 40, scrub.dispatchEvent(new Event('input'))")
    before, mark = seen(tab), answered(tab)
    tab.run("document.querySelector('#unlock').click()")
    settled(tab, mark)
    mark = answered(tab)
    tab.drag("#told-gravity", [0.95])
    settled(tab, mark)
    after = seen(tab)
    assert after["truth"] == before["truth"]
    assert after["law"] == before["law"]
    assert after["imagined"] != before["imagined"]
    assert after["curve"] != before["curve"]
    assert "sigma out" in after["words"]
    assert tab.run("document.querySelector('#valley line.told-law') !== null")


@needs_browser
def test_who_comes_back_to_the_page_finds_it_as_it_begins(tab: Tab) -> None:
    mark = answered(tab)
    tab.run("document.querySelector('#unlock').click()")
    settled(tab, mark)
    tab.go("about:blank")
    tab.run("setTimeout(() => history.back())")  # answered before the page is left
    tab.wait(f"document.body && {READY}")
    assert not tab.run("unlock.checked")
    assert tab.run("told.hidden")


@needs_browser
def test_without_models_nothing_stands_that_they_said(tab: Tab) -> None:
    mark = answered(tab)
    tab.run("[...document.querySelectorAll('#models input')].forEach((box) => box.click())")
    settled(tab, mark)
    assert tab.run("document.querySelectorAll('#answers li, #valley path, #curve path').length") == 0
    assert not tab.run("valley.classList.contains('busy')")


@needs_browser
def test_the_keyboard_does_it_all(tab: Tab) -> None:
    tab.run("scrub.value = 10, scrub.dispatchEvent(new Event('input'))")  # not at an end, wherever it was paused
    before, mark = seen(tab), answered(tab)
    tab.key("ArrowRight")
    assert seen(tab)["frame"] != before["frame"]
    tab.key("ArrowLeft")
    assert seen(tab)["frame"] == before["frame"]
    tab.key("ArrowUp")
    settled(tab, mark)
    assert seen(tab)["law"] != before["law"]
    mark = answered(tab)
    tab.key("n")
    settled(tab, mark)
    assert tab.run("document.querySelector('#seed').value") == "1"
    mark = answered(tab)
    tab.key("t")
    settled(tab, mark)
    assert tab.run("document.querySelector('#unlock').checked && !document.querySelector('#told').hidden")
    tab.key(" ")
    assert tab.run("document.querySelector('#play').getAttribute('aria-label')") == "Pause"


@needs_browser
def test_everything_one_can_use_has_a_name(tab: Tab) -> None:
    nameless = tab.run("""[...document.querySelectorAll("input, select, button")].filter((one) =>
      !(one.labels?.length || one.getAttribute("aria-label") || one.textContent.trim())).map((one) => one.outerHTML)""")
    assert nameless == []
    assert tab.run("[...document.querySelectorAll('canvas')].every((one) => one.getAttribute('aria-label'))")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_it_fits_the_screen(chromium: Browser, port: int, dark: bool) -> None:
    tab = chromium.open(f"http://127.0.0.1:{port}/", 390, 844, dark)
    tab.wait(READY)
    assert tab.run("document.documentElement.scrollWidth") == 390
    wide = tab.run("[...document.querySelectorAll('main *')].filter((o) => o.getBoundingClientRect().right > 391).length")
    assert wide == 0
    ground = tab.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(22, 24, 27)" if dark else "rgb(255, 255, 255)")
    assert tab.complaints == []
    tab.close()


@needs_browser
def test_trouble_is_said_on_the_page_and_a_killed_server_leaves_nothing_behind(
    chromium: Browser, viewed: list[Path], tmp_path: Path
) -> None:
    with running(viewed[:1], tmp_path) as (process, port):
        tab = chromium.open(f"http://127.0.0.1:{port}/")
        tab.wait(READY)
        tab.run("seed.value = 99999999, seed.dispatchEvent(new Event('change'))")
        assert "seed must be a whole number" in tab.wait("!trouble.hidden && trouble.textContent")
        tab.run("seed.value = 2, seed.dispatchEvent(new Event('change'))")
        tab.wait("trouble.hidden")
        process.kill()
        assert "server has stopped" in tab.wait("!trouble.hidden && trouble.textContent")
        tab.close()
        process.wait()
    require_gone(tmp_path, port)


@needs_browser
def test_an_exported_page_works_from_a_file(
    chromium: Browser, viewed: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["view", *map(str, viewed), "--export", str(tmp_path / "out"), "--laws", "2", "--seeds", "2"]
    assert cli.main(command) == 0
    page = Path(capsys.readouterr().out.strip())
    tab = chromium.open(page.as_uri())
    tab.wait(READY)
    tab.key(" ")
    tab.run("scrub.value = 40, scrub.dispatchEvent(new Event('input'))")
    words = "document.querySelector('.panel:nth-child(2) .chip').textContent"
    curve = "document.querySelector('#curve path').getAttribute('d')"
    before, mark = (tab.run(words), tab.run(curve)), answered(tab)
    assert before[0] == "inside"
    tab.drag("#true-gravity", [1.0])
    settled(tab, mark)
    assert "sigma out" in tab.run(words)
    mark, away = answered(tab), tab.run(curve)
    assert away != before[1]
    tab.key("t")
    settled(tab, mark)
    mark = answered(tab)
    tab.drag("#told-gravity", [0.0])
    settled(tab, mark)
    assert tab.run(curve) != away
    tab.key("n")
    tab.wait("document.querySelector('#seed').value === '1'")
    assert tab.complaints == []
    place = page.parent.as_uri()
    assert [one for one in tab.requests if not one.startswith((place, "data:"))] == []
    tab.close()
    assert cli.main(command) == 0, "made again in the same place"
