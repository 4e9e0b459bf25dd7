"""The film of the viewer's page, recorded in a real browser from the models of the zoo: `python docs/make_film.py`."""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from PIL import Image

from sgjepa import zoo
from sgjepa.view.server import HOST, app, bind
from sgjepa.view.viewer import open_viewer

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from fixtures.browser import Browser, Tab  # noqa: E402

OUT = ROOT / "docs" / "images" / "viewer.webp"
RUNS = ("approach_ball_sg_jepa", "approach_ball_lewm")
LAUNCH, STEP = 1, 3  # frames of the world between two of the film
SIZE, SHARE = (1000, 905), 0.8  # of the window; what is kept of its pixels
DRAGS = ((9.8, 3.0), (3.0, 17.0))  # m/s^2: where the hand moves gravity
SHOWN_FOR = 130  # ms


def main() -> None:
    """Earth as trained, then the hand lowers gravity and raises it, and each time the clock runs once."""
    listening = bind(0)
    viewer = open_viewer([zoo.folder_of(name) for name in RUNS])
    server = uvicorn.Server(uvicorn.Config(app(viewer), log_level="error"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    serving.start()
    with Browser() as browser, tempfile.TemporaryDirectory() as folder:
        tab = browser.open(f"http://{HOST}:{listening.getsockname()[1]}/", *SIZE)
        frames = record(tab, Path(folder) / "frame.png")
        tab.close()
    server.should_exit = True
    serving.join(10)
    frames[0].save(
        OUT, save_all=True, append_images=frames[1:], duration=SHOWN_FOR, loop=0, quality=62, method=6, minimize_size=True
    )
    print(f"{OUT}: {len(frames)} frames, {OUT.stat().st_size / 1e6:.2f} MB")


def record(tab: Tab, place: Path) -> list[Image.Image]:
    """What the page shows."""
    frames: list[Image.Image] = []

    def take() -> None:
        tab.screenshot(place, whole=False)
        picture = Image.open(io.BytesIO(place.read_bytes())).convert("RGB")
        frames.append(picture.resize((round(SIZE[0] * SHARE), round(SIZE[1] * SHARE)), Image.Resampling.LANCZOS))

    rest(tab)
    tab.run(f"seed.value = {LAUNCH}, seed.dispatchEvent(new Event('change'))")
    rest(tab)
    tab.run("document.querySelector('.laws').scrollIntoView(), document.querySelector('.laws').style.position = 'static'")
    tab.run("document.documentElement.style.overflow = 'hidden'")
    play(tab, take)
    for start, end in DRAGS:
        for share in (0.2, 0.4, 0.6, 0.8, 1.0):
            move(tab, start + share * (end - start))
            take()
        rest(tab)
        play(tab, take)
    return frames


def play(tab: Tab, take: object) -> None:
    """The clock, once, without the wait for a real one."""
    assert callable(take)
    for frame in range(15, 64, STEP):
        tab.run(f"scrub.value = {frame}, scrub.dispatchEvent(new Event('input'))")
        take()


def move(tab: Tab, gravity: float) -> None:
    """As a hand would."""
    before = int(str(tab.run("document.body.dataset.answered")).split()[0])
    slider = "document.querySelector('#law-gravity')"
    tab.run(f"{slider}.value = {gravity}, ['input', 'change'].forEach((name) => {slider}.dispatchEvent(new Event(name)))")
    answered = "document.body.dataset.answered"
    tab.wait(f"parseInt({answered}) > {before} && / (answered|explanation|finished)$/.test({answered})")


def rest(tab: Tab) -> None:
    """Until all is answered."""
    tab.wait("document.body.dataset.answered?.endsWith('finished')", seconds=60)


if __name__ == "__main__":
    main()
