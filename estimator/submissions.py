"""What one command would run, estimated: the body of `estimator.api.submissions`, for the gate before a submission."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from analyzer.api import Files
from analyzer.findings import Skipped
from estimator.affected import worst
from estimator.impact import verdict_of
from estimator.launch.base import Arg, LaunchConfig
from estimator.launch.slurm import directives
from estimator.launches import Launch, distinct, read, resolved, typed
from estimator.report import Estimate, Verdict
from estimator.resolve.closure import closure
from estimator.smoke import smoke_test
from estimator.submission import TYPED, Shell, batch_request

_Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One training command that a submission starts. `estimate` is the least favourable reading, `verdict` that of all;
    `files` everything the answer was read from, `sources` the launch files among it."""

    path: str
    line: int
    verdict: Verdict
    estimate: Estimate | None
    sources: frozenset[str]
    why: str
    smoke_test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submissions:
    """`asks_for_gpu` is False where the submission says that it wants none; `files` are all that the answer depends
    on; `notes` name what could not be read."""

    launches: tuple[Submission, ...]
    files: frozenset[str]
    asks_for_gpu: bool
    notes: tuple[Skipped, ...] = ()


@dataclass(slots=True)
class _Recording:
    """Remembers which files were read: the answer depends on their bytes."""

    files: Files
    seen: set[str] = field(default_factory=set)

    def paths(self) -> Collection[str]:
        """Every path that can be read."""
        return self.files.paths()

    def read(self, path: str) -> bytes | None:
        """The bytes of one file."""
        content = self.files.read(path)
        if content is not None:
            self.seen.add(path)
        return content


def submissions(files: Files, words: Sequence[str], labels: Mapping[str, str], shell: Shell) -> Submissions:
    """Raises `InputError` for a batch script that is not in the tree."""
    recording = _Recording(files)
    notes: list[Skipped] = []
    configs = typed(recording, words, labels, shell)
    groups: dict[_Key, list[LaunchConfig]] = {}
    for config in configs:
        groups.setdefault((config.path, config.line, config.command.script.text), []).append(config)
    found = tuple(_submission(recording, group, notes) for group in groups.values())
    known = set(recording.paths())
    named = {path for config in configs for path in closure(recording, config)}
    return Submissions(
        launches=found,
        files=frozenset((named | recording.seen) & known),
        asks_for_gpu=bool(configs) or _asks_for_gpu(recording, words, shell),
        notes=tuple(dict.fromkeys(notes)),
    )


def of_file(files: Files, path: str, labels: Mapping[str, str]) -> tuple[Submission, ...]:
    """The launches of one launch file."""
    groups: dict[_Key, list[LaunchConfig]] = {}
    for config in read(files, path, labels):
        groups.setdefault((config.path, config.line, config.command.script.text), []).append(config)
    return tuple(_submission(files, group, []) for group in groups.values())


def _submission(files: Files, configs: Sequence[LaunchConfig], notes: list[Skipped]) -> Submission:
    mine: list[Skipped] = []
    launches: list[Launch] = distinct([launch for config in configs for launch in resolved(files, config, mine)])
    notes += mine
    shown = worst(launches)
    first = configs[0]
    sources = frozenset(path for path in {first.path, *first.sources} if path != TYPED)
    estimates = [launch.estimate for launch in launches if launch.estimate is not None]
    return Submission(
        path=first.path if first.path != TYPED or not sources else min(sources),
        line=first.line if first.path != TYPED else 0,
        verdict=verdict_of(estimates),
        estimate=shown.estimate if shown is not None else None,
        sources=sources,
        why=_why(shown, mine),
        smoke_test=smoke_test(first.path, first.format, [word.text for word in first.command.words]),
    )


def _why(shown: Launch | None, notes: Sequence[Skipped]) -> str:
    """Why there is no answer, in one sentence."""
    if shown is None:
        return notes[0].reason if notes else "the command could not be followed"
    if shown.estimate is None:
        return shown.problem
    if shown.estimate.reasons:
        return shown.estimate.reasons[0]
    return "" if shown.estimate.targets else "nothing says which GPU it runs on"


def _asks_for_gpu(files: Files, words: Sequence[str], shell: Shell) -> bool:
    """Whether a command without a training command in it may use a GPU: only a batch script can say that it does not.
    A partition may hold GPUs, whatever the script asks for."""
    batch = batch_request(files, words, {}, shell)
    if batch is None:
        return True
    options = directives(batch.path, batch.content, batch.options).options
    named = [name for name in options if name.startswith("--gpus")]
    return bool(named) or "gpu" in options.get("--gres", Arg("", "", 0)).text or "--partition" in options
