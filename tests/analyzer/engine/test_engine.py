"""The engine as a whole: fixpoints, evidence, robustness, and the estimator's question."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Collection

import pytest

from analyzer.api import Known, Options, Origin, Ref, Unseen, analyze, call_sites
from analyzer.engine.data_events import Seeded
from analyzer.engine.events import Backward, Event, Step, Store
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.findings import Confidence
from analyzer.knowledge import overlays
from analyzer.knowledge.schema import knowledge, parse
from analyzer.project import Project


class Tree:
    """A tree in memory."""

    def __init__(self, **files: str) -> None:
        self.files = {name.replace("__", "/") + ".py": text.encode() for name, text in files.items()}

    def paths(self) -> Collection[str]:
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def events(source: str) -> list[Event]:
    sources = Sources(Project(Tree(train=source)))
    program = Program(sources.project, knowledge(), sources)
    program.run_target("train.py")
    assert program.skipped == []
    return program.events


TRAINING = """
import torch
model = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for epoch in range(3):
    for x in torch.utils.data.DataLoader([]):
        opt.zero_grad()
        loss = model(x).sum()
        loss.backward()
        opt.step()
        total += loss
"""


def test_each_event_of_a_loop_is_seen_once_with_its_nest() -> None:
    found = events(TRAINING)
    (step,) = [event for event in found if isinstance(event, Step)]
    assert [loop.kind for loop in step.loops] == ["range", "data"]
    (store,) = [event for event in found if isinstance(event, Store)]
    assert store.is_carried


REGISTERED = """
import torch
from elsewhere import make
registry = make()

def registered(function):
{body}
    registry(function)
    return function

{functions}
"""


def test_a_decorator_that_gives_back_what_it_is_given_is_run_once() -> None:
    one = "@registered\ndef f{}():\n    torch.manual_seed(0)\n"
    body = "".join(f"    x{number} = {number}\n" for number in range(100))
    source = REGISTERED.format(body=body, functions="".join(map(one.format, range(300))))
    found = events(source)
    assert not any(isinstance(event, Seeded) for event in found), "whoever takes the functions may call them"
    found = events(source.replace("    registry(function)\n", ""))
    assert sum(isinstance(event, Seeded) for event in found) == 300


def test_a_sum_that_starts_anew_is_not_carried() -> None:
    found = events(TRAINING.replace("        opt.zero_grad()", "        total = 0\n        opt.zero_grad()"))
    assert [event.is_carried for event in found if isinstance(event, Store)] == [False]


GAN = """
import torch
from torch import nn
g, d = nn.Linear(4, 4), nn.Linear(4, 1)
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
bce = nn.BCEWithLogitsLoss()
for real, one in torch.utils.data.DataLoader([]):
    fake = g(torch.randn(8, 4))
    od.zero_grad()
    bce(d(fake.detach()), one).backward()
    od.step()
    bce(d(fake), one).backward()
    og.step()
