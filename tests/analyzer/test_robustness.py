"""Damaged programs, a few hundred of them here; ``python -m benchmarks.robustness mutants`` runs ten thousand."""

from __future__ import annotations

import encodings
import pkgutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer import pipeline, project
from analyzer.api import Options, analyze, analyze_each
from analyzer.engine import program, sources
from analyzer.engine.selection import _compares_test
from analyzer.findings import Confidence, Report, Skipped
from analyzer.fixes.verify import verify
from analyzer.outline import outline
from analyzer.rules.pf302_missing_set_epoch import _AVERAGES
from analyzer.rules.pf306_checkpoint_map_location import _SAVES_OPTIMIZER
from analyzer.settings import Settings
from benchmarks.mutants import mutant
from benchmarks.part_analysis import Corpus
from benchmarks.robustness import batch_problems, damage, mutated, problems, programs
from tests.analyzer.test_native import LOOP

SOURCES = programs([])


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, len(SOURCES) - 1))
def test_a_damaged_file_costs_no_other_and_shows_no_bug_of_ours(seed: int, which: int) -> None:
    assert problems(mutated(SOURCES[which], seed), LOOP.encode(), WITNESSED) == []


def test_a_mutant_is_the_same_for_the_same_seed() -> None:
    assert [mutated(SOURCES[0], seed) for seed in range(9)] == [mutated(SOURCES[0], seed) for seed in range(9)]
    assert len({mutated(SOURCES[0], seed) for seed in range(9)}) > 5


def test_the_command_answers_for_a_tree_of_them_and_its_fixes_damage_none(tmp_path: Path) -> None:
    mutants = {seed: mutant(SOURCES, seed) for seed in range(40)}
    assert {len(files) for files in mutants.values()} > {1}
    assert any("book.ipynb" in files for files in mutants.values())
    every = Options(min_confidence=Confidence.POSSIBLE)
    expected = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], every).findings)
    assert expected
    assert batch_problems(tmp_path, mutants, LOOP.encode(), expected, is_compared=True) == []


def test_what_a_fix_must_not_do_is_seen() -> None:
    assert damage(b"x = 1\n", b"x = 2\n", is_notebook=False) == ""
    assert damage(b"x = 1\n", b"x = \n", is_notebook=False) == "no Python after a fix"
    assert "line ends" in damage(b"x = 1\r\n", b"x = 2\n", is_notebook=False)
    assert "mark" in damage(b"\xef\xbb\xbfx = 1\n", b"x = 1\n", is_notebook=False)
    assert "lines changed" in damage(b"x = 1\n" * 99, b"x = 2\n", is_notebook=False)
    assert damage(b'{"cells": []}', b'{"cells": ', is_notebook=True) == "no JSON after a fix"
    assert damage(b'{"a": 1}', b'{"a": 2}', is_notebook=True) == "another notebook after a fix"


