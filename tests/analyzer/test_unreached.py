"""Code that nothing in the tree reaches."""

from __future__ import annotations

import re
import time

import pytest

from analyzer.api import analyze
from analyzer.findings import Finding, Severity
from analyzer.outline import outline
from analyzer.project import Project
from analyzer.reach import Reach
from tests.analyzer.test_project import Texts

_NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


class Lone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2) for _ in range(2)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def train(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).softmax(-1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def spare(model: nn.Module, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).softmax(-1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
_MAIN = """
import torch
from net import Net, train

if __name__ == "__main__":
    model = Net()
    train(model, [], torch.optim.SGD(model.parameters(), lr=0.1))
"""


_LOADS = "import importlib\n\nif __name__ == '__main__':\n    importlib.import_module(input())\n"
"""Names are looked up when it runs."""


def _found(files: dict[str, str], path: str = "net.py") -> dict[str, Finding]:
    """The finding in each definition of `_NET`."""
    texts = {name: text.encode() for name, text in files.items()}
    lines = files[path].splitlines()
    found = {}
    for item in analyze(Texts(texts), [path]).findings:
        around = next(line for line in reversed(lines[: item.line]) if line.startswith(("def ", "class ")))
        found[re.split(r"\W", around.split()[1])[0]] = item
    return found


def _severity(files: dict[str, str], name: str = "spare", path: str = "net.py") -> Severity:
    return _found(files, path)[name].severity


def test_what_nothing_names_is_a_note_that_says_so() -> None:
    found = _found({"net.py": _NET, "main.py": _MAIN})
    assert [found[name].severity for name in ("train", "spare", "Lone")] == [
        Severity.ERROR, Severity.NOTE, Severity.NOTE,
    ]  # fmt: skip
    assert "nothing that is run or imported in this tree names it" in found["spare"].evidence[-1].note


@pytest.mark.parametrize(
    "more",
    [
        {"other.py": "import net\n# net.spare(1, 2, 3)\n"},
        {"other.py": "import net\n'''\nnet.spare(1, 2, 3)\n'''\n"},
        {"other.py": "from net import spare\n"},
        {"other.py": "import net\n\nspare = net.Net()\nnet.train(1, spare=True)\n"},
        {"other.py": "import net\n\nif __name__ == '__main__':\n    print('spare', net)\n"},
        {"other.py": "from net import spare\n\n\ndef unused():\n    spare(1, 2, 3)\n"},
        {"other.py": "from net import spare as more\n\n\ndef unused():\n    more(1, 2, 3)\n"},
        {"test_net.py": "import pytest\nfrom net import spare\n\n\ndef test_it():\n    spare(1, 2, 3)\n"},
        {"spare.md": "spare"},
    ],
)
def test_comments_imports_tests_and_other_dead_code_use_nothing(more: dict[str, str]) -> None:
    assert _severity({"net.py": _NET, "main.py": _MAIN, **more}) is Severity.NOTE


@pytest.mark.parametrize(
    "more",
    [
        {"other.py": "import net\nnet.spare(1, 2, 3)\n"},
        {"other.py": "import net\n\n\ndef run():\n    net.spare(1, 2, 3)\n\n\nrun()\n"},
        {"other.py": "from net import spare as more\n\n\ndef run():\n    more(1, 2, 3)\n\n\nrun()\n"},
        {"other.py": "import net\n\nif __name__ == '__main__':\n    getattr(net, 'spare')(1, 2, 3)\n"},
        {"other.py": "import net\n\nif __name__ == '__main__':\n    getattr(net, input())(1, 2, 3)\n"},
        {"other.py": "import net\n\nif __name__ == '__main__':\n    net.__dict__[input()](1, 2, 3)\n"},
        {"other.py": "from net import *\n\nif __name__ == '__main__':\n    eval(input())(1, 2, 3)\n"},
        {"other.py": _LOADS, "nets.yaml": "head: spare\n"},
        {"other.py": _LOADS + "    print('spare')\n"},
        {
            "other.ipynb": '{"nbformat": 4, "cells": [{"cell_type": "code", '
            '"source": "import net\\nnet.spare(1, 2, 3)"}]}'
        },
        {"other.ipynb": '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "%run net.py\\nspare(1, 2, 3)"}]}'},
        {"other.py": "import net\n\nif __name__ == '__main__':\n    print(f'{net.spare(1, 2, 3)}', net)\n"},
        {"other.py": "import net\nfrom net import spare\n\n__all__ = [\n    'spare',\n]\nnet.Net()\n"},
        {"hubconf.py": "from net import spare as best\n\n\ndef entry():\n    return best\n"},
        {"other.py": "from net import spare\n\n\n@app.automain\ndef run():\n    spare(1, 2, 3)\n"},
        {"setup.py": "", "__init__.py": ""},
        {"pyproject.toml": "[project]\nname = 'x'\n", "__init__.py": ""},
    ],
)
def test_what_may_be_used_stays(more: dict[str, str]) -> None:
    """Calls from what is run, names looked up by strings, packages that are installed for others."""
    assert _severity({"net.py": _NET, "main.py": _MAIN, **more}) is Severity.ERROR


def test_a_tree_that_looks_names_up_still_has_to_name_them() -> None:
    """In a text, in a configuration, or in pieces."""
    assert _severity({"net.py": _NET, "main.py": _MAIN, "other.py": _LOADS}) is Severity.NOTE
    pieces = _NET.replace("spare", "make_spare")
    loads = _LOADS + "    print(f'make_{input()}')\n"
    assert _severity({"net.py": pieces, "main.py": _MAIN, "other.py": loads}, "make_spare") is Severity.ERROR
    assert _severity({"net.py": pieces, "main.py": _MAIN, "other.py": _LOADS}, "make_spare") is Severity.NOTE


_PACKAGE = {"main.py": "import pkg.used\n\nif __name__ == '__main__':\n    pkg.used.train()\n", "pkg/used.py": _NET}


@pytest.mark.parametrize(
    "more",
    [
        {"cli.py": "import fire\nimport pkg.copy\n\nfire.Fire(pkg.copy)\n"},
        {"cli.py": "import fire\nfrom pkg import copy as commands\n\nfire.Fire(commands)\n"},
        {"cli.py": "import fire\nfrom pkg.copy import spare\n\nfire.Fire()\n"},
        {"cli.py": "from jsonargparse import CLI\nimport pkg.copy\n\nCLI({'run': pkg.copy})\n"},
        {"jobs.py": "import queue\n\nqueue.put('pkg.copy.spare')\n"},
        {"jobs.py": "import gym\n\ngym.register(id='X-v0', entry_point='pkg.copy:spare')\n"},
        {"setup.py": "setup(entry_points={'console_scripts': ['go = pkg.copy:spare [extra]']})\n"},
        {"setup.cfg": "[options.entry_points]\nconsole_scripts =\n    go = pkg.copy:spare\n"},
        {"pyproject.toml": "[tool.poetry.scripts]\ngo = 'pkg.copy:spare'\n"},
        {"conf/a.yaml": "_target_: pkg.copy.spare\n", "go.py": "import hydra\n\nhydra.utils.call(input())\n"},
        {"conf/a.yaml": "_target_: pkg.copy.spare\n", "go.py": "from hydra.utils import call\n\ncall(input())\n"},
        {"bin/train": "#!/usr/bin/env python3\nfrom pkg.copy import spare\n\nspare(1, 2, 3)\n"},
        {"train": "#!/usr/bin/python\nimport pkg.copy\n\npkg.copy.spare(1, 2, 3)\n"},
        {"go.py": "\ufeffimport pkg.copy\n\npkg.copy.spare(1, 2, 3)\n"},
    ],
    ids=str,
)
def test_what_is_run_by_its_name_is_reached(more: dict[str, str]) -> None:
    """Command lines made of modules, written-down names, entry points, scripts of any kind."""
    assert _severity({**_PACKAGE, "pkg/copy.py": _NET, **more}, "spare", "pkg/copy.py") is Severity.ERROR


@pytest.mark.parametrize(
    "more",
    [
        {"cli.py": "import fire\nimport pkg.copy\nimport pkg.used\n\nfire.Fire(pkg.used)\n"},
        {"cli.py": "import fire\nimport pkg.copy\n\nfire.Fire(pkg.copy.train)\n"},
        {"cli.py": "import pkg.copy\n\nprint('spare', 'copy.spare', 'else.pkg.copy')\n"},
        {"bin/train": "#!/bin/sh\nfrom pkg.copy import spare\n\nspare(1, 2, 3)\n", "go.py": "import pkg.copy\n"},
        {"data/train": "#!/usr/bin/python\nimport pkg.copy\n\npkg.copy.spare(1, 2, 3)\n", "go.py": "import pkg.copy\n"},
    ],
    ids=str,
)
def test_what_is_not_run_by_its_name_is_not(more: dict[str, str]) -> None:
    assert _severity({**_PACKAGE, "pkg/copy.py": _NET, **more}, "spare", "pkg/copy.py") is Severity.NOTE


def test_a_script_that_evaluates_is_no_test_by_its_name() -> None:
    body = "def test_epoch(model):\n    spare(model, 2, 3)\n\n\n"
    script = f"import argparse\nfrom net import spare\n\n\n{body}if __name__ == '__main__':\n    test_epoch(1)\n"
    assert _severity({"net.py": _NET, "main.py": _MAIN, "test_net.py": script}) is Severity.ERROR
    collected = script.replace("import argparse\n", "")
    assert _severity({"net.py": _NET, "main.py": _MAIN, "test_net.py": collected}) is Severity.NOTE


def test_methods_that_a_framework_calls_on_a_class_that_inherits_nothing() -> None:
    text = (
        _NET[: _NET.index("def spare")]
        + """
class Hooks:
    def on_train_epoch_end(self, model: nn.Module, loader, optimizer):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x).softmax(-1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
    )
    run = "{}from net import Hooks, Net, train\n\nfor x in open('x'):\n    train(Hooks(), Net(), x)\n"
    lightning = {"net.py": text, "main.py": run.format("import lightning\n")}
    assert _severity(lightning, "Hooks") is Severity.ERROR
    assert _severity({"net.py": text, "main.py": run.format("")}, "Hooks") is Severity.NOTE


def test_a_name_in_private_or_tool_settings_is_no_installed_one() -> None:
    tools = {"pyproject.toml": "[tool.black]\nline-length = 100\n", "__init__.py": ""}
    assert _severity({"net.py": _NET, "main.py": _MAIN, **tools}) is Severity.NOTE
    hidden = {"net.py": _NET.replace("spare", "_spare"), "main.py": _MAIN, "setup.py": "", "__init__.py": ""}
    assert _severity(hidden, "_spare") is Severity.NOTE


def test_a_tree_without_a_program_shows_nobody_who_calls() -> None:
    assert _severity({"net.py": _NET}) is Severity.ERROR
    assert _severity({"net.py": _NET, "more.py": "from net import Net\n"}) is Severity.ERROR


def test_files_that_have_nothing_to_do_with_each_other_show_nothing() -> None:
    """A folder of examples: the program of one is not that of another."""
    assert _severity(
        {"net.py": _NET, "main.py": "print(1)\n", "third.py": "if __name__ == '__main__':\n    main()\n"}
    ) is (Severity.ERROR)


def test_a_file_that_cannot_be_read_may_use_anything() -> None:
    class Partly(Texts):
        def paths(self) -> list[str]:
            return [*super().paths(), "far.py"]

    texts = {"net.py": _NET.encode(), "main.py": _MAIN.encode()}
    found = [item for item in analyze(Partly(texts), ["net.py"]).findings if item.rule == "PF204"]
    assert [item.severity for item in found] == [Severity.ERROR] * 2


def test_what_a_decorator_is_given_is_used() -> None:
    handed = _NET.replace("def spare", "@register\ndef spare")
    assert _severity({"net.py": handed, "main.py": _MAIN}) is Severity.ERROR
    quiet = _NET.replace("def spare", "@torch.enable_grad()\ndef spare")
    assert _severity({"net.py": quiet, "main.py": _MAIN}) is Severity.NOTE


def test_a_class_that_only_its_own_try_builds() -> None:
    """``python net.py`` shows shapes; the programs of the tree do not use it."""
    tried = _NET + "\n\nif __name__ == '__main__':\n    print(Lone()(torch.randn(2, 2)).shape)\n"
    assert _severity({"net.py": tried, "main.py": _MAIN}, "Lone") is Severity.NOTE
    used = _NET + "\n\nif __name__ == '__main__':\n    for x in open('x'):\n        Lone()(x)\n"
    assert _severity({"net.py": used, "main.py": _MAIN}, "Lone") is Severity.ERROR


def test_a_file_that_nobody_imports() -> None:
    main = {"main.py": "import pkg.used\n\nif __name__ == '__main__':\n    pkg.used.train()\n", "pkg/used.py": _NET}
    found = _found({**main, "pkg/copy.py": _NET}, "pkg/copy.py")
    assert found["train"].severity is Severity.NOTE
    assert "no program of this tree imports this file" in found["train"].evidence[-1].note
    assert _severity({**main, "pkg/copy.py": _NET + "\ntrain(1, 2, 3)\n"}, "train", "pkg/copy.py") is Severity.ERROR
    assert (
        _severity({**main, "pkg/copy.py": _NET, "x.py": "import copy_of.copy"}, "train", "pkg/copy.py") is Severity.NOTE
    )
    by_name = {"x.py": "import importlib\n\nimportlib.import_module(input())\n"}
    assert _severity({**main, "pkg/copy.py": _NET, **by_name}, "train", "pkg/copy.py") is Severity.ERROR


@pytest.mark.parametrize(
    "more", ["\n\n@app.automain\ndef go():\n    pass\n", "\n\ndef model_fn(folder):\n    pass\n", "\nimport cog\n"]
)
def test_a_file_that_a_tool_calls_is_run(more: str) -> None:
    files = {"main.py": "import pkg.used\n\nif __name__ == '__main__':\n    pkg.used.train()\n", "pkg/used.py": _NET}
    text = _NET.replace("def train", "def model_fn") if "model_fn" in more else _NET
    found = _found({**files, "pkg/copy.py": text + more}, "pkg/copy.py")
    assert "no program of this tree imports this file" not in str(found)


def test_methods_of_a_class_that_is_used() -> None:
    text = """
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.net = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def learn(self, loader):
        for x, y in loader:
            loss = nn.functional.cross_entropy(self.net(x).softmax(-1), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
    run = "from agent import Agent\n\nfor _ in range(3):\n    Agent().{}([])\n"
    for method, severity in (("learn", Severity.ERROR), ("other", Severity.NOTE)):
        files = {"agent.py": text, "main.py": run.format(method)}
        assert _severity(files, "Agent", "agent.py") is severity
        hook = {
            "agent.py": text.replace("class Agent:", "class Agent(lightning.Callback):"),
            "main.py": run.format(method),
        }
        assert _severity(hook, "Agent", "agent.py") is Severity.ERROR


def test_the_outline_of_a_file() -> None:
    """Definitions end where the text goes back to the margin; brackets and decorators do not end them."""
    known = outline(
        b'"""spoken"""\nimport a as b\nx = """\ndef no(): ...\n"""\n'
        b"@deco(\n    1,\n)\ndef f(\n    a,\n):\n    inner  # said\n"
        b"class C(\n    Base,\n):\n    y = 1\n\n    def m(self):\n        'text'\n\n    def n(self): deep\n\nlast(1)\n"
        b"if __name__ == '__main__':\n    go()\n"
    )
    assert [(each.name, [method.name for method in each.methods]) for each in known.definitions] == [
        (b"f", []),
        (b"C", [b"m", b"n"]),
    ]
    assert b"inner" in known.definitions[0].words
    assert b"said" not in known.definitions[0].words
    assert {b"last"} <= known.words
    assert not {b"spoken", b"inner", b"a", b"f", b"no", b"x"} & (known.words - {b"def"})
    assert {b"Base"} == known.definitions[1].bases
    assert known.runs
    assert b"go" in (known.main_words or set())
    assert known.aliases == [(b"b", b"a")]


_STOPS = _NET.replace(
    "        optimizer.step()\n", "        optimizer.step()\n        if settings.log:\n            print(loss)\n", 1
)


def test_a_function_that_stops_at_a_name_that_nothing_defines() -> None:
    found = _found({"net.py": _STOPS, "main.py": _MAIN})["train"]
    assert found.severity is Severity.NOTE
    assert "nothing defines `settings`" in found.evidence[-1].note


@pytest.mark.parametrize(
    "text",
    [
        _STOPS.replace("import torch\n", "import torch\nimport settings\n", 1),
        _STOPS.replace("import torch\n", "import torch\nfrom options import *\n", 1),
        _STOPS + "\n\ndef set_up():\n    global settings\n    settings = 1\n",
        _STOPS + "\n\nif __name__ == '__main__':\n    settings = 1\n",
        _STOPS.replace("def train(model, loader", "def train(model, settings, loader"),
        _STOPS.replace("        if settings", "        settings = [settings for settings in ()]\n        if settings"),
        _STOPS.replace("        if settings.log:", "        if y:\n            if settings.log:\n                pass"),
        _STOPS.replace("        if settings.log:", "        try:\n            settings.log\n        except NameError:"),
        _STOPS.replace("        if settings.log:", "        return\n        if settings.log:"),
        _STOPS.replace("settings.log", "__file__") + "\nprint(xrange)\n",
    ],
)
def test_names_that_may_be_there(text: str) -> None:
    """Imported, global, assigned, a parameter, under a condition, asked for, never read."""
    assert _severity({"net.py": text, "main.py": _MAIN}, "train") is Severity.ERROR


@pytest.mark.parametrize(
    "text",
    [
        _STOPS.replace("def train(", "def train[settings: object](").replace("settings.log", "settings"),
        _STOPS.replace("def train(", "class Box[settings]:\n    pass\n\n\ndef train("),
        _STOPS.replace("def train(", "type settings = int\n\n\ndef train("),
        _STOPS + "\n\nimport builtins\nbuiltins.settings = 1\n",
    ],
)
def test_names_of_types_and_those_that_are_always_there(text: str) -> None:
    assert _severity({"net.py": text, "main.py": _MAIN}, "train") is Severity.ERROR


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("import net\nnet.settings = 1\n", Severity.ERROR),
        ("import pkg.net\npkg.net.settings: int = 1\n", Severity.ERROR),
        ("import net as n\nsetattr(n, 'settings', 1)\n", Severity.ERROR),
        ("import net\nif net.settings == 1:\n    pass\n", Severity.NOTE),
        ("import net\n\n\nclass A:\n    def __init__(self):\n        self.settings = 1\n", Severity.NOTE),
    ],
)
def test_what_another_file_puts_into_a_module(more: str, severity: Severity) -> None:
    assert _severity({"net.py": _STOPS, "main.py": _MAIN, "more.py": more}, "train") is severity


def test_a_file_by_itself_may_be_a_part_of_something() -> None:
    assert _severity({"net.py": _STOPS}, "train") is Severity.ERROR
    assert _severity({"net.py": _STOPS, "more.py": "print(1)\n"}, "train") is Severity.ERROR


@pytest.mark.parametrize(
    ("path", "is_aside"),
    [
        ("archive/train.py", True),
        ("src/old/train.py", True),
        ("train_old.py", True),
        ("notes/ddp_template.py", True),
        ("template_matching.py", False),
        ("train copy.py", True),
        ("train (1).py", True),
        ("tools/profiling/train.py", True),
        ("latency_train.py", True),
        ("user_profile/train.py", False),
        ("smoke_detection/train.py", False),
        ("wind_speed/train.py", False),
        ("train_from_scratch.py", False),
        ("legacy-model/train.py", False),
        ("test/models/test_net.py", True),
        ("test/net_test.py", True),
        ("test_net.py", False),
        ("src/train.py", False),
        ("threshold.py", False),
        ("profitable/train.py", False),
        ("copy.py", False),
        ("golden.py", False),
    ],
)
def test_files_that_are_kept_aside_by_their_names(path: str, *, is_aside: bool) -> None:
    text = _NET.replace("import torch\n", "import torch\n\n", 1)
    found = _found({path: text}, path)["train"]
    assert (found.severity is Severity.NOTE) is is_aside
    assert ("by its name" in found.evidence[-1].note) is is_aside


def test_evidence_that_leads_through_what_nothing_reaches() -> None:
    """The helper is used; the one caller that gives it probabilities is not."""
    text = """
from torch import nn


def fit(probabilities, y):
    loss = nn.functional.cross_entropy(probabilities, y)
    loss.backward()


def right(model: nn.Module, x, y):
    fit(model(x), y)


def wrong(model: nn.Module, x, y):
    fit(model(x).softmax(-1), y)
"""
    run = "import net\n\nfor x, y in open('x'):\n    net.{}(1, x, y)\n"
    assert _severity({"net.py": text, "main.py": run.format("right")}, "fit") is Severity.NOTE
    assert _severity({"net.py": text, "main.py": run.format("wrong")}, "fit") is Severity.ERROR


LONG = {
    "a table on one line": b"x = {" + b", ".join(b'"key%d": "value"' % number for number in range(20_000)) + b"}\n",
    "a string that does not end": b'x = "' + rb"\"" * 40_000 + b"\n",
    "a class whose bases do not end": b"class A(\n" + b"    B(\n" * 20_000,
}


def test_what_only_a_class_in_a_class_calls_is_reached() -> None:
    source = (
        b"class Outer:\n    class Inner:\n        def run(self):\n            helper()\n\n\ndef helper():\n    pass\n"
    )
    known = outline(source)
    assert b"helper" in known.definitions[0].methods[0].words


@pytest.mark.parametrize("source", LONG.values(), ids=LONG)
def test_a_file_in_rough_takes_no_time_with_the_square_of_its_size(source: bytes) -> None:
    begin = time.process_time()
    outline(source + b"\n\ntrain()\n")
    assert time.process_time() - begin < 10


def test_a_long_chain_of_calls_takes_no_time_with_the_square_of_its_length() -> None:
    chain = b"".join(b"def f%d():\n    f%d()\n\n" % (number, number - 1) for number in range(1, 10_000))
    files = {"a.py": b"def f0():\n    pass\n\n" + chain + b"f9999()\n", "b.py": b""}
    begin = time.process_time()
    assert Reach(files, files.get, lambda _: [], lambda *_: None).why_not("a.py", ("f0",)) is None
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "call",
    [
        "history = train(1, 2, 3)",
        "import sys\nsys.exit(train(1, 2, 3))",
        "raise SystemExit(train(1, 2, 3))",
        "try:\n    train(1, 2, 3)\nfinally:\n    pass",
        "rank = 0\nif rank == 0:\n    train(1, 2, 3)",
        "[train(each, 2, 3) for each in range(3)]",
    ],
)
def test_a_script_runs_in_many_ways(call: str) -> None:
    main = "import pkg.used\n\nif __name__ == '__main__':\n    pkg.used.train()\n"
    files = {
        "main.py": main,
        "pkg/used.py": _NET,
        "pkg/copy.py": _NET,
        "second.py": f"from pkg.copy import train\n{call}\n",
    }
    assert _severity(files, "train", "pkg/copy.py") is Severity.ERROR


def test_what_others_may_call_of_an_installed_package_reaches_its_helpers() -> None:
    files = {
        "pyproject.toml": "[project]\nname = 'mylib'\n",
        "mylib/__init__.py": "",
        "mylib/fit.py": _NET.replace("def spare", "def _spare")
        + "\n\ndef fit_model(model, data):\n    _spare(model, data, 1)\n",
        "examples/run.py": "import mylib.other\n\nif __name__ == '__main__':\n    mylib.other.go()\n",
        "mylib/other.py": "def go():\n    pass\n",
    }
    assert _severity(files, "_spare", "mylib/fit.py") is Severity.ERROR


@pytest.mark.parametrize("reads", ["a = missing if x else 1", "a = x or missing", "a = [missing for _ in x]"])
def test_a_name_that_need_not_be_read_stops_nothing(reads: str) -> None:
    text = _NET.replace(
        "def spare(model: nn.Module, loader, optimizer):",
        f"def spare(model: nn.Module, loader, optimizer, x=0):\n    {reads}",
    )
    main = _MAIN.replace("import Net, train", "import Net, spare, train").replace(
        "    train(", "    spare(model, [], 1)\n    train("
    )
    assert _severity({"net.py": text, "main.py": main}) is Severity.ERROR


_SCRIPT = "import torch\n\n\ndef validate():\n    pass\n"


@pytest.mark.parametrize(
    ("more", "are_apart"),
    [
        ({}, True),
        ({"c.py": "import a\n"}, True),
        ({"c.py": "import a, b\n"}, False),
        ({"c.py": "import a\n", "d.py": "import b, c\n"}, False),
        ({"c.py": "import importlib\nimportlib.import_module(input())\n"}, False),
        ({"c.py": "from project.a import validate\nimport b\n"}, False),
        ({"c.py": "from torch.a import validate\nimport b\n"}, True),
    ],
)
def test_files_of_different_programs_are_apart(more: dict[str, str], are_apart: bool) -> None:
    files = {"a.py": _SCRIPT, "b.py": _SCRIPT, **more}
    project = Project(Texts({path: text.encode() for path, text in files.items()}))
    assert project.are_apart("a.py", "b.py") is project.are_apart("b.py", "a.py") is are_apart
    assert ("b.py" in project.callers("validate", "a.py")) is not are_apart


@pytest.mark.parametrize(
    ("more", "is_by_itself"),
    [
        ({}, True),
        ({"sub/c.py": "import torch\n", "sub/d.py": "import c\n"}, True),
        ({"c.py": "import b\n"}, False),
        ({"a.py": f"{_SCRIPT}\nvalidate()\n"}, False),
    ],
)
def test_a_file_among_strangers_is_an_excerpt_unless_it_runs(more: dict[str, str], is_by_itself: bool) -> None:
    files = {"a.py": _SCRIPT, "b.py": _SCRIPT, **more}
    assert Project(Texts({path: text.encode() for path, text in files.items()})).is_by_itself("a.py") is is_by_itself
