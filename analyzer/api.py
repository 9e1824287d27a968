"""The door of the analyzer: the only module, with `analyzer.findings`, that other packages import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from analyzer.errors import PreflightError
from analyzer.findings import Confidence, Edit, Finding, Fix, Report, Severity
from analyzer.fixes.apply import apply, choose
from analyzer.journal import Answers as Answers
from analyzer.journal import Journal as Journal
from analyzer.nesting import decode
from analyzer.programs import MAX_TEXT_BYTES as MAX_TEXT_BYTES
from analyzer.programs import files_to_ask as files_to_ask
from analyzer.programs import installs as installs
from analyzer.programs import is_code as is_code
from analyzer.programs import tells_who_calls as tells_who_calls

if TYPE_CHECKING:
    from analyzer.reduce import Reduced


class Files(Protocol):
    """The tree under analysis. Paths are relative POSIX paths; nothing outside the tree exists."""

    def paths(self) -> Collection[str]:
        """Every path that can be read (any file type)."""

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None where there is no such file."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to look for. `select` empty means every rule; codes are ``PF101`` or an alias such as ``TG001``."""

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    min_confidence: Confidence = Confidence.LIKELY
    has_all_texts: bool = True
    """False: texts of the tree that configure (`analyzer.programs.texts`) were left unread: nothing is concluded from
    what texts do not say."""


def analyze(files: Files, targets: Sequence[str], options: Options | None = None) -> Report:
    """Report the findings of the Python files `targets`; other files of the tree are read as imports lead to them.

    Never raises for what a file holds: an unreadable, over-long, too deeply nested or syntactically wrong file, or
    a bug of ours in one file or rule, becomes a `Skipped` entry and the other findings stand.
    """
    from analyzer import pipeline  # LibCST costs 0.3 s to import: callers that only estimate never pay it

    return pipeline.analyze(files, targets, options or Options())


def analyze_each(
    files: Files, targets: Iterable[str], options: Options, report_on: Collection[str], journal: Journal | None = None
) -> Iterator[tuple[str, Report]]:
    """`analyze`, one target at a time, for a caller that hands targets out as it goes: each with what it shows.

    A target may show a finding in another file it reaches; those in `report_on` are kept. So the same finding can come
    more than once, and the caller keeps the surest (`analyzer.findings.surest`). `journal` holds, when a target is
    reported, the questions that its report was made from.
    """
    from analyzer import one_by_one

    return one_by_one.analyze_each(files, targets, options, report_on, journal)