@pytest.mark.parametrize("source", [b"", b"\n", b"\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"\\", b"import torch\n\x0c"])
def test_next_to_nothing(source: bytes) -> None:
    assert problems(source, LOOP.encode(), WITNESSED) == []


ODD = {
    "a value in itself": "x = y = 1\n" + "if a:\n    x = (x, y)\nelse:\n    y = (y, x)\n" * 40,
    "a stream of itself": "x = [1]\n" + "x = map(f, zip(x, x)) if a else x\n" * 40,
    "a call of itself": "import functools\nf = g\n" + "f = functools.partial(f, f, f) if a else f\n" * 40,
    "lists of lists of themselves": "y = [1]\nz = f\n" + "y = (y, z(y)) if a else [y, y]\n" * 400,
    "a tuple twice itself": "x = (1,)\n" + "x = x + x\nx = (*x, *x)\n" * 30,
    "arguments twice themselves": "def f(*a, **k):\n    return a\n\nx = (1, 2)\n" + "x = f(*x, *x, **{'a': x})\n" * 40,
    "a text twice itself": "x = 'a'\n" + "x = f'{x}{x}'\n" * 60,
    "a number that Python does not print": f"x = 0x{'f' * 20_000}\ny = {{x: x}}\nz = f'{{x}}'\nw = str(x) + f[x]\n",
    "numbers without an end": "x = int(1e999)\ny = int(float('nan'))\nz = round(1e999)\nw = range(int(1e999))\n",
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_what_nobody_writes(source: str) -> None:
    whole = LOOP.encode() + source.encode()
    assert problems(whole, LOOP.encode(), WITNESSED) == []
    report = analyze(Corpus({"a.py": whole}), ["a.py"], Options())
    assert [item.reason for item in report.skipped if "too large" not in item.reason] == []
    assert [item.rule for item in report.findings] == ["PF101"]


def test_a_file_without_torch_may_use_the_syntax_of_any_version() -> None:
    files = {
        "new.py": b"class A[T]:\n    x: T = f'{'a' 'b'}'\ntype B = A[int]\ntry: pass\nexcept* B: pass\n",
        "old.py": b"print 'a'\n",
    }
    report = analyze(Corpus(files), list(files), Options())
    assert [(item.path, item.reason) for item in report.skipped] == [("old.py", "syntax error at 1:0")]


@pytest.mark.parametrize("test", ["1 == {}", "kind == {}", "isinstance(kind, A{})"])
def test_a_flat_chain_of_branches_is_not_deep(test: str) -> None:
    chain = "".join(f"    {'el' if n else ''}if {test.format(n + 2)}:\n        x = {n}\n" for n in range(900))
    source = f"{LOOP}\ndef choose(kind):\n{chain}    return x\n"
    report = analyze(Corpus({"a.py": source.encode()}), ["a.py"], Options())
    assert [item.rule for item in report.findings] == ["PF101"]
    assert report.skipped == ()


WITNESSED = len(analyze(Corpus({"witness.py": LOOP.encode()}), ["witness.py"], Options()).findings)


CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} | {"zip", "hex", "x" * 99, "../x"})


@pytest.mark.parametrize("name", CODECS)
def test_a_file_may_name_any_encoding(name: str) -> None:
    """Some of them are no encodings of text, and fail as nothing else does."""
    for line in (b"x = 1\n", b"x = '\xe4'\n", b"x = '\xc3\xa4\x00'\n"):
        source = f"# -*- coding: {name} -*-\nimport torch\n".encode() + line
        assert problems(source, LOOP.encode(), WITNESSED) == []


LONG = {
    "options": ("settings.py", b"x = [" + b'"--a", ' * 30_000 + b"]\n"),
    "an import": ("lib.py", b"import " + b"a." * 100_000 + b"\n"),
    "a word of savers": ("lib.py", b"import torch\n" + b"opt" * 50_000 + b"\n"),
    "a word of wrappers": ("lib.py", b"import torch\n" + b"FSDP" * 50_000 + b"\n"),
}


@pytest.mark.parametrize(("path", "source"), LONG.values(), ids=LONG)
def test_a_pattern_reads_a_long_line_once(path: str, source: bytes) -> None:
    """Each is looked for in all files of a tree: a line of 200 kB took minutes, as one that starts anew at each word of
    it does. The bound is ten times what it takes."""
    began = time.process_time()
    Settings([path], {path: source}.get).is_left_off("a")
    outline(source)
    for pattern in (_SAVES_OPTIMIZER, _AVERAGES):
        pattern.search(source)
    any(map(_compares_test, (b"if test " * 30_000, source)))
    assert time.process_time() - began < 10


def test_what_is_read_again_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tree does not stay in memory: between two targets the files of before may go."""
    helper = b"import torch\nkept = []\n\ndef keep(item):\n    kept.append(item)\n    return item\n"
    called = LOOP.replace("total += loss", "keep(loss)").replace("import torch", "import torch\nfrom keep import keep")
    files = {"keep.py": helper, "a.py": called.encode(), "b.py": LOOP.encode(), "c.py": b"import torch\nx = (\n"}

    def reports() -> list[tuple[str, Report]]:
        return list(analyze_each(Corpus(files), [*files, "c.py", "keep.py"], Options(), list(files)))

    roomy = reports()
    assert {item.path for _, report in roomy for item in report.findings} == {"keep.py", "b.py"}
    monkeypatch.setattr(sources, "MAX_HELD_BYTES", 1)
    monkeypatch.setattr(project, "MAX_WORDS", 0)
    assert reports() == roomy


def _broken(*_: object, **__: object) -> object:
    raise RuntimeError("no luck")


TRAIN = """def train(model, loader, opt):
    total = 0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss
    return total
"""

SURROUND = "import torch\n\nclass A:\n    def f(self, x):\n        return x.step\n\n"  # an act: it starts


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("analyzer.rules.pf201_missing_zero_grad.MissingZeroGrad.check", "internal error in PF201"),
        ("analyzer.pipeline.resolve", "internal error in a fix of PF101"),
        ("analyzer.pipeline.verify", "internal error in a fix"),
        ("analyzer.pipeline.why_unreached", "internal error in the question of who runs this"),
        ("analyzer.pipeline.suppress.apply", "internal error in the comments"),
        ("analyzer.pipeline.suppress.excuses", "internal error in the comments"),
        ("analyzer.engine.program.Program.run_class", "internal error in the analysis"),
        ("analyzer.engine.program.framework_of", "internal error in the analysis"),
    ],
)
def test_a_bug_of_ours_costs_what_it_is_in_and_nothing_beside_it(
    where: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, _broken)
    files = {"a.py": SURROUND.encode() + LOOP.encode(), "b.py": LOOP.encode()}
    found = analyze(Corpus(files), list(files), Options())
    assert [(item.path, item.rule) for item in found.findings] == [("a.py", "PF101"), ("b.py", "PF101")]
    notes = [item.reason for item in found.skipped]
    assert notes
    assert set(notes) == {f"{says}: RuntimeError: no luck"}
    each = dict(analyze_each(Corpus(files), list(files), Options(), list(files)))
    assert [item.rule for report in each.values() for item in report.findings] == ["PF101", "PF101"]


@pytest.mark.parametrize(
    "where",
    ["analyzer.pipeline._drafts", "analyzer.notebooks.files.read"],
)
def test_a_file_that_breaks_the_engine_costs_no_other(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from analyzer.notebooks.program import read

    whole = {"analyzer.pipeline._drafts": pipeline._drafts, "analyzer.notebooks.files.read": read}[where]

    def sometimes(*given: object) -> object:
        return _broken() if b"bad" in given or "bad.py" in given else whole(*given)  # type: ignore[operator]

    monkeypatch.setattr(where, sometimes)
    files = {"bad.ipynb": b"bad", "bad.py": LOOP.encode(), "good.py": LOOP.encode()}
    found = analyze(Corpus(files), list(files), Options())
    assert ("good.py", "PF101") in [(item.path, item.rule) for item in found.findings]
    told = {item.path: item.reason for item in found.skipped}
    at = "bad.py" if "pipeline" in where else "bad.ipynb"
    assert told[at].startswith("internal error in the ")


def test_what_is_too_large_is_named_and_its_parts_are_reported_on_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is not followed to its end hides nothing of what it would have called."""
    monkeypatch.setattr(program, "ENTRY_BUDGET", 400)
    trains = "".join(TRAIN.replace("train", f"train{number}") for number in range(20))
    calls = "".join(f"    train{number}(model, loader, opt)\n" for number in range(20))
    source = f"import torch\nfrom torch import nn\n{trains}\ndef main(model: nn.Module, loader, opt):\n{calls}"
    report = analyze(Corpus({"a.py": source.encode()}), ["a.py"], Options())
    (note,) = report.skipped
    assert "too large to follow (" in note.reason
    assert "`main`" in note.reason
    assert [item.rule for item in report.findings] == ["PF101"] * 20


@pytest.mark.parametrize(
    ("kept", "is_found"),
    [
        ("    kept.append(y)", False),
        ("    kept += [y.mean()]", False),
        ("    kept.append(y.argmax(1).cpu().numpy())", True),
        ("    print(y.mean().item())", True),
    ],
)
def test_a_pass_is_reported_in_what_is_too_large_unless_it_may_be_handed_back(
    monkeypatch: pytest.MonkeyPatch, kept: str, is_found: bool
) -> None:
    """A function that ends before its `return` was read may give back what runs backward elsewhere."""
    source = (
        "import torch\nfrom torch import nn\n\n"
        "def evaluate(model: nn.Module, loader):\n    model.eval()\n    kept = []\n"
        f"    for x in loader:\n        y = model(x)\n    {kept}\n    return kept\n\n"
        "def main(model: nn.Module, loaders):\n" + "    evaluate(model, loaders[0])\n" * 40
    )
    for allowed in range(450, 700, 25):
        monkeypatch.setattr(program, "ENTRY_BUDGET", allowed)
        report = analyze(Corpus({"a.py": source.encode()}), ["a.py"], Options())
        if "`evaluate`" in report.skipped[0].reason:  # and not only its caller, between two calls of it
            break
    else:
        pytest.fail("it is never cut off")
    assert [item.rule for item in report.findings if item.rule == "PF102"] == ["PF102"] * is_found


def test_trying_fixes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MAX_FIX_STEPS", 0)
    monkeypatch.setattr(pipeline, "verify", partial(_failing_at_first, verify))
    report = analyze(Corpus({"a.py": LOOP.encode() + LOOP.encode()}), ["a.py"], Options())
    assert [(item.rule, item.fix) for item in report.findings] == [("PF101", None)] * 2
    assert [item.reason.partition(":")[0] for item in report.skipped] == ["so many fixes that not all could be tried"]


def _failing_at_first(verify: Any, source: bytes, findings: Any, again: Any, may_go_on: Any) -> Any:
    """All fixes together do not work."""
    tries: list[bytes] = []

    def once(changed: bytes) -> Any:
        tries.append(changed)
        return None if len(tries) == 1 else again(changed)

    return verify(source, findings, once, may_go_on)


def test_hundreds_of_fixes_cost_a_few_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which does not work: minutes, when each was tried alone."""
    analyses: list[str] = []

    def counted(tree: sources.Sources, path: str, *given: Any) -> Any:
        analyses.append(path)
        text = tree.project.read(path) or b""
        if b"detach" in text.partition(b"def train77(")[2].partition(b"def ")[0]:
            tree.skipped[path] = Skipped(path, "no Python any more")
        return drafted(tree, path, *given)

    drafted = pipeline.drafted
    monkeypatch.setattr(pipeline, "drafted", counted)
    trains = "".join(TRAIN.replace("train", f"train{number}") for number in range(150))
    source = f"import torch\nfrom torch import nn\n{trains}"
    found = analyze(Corpus({"a.py": source.encode()}), ["a.py"], Options()).findings
    lines = trains.partition("def train77(")[0].count("\n") + 10
    assert [item.line for item in found if item.fix is None] == [lines]
    assert len(found) == 150
    assert 5 < len(analyses) < 24


TWO_LOOPS = """import torch
from torch import nn


def train(model: nn.Module, loader, opt, weights, probe):
    for epoch in range(3):
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y, weight=weights.to("cuda")).backward()
            opt.step()
        model(probe).sum().backward()
"""


@pytest.mark.parametrize("name", [f"train{number}.py" for number in range(8)])
def test_evidence_does_not_depend_on_the_order_of_a_set(name: str) -> None:
    found = analyze(Corpus({name: TWO_LOOPS.encode()}), [name], Options()).findings
    [steps] = [[step.note for step in item.evidence] for item in found if item.rule == "PF403"]
    assert any("`loader` is iterated over" in note for note in steps)