"""


def test_a_step_names_the_backward_through_its_own_modules() -> None:
    (finding,) = analyze(Tree(train=GAN), ["train.py"]).findings
    lines = {step.line for step in finding.evidence}
    assert (finding.rule, finding.line) == ("PF201", 13)
    assert 12 in lines
    assert 10 not in lines


def test_evidence_names_forward_backward_and_loop() -> None:
    (finding,) = analyze(Tree(train=TRAINING), ["train.py"]).findings
    assert (finding.rule, finding.confidence) == ("PF101", Confidence.CERTAIN)
    assert {9, 10, 7, 12} <= {step.line for step in finding.evidence}
    assert finding.fix is not None
    assert finding.fix.applicability == "safe"


def test_code_that_is_not_seen_lowers_confidence() -> None:
    source = TRAINING.replace("import torch\n", "import torch\nimport secret\n")
    source = source.replace("opt.zero_grad()", "secret.prepare(opt)")
    rules = {item.rule: item.confidence for item in analyze(Tree(train=source), ["train.py"]).findings}
    assert "PF201" not in rules
    every = analyze(Tree(train=source), ["train.py"], Options(min_confidence=Confidence.POSSIBLE)).findings
    assert {item.rule: item.confidence for item in every}["PF201"] is Confidence.POSSIBLE


def test_renaming_locals_changes_no_finding() -> None:
    renamed = TRAINING.replace("loss", "zzz").replace("total", "qqq").replace("opt", "aaa").replace("aaaim", "optim")
    one, other = analyze(Tree(train=TRAINING), ["train.py"]), analyze(Tree(train=renamed), ["train.py"])
    assert [(f.rule, f.line) for f in one.findings] == [(f.rule, f.line) for f in other.findings] != []


@pytest.mark.parametrize(
    ("text", "words"),
    [("import torch\ndef f(:\n", "syntax error at 2:"), ("import torch\nx = " + "(" * 5000 + ")" * 5000, "nest")],
)
def test_a_broken_file_hides_no_other(text: str, words: str) -> None:
    report = analyze(Tree(bad=text, train=TRAINING), ["bad.py", "train.py"])
    assert [item.path for item in report.skipped] == ["bad.py"]
    assert words in report.skipped[0].reason
    assert [item.rule for item in report.findings] == ["PF101"]


def test_hostile_constants_stay_small() -> None:
    bomb = "import torch\nx = 9 ** 9 ** 9\ny = 'a' * 10 ** 10\nz = 1 << 10 ** 9\nwhile True:\n    x = [x, x]\n"
    assert analyze(Tree(train=bomb), ["train.py"]).findings == ()


def test_recursion_and_import_cycles_end() -> None:
    tree = Tree(
        train="import torch\nimport other\ndef f(n):\n    return f(n - 1) + f(n)\nf(3)\n", other="import train\n"
    )
    assert analyze(tree, ["train.py", "other.py"]).skipped == ()


SCRIPT = """
import argparse, os
import torch
from torch.utils.data import DataLoader
p = argparse.ArgumentParser()
p.add_argument("--batch-size", "-b", type=int, default=4)
p.add_argument("--workers", type=int, required=True)
p.add_argument("--bf16", action="store_true")
args = p.parse_args()
dtype = torch.bfloat16 if args.bf16 else torch.float32
loader = DataLoader([], batch_size=args.batch_size, num_workers=args.workers, prefetch_factor=2 * 3)
model = Auto.from_pretrained("gpt2", torch_dtype=dtype, cache=os.environ.get("CACHE"))
"""


def test_an_option_of_the_command_line_overrides_the_default() -> None:
    argv = [("--batch-size", Origin("run.sh", 2, "--batch-size 16")), ("16", Origin("run.sh", 2))]
    wanted = ["torch.utils.data.DataLoader", "*.from_pretrained"]
    loader, model = call_sites(Tree(train=SCRIPT), "train.py", wanted, argv)
    (size,) = loader.arguments["batch_size"]
    assert isinstance(size, Known)
    assert (size.value, size.origin.path, size.origin.line) == (16, "run.sh", 2)
    assert [(each.value, each.origin.line) for each in size.overrides] == [(4, 6)]
    (workers,) = loader.arguments["num_workers"]
    assert isinstance(workers, Unseen)
    assert "--workers is required" in workers.reason
    assert [each.value for each in loader.arguments["prefetch_factor"] if isinstance(each, Known)] == [6]
    (dtype,) = model.arguments["torch_dtype"]
    assert isinstance(dtype, Ref)
    assert dtype.name == "torch.float32"
    (cache,) = model.arguments["cache"]
    assert isinstance(cache, Unseen)
    assert "CACHE" in cache.reason


def test_a_row_without_a_source_is_refused() -> None:
    with pytest.raises(Exception, match="no source"):
        parse('[[api]]\nname = "x"\nreturns = "tensor"\n', "t.toml")


def test_the_door_does_not_import_libcst() -> None:
    code = "import sys, analyzer.api; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CUT_OFF = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for x, y in torch.utils.data.DataLoader([]):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    kept.append(loss)
{padding}
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(("count", "is_whole"), [(10, True), (20_000, False)])
def test_what_was_cut_off_shows_no_absence(count: int, is_whole: bool) -> None:
    padding = "\n".join("    x = x + 1" for _ in range(count))
    sources = Sources(Project(Tree(train=CUT_OFF.format(padding=padding))))
    program = Program(sources.project, knowledge(), sources)
    program.run_target("train.py")
    assert bool(program.skipped) is not is_whole
    assert bool(list(program.of(Step))) is is_whole
    assert bool(list(program.of(Store))) is is_whole
    assert list(program.of(Backward))


def test_two_overlays_never_say_what_a_call_gives() -> None:
    for name in ("FUNCTIONS", "METHODS", "CALLERS"):
        seen: set[object] = set()
        for found in pkgutil.iter_modules(overlays.__path__):
            keys = set(getattr(importlib.import_module(f"{overlays.__name__}.{found.name}"), name, {}))
            assert not seen & keys, (name, found.name)
            seen |= keys
