"""How often the body of a loop is interpreted: again only where another pass could see something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer import pipeline
from analyzer.api import Options, analyze
from analyzer.engine import control
from analyzer.engine import program as programs
from analyzer.engine.events import Backward, Forward
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.engine.state import FALSE, Asked, Base, State, merge
from analyzer.engine.values import Ref, Scalar, Value, const
from analyzer.findings import Confidence, Finding, Report
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
    found = told(chosen)
    always_again(monkeypatch)
    assert found == told(chosen)


def told(files: Tree) -> Report:
    """All that is found, but for which of several witnesses of the same thing the evidence names: the last `train()` of
    a loop is one as the one before it is."""
    report = analyze(files, sorted(files.paths()), ALL)
    return replace(report, findings=tuple(replace(each, evidence=each.evidence[-1:]) for each in report.findings))


def test_what_is_asked() -> None:
    head, following = a_pass({"x": Scalar()}), State(Base(), {1: {"x": const(1), "y": Scalar()}})
    assert is_alike(head, following)
    head.get((1, "y"))
    assert not is_alike(head, following)
    head = a_pass({"x": Scalar()})
    head.get((1, "x"))
    assert not is_alike(head, following)
    head = a_pass({"x": Scalar()})
    head.fields(1)
    assert not is_alike(head, following)


def test_what_a_pass_has_put_there_itself_is_not_asked_of_the_pass_before() -> None:
    head, following = a_pass({"x": const(1)}), State(Base(), {1: {"x": Scalar()}})
    path = head.fork()
    path.set((1, "x"), Scalar())
    path.get((1, "x"))
    path.fields(1)
    assert is_alike(head, following)


def test_where_paths_meet_it_counts_who_asks_afterwards() -> None:
    head, following = a_pass({"x": const(1)}), State(Base(), {1: {"x": Scalar()}})
    path, other = head.fork(), head.fork()
    path.set((1, "x"), const(2))
    met = merge([path, other])
    assert met is not None
    assert is_alike(head, following)
    met.get((1, "x"))
    assert not is_alike(head, following)


def test_where_paths_meet_that_both_have_set_it_nobody_asks_for_what_was_before() -> None:
    head, following = a_pass({"x": const(1)}), State(Base(), {1: {"x": Scalar()}})
    path, other = head.fork(), head.fork()
    path.set((1, "x"), const(2))
    other.set((1, "x"), const(3))
    met = merge([path, other])
    assert met is not None
    met.get((1, "x"))
    assert is_alike(head, following)


def test_a_list_that_grows_is_not_asked_what_it_held() -> None:
    head = a_pass({})
    path = head.fork()
    path.add((1, "[]"), Scalar())
    assert is_alike(head, path)
    path.get((1, "[]"))
    assert is_alike(head, path)
    path.add((1, "[]"), const("x"))
    assert not is_alike(head, path)  # what was read in between is more by now


def test_which_objects_are_held_is_no_question_about_flags() -> None:
    head = a_pass({"is eval": FALSE})
    head.values(1)
    assert is_alike(head, State(Base(), {1: {"is eval": const(True)}}))
    assert not is_alike(head, State(Base(), {1: {"is eval": FALSE, "layer": Ref(2)}}))


def test_a_flag_that_says_no_is_as_good_as_none() -> None:
    head = a_pass({})
    head.flag(1, "is fresh")
    assert is_alike(head, State(Base(), {1: {"is fresh": FALSE}}))
    assert not is_alike(head, State(Base(), {1: {"is fresh": const(True)}}))


def test_what_is_emptied_first_is_not_asked_of_the_pass_before() -> None:
    head = a_pass({})
    path = head.fork()
    path.clear(1)
    path.add((1, "[0]"), Scalar())
    assert is_alike(head, path)


def a_pass(fields: dict[str, Value]) -> State:
    """The state that a pass begins with: one object, 1, and its fields."""
    head = State(Base(), {1: fields})
    head.base.asked = Asked(head.held, {})
    return head


def is_alike(head: State, following: State) -> bool:
    return head.base.asked.is_answered_alike(head, following, lambda objects: False)


STATE_DICTS = """
import torch
model = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), 1)
for x, y in torch.utils.data.DataLoader([]):
    opt.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    opt.step()
    if x:
        KEPT
model.load_state_dict(torch.load("x"))
"""


@pytest.mark.parametrize(
    ("kept", "is_held"),
    [
        ("torch.save(model.state_dict(), 'x')", False),
        ("torch.save({'model': model.state_dict(), 'more': [1]}, 'x')", False),
        ("best = model.state_dict()", True),
        ("best = {'model': model.state_dict()}", True),
    ],
)
def test_a_state_dict_that_nobody_keeps_costs_no_pass(
    kept: str, is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = STATE_DICTS.replace("KEPT", kept)
    found = steps(source)
    monkeypatch.setattr(control, "MAX_PASSES", 1)
    assert (found > 1.3 * steps(source)) is is_held


TWO_MODELS = """
import sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.drop = torch.nn.Dropout()

    def forward(self, x):
        for _ in range(3):
            x = self.drop(self.layer(x))
        return x

class Holder:
    def __init__(self):
        self.network = Net()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)

    def update(self, x, y):
        self.network.train()
        loss = torch.nn.functional.mse_loss(self.network(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def predict(self, x):
        self.network.eval()
        with torch.no_grad():
            return self.network(x)

def main():
    if len(sys.argv) > 2:
        held = Holder()
    else:
        held = Holder()
    for epoch in range(9):
        for x, y in torch.utils.data.DataLoader([]):
            held.update(x, y)
        for x, y in torch.utils.data.DataLoader([]):
            held.predict(x)

main()
"""


def test_a_loop_of_one_object_does_not_begin_with_the_state_of_that_of_another() -> None:
    sources = Sources(Project(Tree(train=TWO_MODELS)))
    program = Program(sources.project, knowledge(), sources)
    program.run_target("train.py")
    trained = [event for event in program.of(Forward) if event.grad == "yes"]
    assert len({event.module for event in trained}) > 1
    assert {event.is_eval for event in trained} == {"no"}


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


def test_what_is_asked_after_a_loop_that_was_cut_off_is_no_question_of_that_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dear = "for each in x:\n        " + "print(each)\n        " * 400
    source = f"def f(x):\n    {dear}\nkept = 0\nf(open('a'))\nprint(kept)\n"
    monkeypatch.setattr(programs, "ENTRY_BUDGET", 300)
    sources = Sources(Project(Tree(train=source)))
    program = Program(sources.project, knowledge(), sources)
    state = program.run_main("train.py")
    assert "f" in program.too_large
    assert state.base.asked.head is None
