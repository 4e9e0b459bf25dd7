"""Output folders: a command writes where nothing is, or where it wrote before, and nowhere else.

A folder is new, empty (but for hidden files) or ours: then `.sgjepa.json` in it names the command that made it and lists the
files it wrote, with their digests. Any other folder is refused, before the work. New files are written to a hidden folder
first and take their places together, so that a command that fails or is killed leaves the old ones as they were. What
others put into a folder of ours stays; so does a file of ours that somebody has changed since, under another name.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path, PurePosixPath

from sgjepa.core import files, lock
from sgjepa.core.errors import InputError
from sgjepa.core.records import check_seal

MARKER = ".sgjepa.json"
Written = dict[str, str | None]  # relative path -> SHA-256 of what we wrote; None: ours, whatever it holds


def check(path: Path, made_by: str, known: Sequence[str] = ()) -> Written:
    """Refuse a folder that this command must not write into; returns the files there that are its own.

    made_by: the command. known: names of its files, for folders made before there were markers: one that holds nothing
    else is ours.
    """
    if not path.exists() and not path.is_symlink():
        _require_writable(next(place for place in path.absolute().parents if place.exists()), path)
        return {}
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; choose another one or move it away")
    _require_writable(path, path)
    if (path / MARKER).is_file():
        return _listed(path, made_by)
    names = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
    if set(names) <= set(known):
        return dict.fromkeys(names)
    raise InputError(f"{path} is not empty and was not made by `{made_by}`; choose another folder or move it away")


@contextmanager
def output_folder(path: Path, made_by: str, whole: str, known: Sequence[str] = ()) -> Iterator[Path]:
    """A place to write files to; when the block ends without an error they, and only they, are ours in `path`.

    whole: the file that readers look for. It goes first and comes last, so that it never stands beside files of another
    making, not even when the process is killed while files take their places.
    """
    check(path, made_by, known)
    # inside a folder that exists: its parent may be another disk, or not ours to write to
    beside, inside = path.absolute(), path / "sgjepa"
    staged = files.temporary(inside if path.is_dir() else beside)
    _clear(beside)
    _clear(inside)
    staged.mkdir(parents=True)
    try:
        _mark(staged, made_by, {})
        yield staged
        made: Written = {name: digest for name, digest in files.digests(staged).items() if name != MARKER}
        if path.is_dir():
            with lock.for_a_moment(path):
                _replace(staged, path, made_by, made, whole, known)
        else:
            _mark(staged, made_by, made)
            staged.rename(path)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def add(path: Path, name: str, content: bytes) -> None:
    """One more file for a folder of ours, in place of an earlier one of that name."""
    if not (path / MARKER).is_file():  # made before there were markers
        files.write_bytes(path / name, content)
        return
    with lock.for_a_moment(path):
        maker, ours = _marked(path)
        _make_room(path, name, ours)
        # ours from before the first byte: a kill between the two must not make it look like somebody else's
        _mark(path, maker, ours | {name: None})
        files.write_bytes(path / name, content)
        _mark(path, maker, ours | {name: files.digest(path / name)})


def _require_writable(place: Path, path: Path) -> None:
    if not place.is_dir():
        raise InputError(f"{path} cannot be made: {place} is not a folder; choose another one")
    if not os.access(place, os.W_OK | os.X_OK):  # what writing would say, before the work
        why = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(why, os.strerror(why), str(path))


def _listed(path: Path, made_by: str) -> Written:
    """What the marker of this command lists."""
    maker, ours = _marked(path)
    if maker != made_by:
        raise InputError(f"{path} was made by `{maker}`, not by `{made_by}`; choose another folder or move it away")
    return ours


def _mark(path: Path, made_by: str, ours: Written) -> None:
    """With a seal: an edited list must not make somebody's file ours, nor ours somebody's."""
    files.write_json(path / MARKER, {"made_by": made_by, "files": ours, files.SEAL: ""})


def _marked(path: Path) -> tuple[str, Written]:
    """Who made the folder, and what is listed; a name that leads out of the folder is nobody's of ours."""
    cure = "choose another folder or move this one away"
    mark = files.read_json(path / MARKER, cure)
    maker, listed = (mark.get("made_by"), mark.get("files")) if isinstance(mark, dict) else (None, None)
    if not isinstance(maker, str) or not isinstance(listed, dict):
        raise InputError(f"{path / MARKER} was edited; {cure}")
    check_seal(mark, path / MARKER, cure)
    return maker, {
        name: digest if isinstance(digest, str) else None
        for name, digest in listed.items()
        if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    }


def _replace(staged: Path, path: Path, made_by: str, made: Written, whole: str, known: Sequence[str]) -> None:
    """Put what was made in the places of what we had made before, by renames alone."""
    ours = check(path, made_by, known)  # again: hours may have passed
    for left in path.glob(f".{MARKER}.*.tmp"):  # of one that was killed: we hold the folder
        left.unlink()
    for name in made:
        _make_room(path, name, ours)
    stale = [name for name in ours if name not in made and _unchanged(path / name, ours[name])]
    _mark(path, made_by, dict.fromkeys([*stale, *made]))
    for name in sorted([*stale, *({whole} & set(ours))], key=lambda name: name != whole):
        (path / name).unlink(missing_ok=True)
    for name in sorted(made, key=lambda name: name == whole):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).replace(path / name)
    for folder in {(path / name).parent for name in stale} - {path}:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    _mark(path, made_by, made)


def _make_room(path: Path, name: str, ours: Written) -> None:
    """Set aside what stands where a file of ours must go, if it is not ours."""
    for parent in reversed((path / name).relative_to(path).parents):
        if (path / parent).exists() and not (path / parent).is_dir():
            _set_aside(path / parent)
    place = path / name
    if (place.exists() or place.is_symlink()) and not (name in ours and _unchanged(place, ours[name])):
        _set_aside(place)


def _unchanged(place: Path, digest: str | None) -> bool:
    """Whether a file is as we wrote it, or gone."""
    if not place.exists():
        return not place.is_symlink()
    return place.is_file() and (digest is None or files.digest(place) == digest)


def _set_aside(place: Path) -> None:
    free = (place.with_name(f"{place.stem}.yours{number or ''}{place.suffix}") for number in count())
    kept = next(path for path in free if not path.exists())
    place.rename(kept)
    print(f"sgjepa: {place} is not as we left it; it is kept as {kept.name}", file=sys.stderr)


def _clear(path: Path) -> None:
    """Remove hidden folders beside the path that killed processes left; only ours have a marker."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if (left / MARKER).is_file() and files.abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
