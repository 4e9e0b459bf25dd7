"""The page of trials, until experiments build their pages themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sgjepa.report.closed_loop import Latents, closed_loop_page
from sgjepa.report.page import write_page
from sgjepa.results.control import Played


def write_control(
    played: Played, out: Path, made_by: str, known: Sequence[str] = (), latents: Latents | None = None
) -> Path:
    """Write the page; returns it."""
    from sgjepa.envs import find
    from sgjepa.policies.films import film

    results = played.as_table
    firsts = {arm: results.driven(arm).first for arm in results.arms}
    films = {arm: film(one.folder, one.about, one.table) for arm, one in firsts.items()}
    page = closed_loop_page(results, find(results.world).env_spec, films, latents)
    return write_page(page, out, made_by)
