"""Every launch config of a tree, each with its least favourable reading: the body of `estimator.api.inventory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analyzer.api import Files
from analyzer.findings import Skipped
from estimator.affected import impact_of, launches_by_command
from estimator.impact import Impact, Impacts
from estimator.launches import MAX_CANDIDATES, candidates, num_candidates, read

MAX_LAUNCHES = 300


@dataclass(frozen=True, slots=True)
class _Listed:
    """Paths without their bytes."""

    names: list[str]

    def paths(self) -> list[str]:
        """Every path."""
        return self.names

    def read(self, path: str) -> bytes | None:
        """Nothing."""
        return None


def inventory(files: Files, labels: Mapping[str, str], is_wanted: Callable[[str], bool]) -> Impacts:
    """The launches in the files that `is_wanted`, at most `MAX_LAUNCHES`. Never raises for what a file holds."""
    notes: list[Skipped] = []
    found: list[Impact] = []
    wanted = _Listed([path for path in files.paths() if is_wanted(path)])
    listed = candidates(wanted)
    for index, path in enumerate(listed):
        if len(found) >= MAX_LAUNCHES:
            rest = len(listed) - index
            notes.append(Skipped(path, f"and {rest - 1} more files not estimated: {MAX_LAUNCHES} launches were found"))
            break
        mine: list[Skipped] = []
        try:
            groups = launches_by_command(files, read(files, path, labels, mine), mine)
            found += [impact for readings in groups.values() if (impact := impact_of(readings, {})) is not None]
        except Exception as error:  # noqa: BLE001  boundary: one file must not hide the others, and the note is shown
            mine.append(Skipped(path, f"launches not read: {type(error).__name__} in Preflight (please report)"))
        notes += mine if b"#SBATCH" in (files.read(path) or b"") else ()
    rest = num_candidates(wanted) - MAX_CANDIDATES
    if rest > 0:
        notes.append(Skipped(".", f"{rest} more files may start runs and were not read; `launch` can name some"))
    impacts = Impacts(found[:MAX_LAUNCHES])
    impacts.notes = tuple(dict.fromkeys(notes))
    return impacts
