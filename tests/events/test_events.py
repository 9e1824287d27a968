"""Small programs in ordinary styles and the events that must be seen in them: ``#> forward eval nograd; backward``.

``forward`` may say the mode (train, eval) and the grad mode (grad, nograd); ``backward`` has a graph to run through;
``step owned`` knows its modules; ``clear`` stands alone; ``nothing`` allows none of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.engine.events import Backward, Clear, Event, Forward, Step
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.knowledge.schema import knowledge
from analyzer.positions import spans
from analyzer.project import Project
from tests.analyzer.mdcases import Case, cases_in

DOCUMENTS = sorted(Path(__file__).parent.rglob("*.md"))
CASES = [
    pytest.param(case, id=f"{document.stem}: {case.title}") for document in DOCUMENTS for case in cases_in(document)
]


@pytest.mark.parametrize("case", CASES)
def test_events(case: Case) -> None:
    seen, skipped = observed(case)
    missing = [
        f"{path}:{number} {wanted}"
        for path, text in case.files.items()
        for number, line in enumerate(text.splitlines(), 1)
        for wanted in wishes(line)
        if not met(wanted.split(), seen.get((path, number), []))
    ]
    assert missing == []
    assert skipped == []


def wishes(line: str) -> list[str]:
    """The markers of one line."""
    return [part.strip() for part in line.partition("#>")[2].split(";") if part.strip()]


def observed(case: Case) -> tuple[dict[tuple[str, int], list[Event]], list[object]]:
    """Every event of every file run as a target, by line."""
    sources = Sources(Project(case))
    events: list[Event] = []
    skipped: list[object] = []
    for path in case.paths():
        program = Program(sources.project, knowledge(), sources)
        program.run_target(path)
        events += program.events
        skipped += program.skipped
    found: dict[tuple[str, int], list[Event]] = {}
    for path in case.paths():
        mine = [event for event in events if event.site.path == path]
        module, nodes = sources.tree(path)
        places = spans(module, path, {nodes[event.site.at] for event in mine})
        for event in mine:
            found.setdefault((path, places[nodes[event.site.at]].start.line), []).append(event)
    return found, skipped


def met(wanted: list[str], events: list[Event]) -> bool:
    """Whether one marker is met by an event of its line."""
    return any(wanted[0] in kinds(event) and set(wanted[1:]) <= set(facts(event)) for event in events) or (
        wanted == ["nothing"] and not any(list(kinds(event)) for event in events)
    )


def kinds(event: Event) -> Iterator[str]:
    """The name of an event in a marker."""
    if isinstance(event, Backward) and event.is_known:
        yield "backward"
    elif isinstance(event, Step):
        yield "step"
    elif isinstance(event, Clear):
        yield "clear"
    elif isinstance(event, Forward):
        yield "forward"


def facts(event: Event) -> Iterator[str]:
    """What else a marker may say of an event."""
    if isinstance(event, Forward):
        yield {"yes": "eval", "no": "train"}.get(event.is_eval, "?")
        yield {"yes": "grad", "no": "nograd"}.get(event.grad, "?")
    if isinstance(event, Step) and event.modules:
        yield "owned"
