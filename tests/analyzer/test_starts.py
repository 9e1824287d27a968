"""The functions of a file that a program starts at."""

from __future__ import annotations

from analyzer.api import Options, analyze
from analyzer.starts import starts
from analyzer.syntax import ir, native
from analyzer.syntax.scope import of_type
from tests.analyzer.test_project import Texts

_FILE = '''
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        return self.line(x)

    def describe(self):
        return "loss(x)".upper()


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [Block()]

    def forward(self, x):
        return self.parts[0](x)

    def extra(self):
        return 1


def fit(model, optimizer, x):
    model(x).mean().backward()
    optimizer.step()


def main(x):
    fit(Block(), None, x)


def outer(x):
    return [main, x]


def other(x):
    """main(x)"""
    return x + 1  # fit(x)
'''


def _names(text: str) -> set[str]:
    unit = native.lowered(text.encode(), "file.py")
    assert unit is not None
    found = starts(text.encode(), unit)
    assert found is not None
    return {_path(unit, function) for function in of_type(unit, ir.FunctionDef) if function.at in found}


def _path(unit: ir.Unit, function: ir.FunctionDef) -> str:
    around = next((cls.name + "." for cls in of_type(unit, ir.ClassDef) if function in cls.body), "")
    return around + function.name


def test_who_acts_who_leads_there_and_what_hides_something() -> None:
    begins = {"fit", "main", "outer", "Kept.__init__", "Kept.forward"}
    assert _names(_FILE) == begins | {"Block.describe", "Block.forward"}  # which calls what the other may switch
    assert _names(_FILE.replace("loss(x)", "layer(x)")) == begins


def test_a_module_that_acts_in_its_forward_is_named_where_it_is_made() -> None:
    acts = "return nn.functional.cross_entropy(self.line(x), x)"
    changed = _names(_FILE.replace("return self.line(x)", acts))
    assert {"Block.forward", "Kept.__init__", "main", "fit", "outer"} <= changed
    assert "other" not in changed


def test_a_method_that_calls_the_one_of_its_base_is_a_caller() -> None:
    base = "class Base(nn.Module):\n    def forward(self, x):\n        return x.sum().backward()\n\n"
    calling = "class Calling(Base):\n    def forward(self, x):\n        return super().forward(x)\n\n"
    alone = "class Alone(Base):\n    def forward(self, x):\n        return x\n"
    assert _names(f"from torch import nn\n{base}{calling}{alone}") == {"Base.forward", "Calling.forward"}


def test_lines_end_in_one_or_two_characters() -> None:
    for end in ("\r\n", "\r"):
        assert _names(_FILE.replace("\n", end)) == _names(_FILE)


def test_a_function_without_acts_is_run_where_one_with_acts_calls_it() -> None:
    source = """
import torch

def probabilities(x):
    return x.softmax(-1)

def loss(x, y):
    return torch.nn.functional.cross_entropy(probabilities(x), y)
"""
    found = analyze(Texts({"loss.py": source.encode()}), ["loss.py"], Options()).findings
    assert [item.rule for item in found] == ["PF204"]


_STANDS_FOR = """
from torch import nn
from torch.nn.functional import cross_entropy as ce

loss_fn: nn.Module = nn.CrossEntropyLoss()
LOSSES = {
    "ce": nn.CrossEntropyLoss(),
}


class Trainer:
    rated = nn.CrossEntropyLoss()

    def __init__(self):
        self.criterion = nn.CrossEntropyLoss()

    def a(self, x, y):
        return self.rated(x, y)

    def b(self, x, y):
        return self.criterion(x, y)


def c(x, y):
    return loss_fn(x, y)


def d(x, y):
    return ce(x, y)


def e(x, y):
    return LOSSES["ce"](x, y)


def other(x):
    return x
"""


def test_names_that_stand_for_an_act() -> None:
    found = _names(_STANDS_FOR)
    assert {"Trainer.a", "Trainer.b", "c", "d", "e"} <= found
    assert "other" not in found