def answers(files: Files, report_on: Collection[str], options: Options) -> Answers:
    """What a tree answers today to the questions that a `Journal` holds, for `analyze_each` with the same."""
    from analyzer.notebooks.files import NotebookFiles
    from analyzer.project import Project

    return Answers(Project(NotebookFiles(files), has_all_texts=options.has_all_texts), report_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """What the documents say about a rule; `page` is Markdown with a title line."""

    code: str
    name: str
    alias: str | None
    severity: Severity
    since: str
    summary: str
    page: str


def rules() -> tuple[RuleFacts, ...]:
    """Every rule of the analyzer, by code."""
    from analyzer import catalogue

    return tuple(
        RuleFacts(
            code=rule.code,
            name=rule.name,
            alias=rule.alias,
            severity=rule.severity,
            since=rule.since,
            summary=(rule.__doc__ or "").strip().partition("\n")[0],
            page=catalogue.page(rule),
        )
        for rule in catalogue.rules()
    )


def extension_problems() -> tuple[str, ...]:
    """The rules and tables of other packages that cannot be used, each in words. Cheap where there are none."""
    from analyzer import extensions

    if not extensions.is_any():
        return ()
    from analyzer import catalogue
    from analyzer.knowledge import schema

    catalogue.rules()
    schema.knowledge()
    return extensions.problems()


def chosen_fixes(findings: Iterable[Finding], with_unsafe: bool = False) -> list[Fix]:
    """The fixes to apply together: safe ones (unless told otherwise) that do not overlap; the first one wins."""
    return choose(findings, with_unsafe)


def applied(source: bytes, edits: Iterable[Edit]) -> bytes:
    """The bytes of a file with `edits` made, nothing else changed: line ends, encoding and byte order mark stay.

    Raises ValueError where edits overlap, lie outside the file or hold what its encoding cannot say.
    """
    return apply(source, edits)


def reduced(files: Files, finding: Finding, entry: str) -> Reduced | None:
    """A small program that still shows `finding` when `entry` is analysed; None where none was found."""
    from analyzer import reduce

    return reduce.reduced(files, finding, entry)


def text_of(source: bytes) -> str | None:
    """The text of a Python file as its coding cookie says, without a byte order mark; None where it has none."""
    try:
        return decode(source)
    except ValueError:
        return None


def cell_lines(source: bytes) -> dict[int, tuple[str, ...]]:
    """The lines of a notebook's code cells, by the number of the cell; none where `source` is no notebook."""
    from analyzer.notebooks.cells import code_cells  # only reports on notebooks need them
    from analyzer.notebooks.magics import lines_of

    try:
        found, _ = code_cells(source.decode("utf-8-sig"))
        return {cell.number: tuple(line.rstrip("\r\n") for line in lines_of(cell.text)) for cell in found}
    except (ValueError, PreflightError):
        return {}


def imported_paths(source: bytes, path: str, known: Collection[str]) -> list[str]:
    """The files of the tree that `source` imports (relative, absolute, ``src/`` layouts), by a cheap text scan.

    For callers that must fetch files before an analysis; over-approximates a little, never executes anything. Raises
    `InputError` for a broken notebook.
    """
    from analyzer import project

    if path.endswith(".ipynb"):
        from analyzer.notebooks.program import read

        source = read(source).source
    return project.imported_paths(source, path, known)


# --- the estimator's question: which values reach this call? ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: a place in a file, with the words a person would look for (``--batch-size 8``)."""

    path: str
    line: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """A constant, where it was written, and what it overrides (outermost first)."""

    value: int | float | str | bool | tuple[object, ...] | None
    origin: Origin
    overrides: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """A value the program text does not show, and why (``argument --batch-size is required``)."""

    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that is itself the result of a call or a class: its qualified name (``torch.bfloat16``,
    ``torch.optim.AdamW``) and, for a call, where to find it in the answer (`CallSite.id`).

    A ``list`` or ``dict`` whose keys the text shows has `items`: each key (or index) with the values it may hold."""

    name: str
    call: int | None
    origin: Origin
    items: tuple[tuple[object, tuple[Argument, ...]], ...] | None = None


Argument = Known | Unseen | Ref


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call of a wanted callee. `arguments` maps keyword names, or positions as ``"0"``, to the values that may
    reach them (several when branches join). `receiver` is the object a method was called on. `is_open`: the call is
    given more, unpacked from what the code does not show (``**options``)."""

    id: int
    callee: str
    arguments: Mapping[str, tuple[Argument, ...]]
    receiver: tuple[Argument, ...]
    origin: Origin
    is_open: bool = False


def call_sites(
    files: Files, entry: str, callees: Collection[str], argv: Sequence[tuple[str, Origin]] = ()
) -> tuple[CallSite, ...]:
    """The calls of `callees` that running ``python entry ARGV…`` reaches, in program order.

    `callees` are qualified names (``torch.utils.data.DataLoader``); ``*.from_pretrained`` matches a method on
    anything. `argv` are the command's arguments after the script name, each with its origin: argparse options
    found in it override the defaults in the script, and the answer records both.
    """
    from analyzer import questions  # as in `analyze`

    return questions.call_sites(files, entry, callees, argv)


# --- the estimator's other question: which networks does the script train? ------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file and what is said about it."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """What a forward pass of one sample keeps for backward, in numbers (not bytes).

    `shape` is the sample's; `kind` is ``image`` (channels, height, width), ``volume`` (channels, depth, height, width),
    ``tokens`` (length), ``sequence`` (length, features), ``signal`` (channels, length), ``features`` or ``latent``.
    `kept`: where everything has one precision. `half` and `full`: under autocast, those kept in 16 and in 32 bits.
    `operands`: inputs of matmuls and convolutions with a trained weight. `indices`: int64 numbers. `masks`: bytes.
    `widest`: the largest tensor. `outputs`: what it returns. `recomputed`: the largest checkpointed part, which
    backward computes again.
    """

    kind: str
    shape: tuple[int, ...]
    kept: int
    half: int
    full: int
    operands: int
    indices: int
    masks: int
    widest: int
    outputs: int
    recomputed: int


@dataclass(frozen=True, slots=True)
class Network:
    """A class of the repository as a script builds and trains it.

    `params` are all parameters, `trained` those that need a gradient, `largest` the largest tensor of them; `layers`
    is how many modules have weights of their own. `gaps` are the parts whose parameters the text does not show: where
    there are any, the counts are of what is known. `passes` are forward passes, one for each usual input that
    fits; it is empty where the forward pass cannot be followed, and `problem` says why.
    """

    name: str
    path: str
    line: int
    params: int
    trained: int
    largest: int
    layers: int
    gaps: tuple[Place, ...]
    passes: tuple[ForwardPass, ...]
    problem: Place | None


def networks(
    files: Files,
    entry: str,
    argv: Sequence[tuple[str, Origin]] = (),
    *,
    image: tuple[int, int] | None = None,
    length: int | None = None,
    frames: int | None = None,
) -> tuple[Network, ...]:
    """The networks defined in the tree whose parameters ``python entry ARGV…`` gives to an optimizer.

    Their constructors and forward passes are followed as shapes; nothing is imported or executed. `image` (height and
    width in pixels), `length` (of a sequence) and `frames` are what is known of the input; without them usual sizes are
    tried.
    """
    from analyzer.networks import ask, survey  # as in `analyze`

    return ask.networks(files, entry, argv, survey.Wanted(image, length, frames))
