"""Files at which no program is started."""

from __future__ import annotations

import pytest

from analyzer.api import Options, analyze
from analyzer.plain_losses import plain_functions
from analyzer.quiet import is_quiet, moving
from analyzer.syntax import native
from tests.analyzer.test_project import Texts

_LAYER = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size = config.hidden // 2
        self.names = ["a", "b"]
        self.seen = {}
        self.layers = nn.ModuleList([nn.Linear(self.size, 3) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(nn.functional.dropout(x, p=0.1, training=self.training))
        return x
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), True),
        (("self.seen = {}", "self.seen = [nn.Linear(3, 3)]"), False),
        (("self.seen = {}", "layers = [nn.Linear(3, 3)]\n        self.seen = layers"), False),
        (("self.seen = {}", "self.seen = {}\n        self.seen.update(a=nn.Linear(3, 3))"), False),
        (("self.seen = {}", "self.mask = torch.ones(3, 3)"), False),
        (("self.seen = {}", "self.scale = nn.Parameter(torch.ones(3)) * 2"), False),
        ((", training=self.training", ""), False),
        (("x = layer", "x = layer.to(torch.ones(3).device)"), False),
        (("return x", "return nn.functional.cross_entropy(x, x)"), False),
        (("return x", "x.sum().backward()\n        return x"), False),
        (("return x", "return x  # x.backward()"), True),
        (("x = layer", "x = layer.to(torch.ones(3).dtype)"), True),
        (("self.seen = {}", "self.seen = {}\n        self.seen[0] = config.first"), True),
        (("self.seen = {}", "self.seen = {}\n        self.seen[0] = nn.Linear(3, 3)"), False),
        (("self.seen = {}", "self.seen = config.names or []"), True),
        (("self.seen = {}", "self.seen = [size * 2 for size in config.sizes]"), True),
        (("self.seen = {}", "self.seen = [nn.Linear(size, 2) for size in config.sizes]"), False),
        (("self.seen = {}", "self.seen = list(config.sizes)"), True),
        (("self.seen = {}", "self.seen = list(nn.Linear(3, 3).parameters())"), False),
        (("self.seen = {}", "self.seen = LAYERS[config.kind](config)"), True),
        (("self.seen = {}", "self.seen = make(config)"), False),
        (("return x", "x = self.act(x)\n        return x"), True),
        (("nn.functional.dropout(x, p=0.1, training=self.training)", "self.dropout(x)"), True),
        (("return x", "self.save_pretrained(x)\n        return x"), True),
        (
            ("return x", "self.save_pretrained(x) if torch.distributed.is_initialized() else None\n        return x"),
            False,
        ),
        (("return x", "n = sum(p.numel() for p in self.parameters())\n        return x"), True),
        (("return x", "for p in self.parameters():\n            p.mul_(2)\n        return x"), False),
        (("return x", "kept = self.state_dict()\n        return x"), True),
        (("return x", "kept = self.state_dict()\n        self.load_state_dict(kept)\n        return x"), False),
    ],
)
def test_what_a_file_must_show(change: tuple[str, str], expected: bool) -> None:
    source = _LAYER.replace(*change).encode() if change[0] else _LAYER.encode()
    assert is_quiet(source, native.lowered(source, "block.py")) is expected


_HEAD = """
from torch import nn
from torch.nn import CrossEntropyLoss, MSELoss


class Head(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.Linear(config.size, config.size)

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self, config, body):
        super().__init__()
        self.body = body
        self.out = nn.Linear(config.size, config.labels)
        self.head = Head(config)

    def forward(self, x, labels=None):
        logits = self.out(self.body(x)[0])
        loss = None
        if labels is not None:
            if self.is_regression:
                loss_fct = MSELoss()
                loss = loss_fct(logits.squeeze(), labels.squeeze())
            else:
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, 3), labels.view(-1))
        return loss, logits
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), True),
        (("logits = self.out", "logits = self.head"), True),
        (("return self.layer(x)", "return self.layer(x).softmax(-1)"), True),
        (("logits = self.out", "logits = self.body"), False),
        (("loss = None", "logits = logits.softmax(-1)"), False),
        (("loss = None", "logits = logits.float()"), True),
        (("loss = None", "if x:\n            logits = self.body(x)"), False),
        (("labels.squeeze()", "labels.view(-1)"), False),
        (("self.out = nn.Linear(config.size, config.labels)", "self.out = nn.Softmax(-1)"), False),
        (("labels.view(-1)", "pad_sequence(labels)"), False),
        (("loss = None", "for loss in x:\n            pass"), False),
        (("loss_fct = CrossEntropyLoss()", "loss_fct = nn.NLLLoss()"), False),
        (
            ("loss_fct = CrossEntropyLoss()", "loss_fct = CrossEntropyLoss()\n                self.keep(loss_fct)"),
            False,
        ),
        (("loss = loss_fct(logits.view(-1, 3), labels.view(-1))", "loss = own_loss(loss_fct(logits, labels))"), False),
    ],
)
def test_a_loss_of_what_an_own_layer_gives_tells_nothing(change: tuple[str, str], expected: bool) -> None:
    source = _HEAD.replace(*change).encode() if change[0] else _HEAD.encode()
    assert is_quiet(source, native.lowered(source, "net.py")) is expected


def test_a_head_of_the_file_that_gives_probabilities() -> None:
    changed = _HEAD.replace("logits = self.out", "logits = self.head")
    source = changed.replace("return self.layer(x)", "return self.layer(x).softmax(-1)").encode()
    assert not is_quiet(source, native.lowered(source, "net.py"))


_LOOP = """
import torch
from torch import nn
from elsewhere import follow


