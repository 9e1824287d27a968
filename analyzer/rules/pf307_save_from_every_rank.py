"""PF307 save-from-every-rank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.engine.data_events import Saved, Sharded
from analyzer.engine.events import Backward, Event, Guard, Step
from analyzer.engine.loading import DEVICE_NAMES, RANK_WORDS, asks_for_rank, loading
from analyzer.engine.origins import origins
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.words import asked_around, spelled, words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.iteration import extra_guards
from analyzer.rules.offered import is_offered
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, walk

_EXISTS = re.compile(r"\b(?:exists|is_?file|is_?dir)\b")
_CHOOSES = re.compile(
    RANK_WORDS.pattern
    + r"|main|primary|leader|chief|gpu|device|logger|\.log\b|writer|dist|proc|nan\b|finite|debug"
    + r"|(?<![a-z])tpu|xla|to_disk",
    re.IGNORECASE,
)
"""What a branch may say that one process takes (a rank under any name), that is taken when something went wrong, or on
a TPU, where saving is for every process and only the first one writes."""


class SaveFromEveryRank(Rule):
    """Every rank writes the same file.

    ## Why it matters
    Replicated training has the same weights on every rank. If all of them save to one path, they write over each other:
    the file may be cut or mixed, and the shared disk gets the traffic of all ranks at once. It often works, until the
    checkpoint is needed.

    ## Example
    ```python
    model = DistributedDataParallel(model)
    for epoch in range(epochs):
        train(model)
        torch.save(model.module.state_dict(), "last.pt")
    ```

    ## Use instead
    ```python
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "last.pt")
    ```

    ## When it stays quiet
    When a branch around the call, in the function or in a caller, asks for the rank, or one left before; when the file
    is named after the rank; for sharded training, where every rank must save; in a program of one process. A file that
    is written where it does not exist yet, and ``save_pretrained`` of what may be a tokenizer, are possible. A note
    where several processes are an option that is off by default.

    ## Fix safety
    No automatic fix: which process writes, and who waits for it, is the author's choice.
    """

    code = "PF307"
    name = "save-from-every-rank"
    severity = Severity.WARNING
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A file written in replicated training, with nothing that asks for the rank."""
        saved = list(program.of(Saved))
        several = loading(program).distributed if saved else []
        if any(event.how in {"sharded", "engine"} for event in several):
            return
        wraps = [event for event in several if event.how == "replicated"]
        meant = [event for event in wraps if not is_offered(program, event)]
        wrap: Event | None = next(iter([*meant, *wraps]), None)
        wrap = wrap or (_prepared(program) if saved else None)
        if wrap is None:
            return
        seen: set[Site | None] = set()
        for event in saved:
            if event.function in seen or _is_by_rank(program, event) or _is_in_memory(program, event):
                continue
            if any(_may_choose(program, guard) for guard in extra_guards(event, wrap)):
                continue
            if _is_alone(program, event, wraps) or _asks_in_text(program, event):
                continue
            seen.add(event.function)
            report(
                event.site,
                f"Every rank {{does write}} this file (`{event.callee}`): nothing asks for the rank first. Save on "
                "one rank only.",
                because=[wrap.trace, event.trace],
                severity=Severity.NOTE if wraps and not meant else None,
                gaps=[
                    Gap.CONVENTION if _runs_everywhere(program, event, wrap) else Gap.UNSEEN,
                    *_cached(program, event),
                    *([Gap.UNSEEN] if _is_open(program, event) else []),
                ],
            )


def _asks_in_text(program: Program, event: Saved) -> bool:
    """Whether a condition around the call, or around a caller's, speaks of the rank; it was no question where the rank
    is given (``train(rank=0)`` beside ``mp.spawn(train)``)."""
    sites = (event.site, *event.calls)
    return any(RANK_WORDS.search(spelled(test)) for site in sites for test in asked_around(program, site))


def _is_alone(program: Program, event: Saved, wraps: Sequence[Event]) -> bool:
    """Whether the file is written where a condition does not hold that every wrapping of a model asks for:
    ``if self.ddp: wrap`` and ``if not self.ddp: save``."""
    asked = [{_answer(program, guard) for guard in each.guards} for each in wraps]
    needed = set.intersection(*asked) if asked else set()
    return any(
        (said, not holds) in needed for said, holds in (_answer(program, guard) for guard in event.guards) if said
    )


def _answer(program: Program, guard: Guard) -> tuple[str, bool]:
    """A name or attribute that a branch asks for, and whether it holds there."""
    node = words(program).node(guard.site)
    test, holds = (node.test, guard.taken) if isinstance(node, ir.If) else (None, guard.taken)
    while isinstance(test, ir.Operation) and test.op == "not":
        test, holds = test.left, not holds
    return ((dotted(test) or "") if test is not None else "", holds)


def _is_open(program: Program, event: Saved) -> bool:
    """Whether the name of the file is put together with an argument whose value nobody has seen."""
    return event.file_at is not None and origins(program).is_open(Site(event.site.path, event.file_at))


def _is_in_memory(program: Program, event: Saved) -> bool:
    """``buffer = io.BytesIO()``: nothing is written to a disk."""
    return (
        event.file_at is not None and "BytesIO()" in origins(program).of(Site(event.site.path, event.file_at)).split()
    )


def _cached(program: Program, event: Saved) -> list[Gap]:
    """A file that is only written where it is not there yet is a cache: one run makes it for all later ones."""
    return [Gap.UNSEEN for guard in event.guards if _EXISTS.search(words(program).of(guard.site))]


def _prepared(program: Program) -> Event | None:
    """Where Accelerate takes a model over."""
    for event in program.of(Sharded):
        if event.by == "Accelerator" and any(program.objects[obj].kind == "Module" for obj in event.objects):
            return event
    return None


def _may_choose(program: Program, guard: Guard) -> bool:
    """Whether a branch may be taken by one process only; one that compares with 0 is taken for a rank."""
    said = words(program).of(guard.site)
    if _CHOOSES.search(said) or (not guard.is_periodic and "0" in said.split()):
        return True
    return asks_for_rank(program, guard.site) or origins(program).is_unseen(guard.site)


def _is_by_rank(program: Program, event: Saved) -> bool:
    """Whether the file is named after the rank, or the function is for one rank only."""
    named = _named(program, Site(event.site.path, event.file_at)) if event.file_at is not None else ""
    if RANK_WORDS.search(named) or DEVICE_NAMES.search(named):
        return True
    if event.file_at is not None and asks_for_rank(program, Site(event.site.path, event.file_at)):
        return True
    node = words(program).node(event.function) if event.function is not None else None
    decorators = node.decorators if isinstance(node, ir.FunctionDef) else ()
    return any(RANK_WORDS.search(spelled(each)) for each in decorators)


def _named(program: Program, file: Site) -> str:
    """The words of a file's name, with those of the values that a variable gets in the same function."""
    node, function = words(program).node(file), program.function_around(file)
    said = [words(program).of(file)]
    if isinstance(node, ir.Name) and function is not None:
        for each in walk(function.body, False):
            if isinstance(each, ir.Assign) and each.value is not None:
                names = set(assigned_names(each))
                said += [spelled(each.value)] if node.id in names else []
    return " ".join(said)


def _runs_everywhere(program: Program, event: Event, wrap: Event) -> bool:
    """Whether every rank gets here: the entry that leads here wraps the model, or trains."""
    entry = event.calls[:1]
    if wrap.calls[:1] == entry:
        return True
    return any(other.calls[:1] == entry for kind in (Backward, Step) for other in program.of(kind))
