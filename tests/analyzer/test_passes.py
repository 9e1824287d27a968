"""How often the body of a loop is interpreted: again only where another pass could see something else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from analyzer import pipeline
from analyzer.api import Options, analyze
from analyzer.engine import control
from analyzer.engine import program as programs
from analyzer.engine.events import Backward
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.engine.state import FALSE, Asked, Base, State
from analyzer.engine.values import Scalar, const
from analyzer.findings import Confidence, Finding
from analyzer.fixes.verify import Analyse, verify
from analyzer.knowledge.schema import knowledge
from analyzer.project import Project
from tests.analyzer.engine.test_engine import TRAINING, Tree

CASES = sorted((Path(__file__).parents[1] / "cases").rglob("*.md"))
ALL = Options(min_confidence=Confidence.POSSIBLE)


def steps(source: str) -> int:
    sources = Sources(Project(Tree(train=source)))
    program = Program(sources.project, knowledge(), sources)
    before = program.budget_left
    program.run_target("train.py")
    return before - program.budget_left


def always_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "is_answered_alike", lambda *_: False)


def test_what_the_body_writes_before_it_reads_needs_no_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "for name in open('a'):\n    parts = [name, name]\n    last = parts[0]\n    print(last)\n"
    once = steps(source)
    monkeypatch.setattr(control, "MAX_PASSES", 1)
    assert once == steps(source)


@pytest.mark.parametrize(
    "body",
    [
        "    print(kept)\n    kept = name\n",
        "    if name:\n        kept = name\n    print(kept)\n    kept = 1.5\n",
        "    for each in kept:\n        print(each)\n    kept = [name]\n",
    ],
)
def test_what_the_body_reads_before_it_writes_does(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"kept = []\nfor name in open('a'):\n{body}"
    found = steps(source)
    monkeypatch.setattr(control, "MAX_PASSES", 1)
    assert found > 1.4 * steps(source)


def test_a_pass_that_runs_out_of_steps_takes_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_seen(allowed: int) -> bool:
        monkeypatch.setattr(programs, "ENTRY_BUDGET", allowed)
        sources = Sources(Project(Tree(train=TRAINING)))
        program = Program(sources.project, knowledge(), sources)
        program.run_target("train.py")
        return any(True for _ in program.of(Backward))

    whole = steps(TRAINING)
    seen = [is_seen(allowed) for allowed in range(whole + 1)]
    assert seen == sorted(seen)
    assert not seen[0]
    assert seen[whole // 2]


@pytest.mark.parametrize("start", range(4))
def test_the_findings_are_those_of_one_pass_more(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [block for path in CASES for block in path.read_text(encoding="utf-8").split("```python\n")[1:]]
    texts = {f"case_{number}": block.partition("```")[0] for number, block in enumerate(blocks)}
    chosen = Tree(**dict(list(texts.items())[start::60]))
    found = analyze(chosen, sorted(chosen.paths()), ALL)
    always_again(monkeypatch)
    assert found == analyze(chosen, sorted(chosen.paths()), ALL)


def test_what_is_asked() -> None:
    head, following = State(Base(), {1: {"x": Scalar()}}), State(Base(), {1: {"x": const(1), "y": Scalar()}})
    assert Asked().is_answered_alike(head, following)
    asked = head.base.asked
    head.get((1, "y"))
    assert not asked.is_answered_alike(head, following)
    asked = head.base.asked = Asked()
    head.get((1, "x"))
    assert not asked.is_answered_alike(head, following)
    asked = head.base.asked = Asked()
    head.fields(1)
    assert not asked.is_answered_alike(head, following)


def test_a_flag_that_says_no_is_as_good_as_none() -> None:
    head = State(Base())
    head.flag("gradients", "is fresh")
    assert head.base.asked.is_answered_alike(head, State(Base(), {"gradients": {"is fresh": FALSE}}))
    assert not head.base.asked.is_answered_alike(head, State(Base(), {"gradients": {"is fresh": const(True)}}))


def test_what_is_emptied_first_is_not_asked_of_the_pass_before() -> None:
    state = State(Base())
    state.clear(1)
    state.add((1, "[0]"), Scalar())
    assert state.base.asked.is_answered_alike(State(Base()), state)


def test_fixes_that_nobody_will_see_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    source = TRAINING.replace("import torch\n", "import torch\nimport secret\n")
    tree = Tree(train=source.replace("opt.zero_grad()", "secret.prepare(opt)"))
    every = analyze(tree, ["train.py"], ALL).findings
    unsure = [item for item in every if item.fix and item.confidence is Confidence.POSSIBLE]
    assert unsure
    tried: list[str] = []

    def noted(source: bytes, findings: Sequence[Finding], again: Analyse) -> tuple[Finding, ...]:
        tried.extend(item.rule for item in findings if item.fix)
        return verify(source, findings, again)

    monkeypatch.setattr(pipeline, "verify", noted)
    analyze(tree, ["train.py"], Options())
    assert {item.rule for item in unsure}.isdisjoint(tried)