def boxes(found, places):
    table = torch.ones(3)
    for item in found:
        for place in places:
            measured(item, place).item()


def measured(item, place):
    return torch.dist(item, place).sum()
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), True),
        (("torch.dist(item, place)", "follow(item, place)"), False),
        (("torch.dist(item, place)", "max(item, place, key=follow)"), False),
        (("measured(item, place)", "item.net(place)"), False),
        (("measured(item, place)", "places[0](place)"), False),
        (("for place in places:", "for place in map(follow, places):"), False),
    ],
)
def test_a_loop_that_waits_must_run_a_model(change: tuple[str, str], expected: bool) -> None:
    source = _LOOP.replace(*change).encode() if change[0] else _LOOP.encode()
    assert is_quiet(source, native.lowered(source, "boxes.py")) is expected


_EACH_OTHER = """
from elsewhere import follow


def boxes(found, places):
    for item in found:
        for place in places:
            {0}(item, place).item()


def one(item, place):
    follow(item, place)
    return other(item, place)


def other(item, place):
    return one(item, place)


def again(found, places):
    for item in found:
        for place in places:
            {1}(item, place).item()
"""


@pytest.mark.parametrize(("first", "second"), [("one", "other"), ("other", "one")])
def test_functions_that_call_each_other_run_what_either_runs(first: str, second: str) -> None:
    """Whichever is asked first: what is known of one while the other is asked is not all."""
    unit = native.lowered(_EACH_OTHER.format(first, second).encode(), "boxes.py")
    assert unit is not None
    assert len(list(moving(unit))) == 2


def test_a_value_of_many_branches_is_asked_for_once() -> None:
    """Each of the branches has those before it: one after the other there are 10 ** 9 ways."""
    branches = "        if x:\n            y{0} = y{1}\n" * 9
    steps = "".join(f"        y{number + 1} = y{number}\n{branches.format(number + 1, number)}" for number in range(9))
    source = f"{_BRANCHES}{steps}        return F.cross_entropy(y9, t)\n"
    unit = native.lowered(source.encode(), "net.py")
    assert unit is not None
    assert len(plain_functions(unit, source.encode())) == 1


_BRANCHES = """
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2, 2)

    def forward(self, x, t):
        y0 = self.out(x)
"""


def test_a_quiet_file_is_read_where_another_runs_it() -> None:
    block = _LAYER.replace("return x", "return x.softmax(-1)").encode()
    main = b"import torch\nfrom block import Block\n\ndef loss(x, y):\n"
    main += b"    return torch.nn.functional.cross_entropy(Block(x)(x), y)\n"
    assert is_quiet(block, native.lowered(block, "block.py"))
    files = {"block.py": block, "main.py": main}
    found = analyze(Texts(files), list(files), Options()).findings
    assert [(item.rule, item.path) for item in found] == [("PF204", "main.py")]
    assert "block.py" in {step.path for step in found[0].evidence}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("reduced(torch.amax, 3)", True),
        ("reduced(helper, 3)", True),
        ("reduced(Net(), 3)", False),
        ("reduced(n=3, op=helper)", True),
        ("reduced(*both)", False),
        ("keep(reduced)", False),
    ],
)
def test_a_function_that_is_given_functions_runs_no_model(call: str, expected: bool) -> None:
    source = "import torch\nfrom net import Net\n\ndef helper(x):\n    return x\n\n\ndef reduced(op, n):\n"
    source += f"    for i in range(n):\n        n = op(i)\n    return n\n\n\ndef used(both):\n    return {call}\n"
    assert is_quiet(source.encode(), native.lowered(source.encode(), "ops.py")) is expected
