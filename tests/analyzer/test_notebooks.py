"""Notebooks: their cells as one program, positions and fixes back in the JSON."""

from __future__ import annotations

import json
import json.decoder
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.api import Options, analyze, applied, cell_lines, imported_paths
from analyzer.errors import InputError
from analyzer.findings import Finding, Report
from analyzer.notebooks.program import read

SETUP = "%matplotlib inline\n!pip install \\\n  torch\nimport torch\nfrom torch import nn, optim"
TRAIN = """%%time
def train(model: nn.Module, loader, opt: optim.Optimizer):
    criterion = nn.CrossEntropyLoss()
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        "é\\U0001f600\\t\\\\"; total += loss  # 😀
    print(total.item())"""


_scanstring: Any = vars(json.decoder)["scanstring"]  # the standard library's own reading, to the end of a string


class Tree:
    """One notebook."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def paths(self) -> Collection[str]:
        return ["a.ipynb"]

    def read(self, path: str) -> bytes | None:
        return self.raw if path == "a.ipynb" else None


def code(source: str, as_list: bool = True) -> dict[str, Any]:
    lines = source.splitlines(keepends=True) if as_list else source
    return {"cell_type": "code", "metadata": {}, "outputs": [{"data": ["total += loss"]}], "source": lines}


def notebook(cells: Sequence[dict[str, Any]], indent: int | None = 1, **extra: Any) -> bytes:
    document = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, "cells": list(cells), **extra}
    return json.dumps(document, indent=indent).encode()


def report(raw: bytes, options: Options | None = None) -> Report:
    return analyze(Tree(raw), ["a.ipynb"], options)


def text_at(raw: bytes, finding: Finding) -> str:
    line = raw.decode().split("\n")[finding.line - 1]
    return line[finding.span.start.column : finding.span.end.column]


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_a_finding_stands_on_its_line_of_the_json_and_in_its_cell(as_list: bool, indent: int | None) -> None:
    markdown = {"cell_type": "markdown", "source": ["# Title\n", "total += loss"]}
    raw = notebook([markdown, code(SETUP, as_list), code(TRAIN, as_list)], indent)
    (finding,) = report(raw).findings
    assert text_at(raw, finding) == "total += loss"
    assert finding.cell is not None
    line = cell_lines(raw)[3][9]
    assert (finding.cell.number, finding.cell.start.line) == (3, 10)
    assert line[finding.cell.start.column : finding.cell.end.column] == "total += loss"
    forward = next(step for step in finding.evidence if "forward" in step.note)
    assert raw.decode().split("\n")[forward.line - 1][forward.column :].startswith("criterion(model(x), y)")
    document = finding.to_json()
    assert (document["cell"], document["cell_line"], document["line"]) == (3, 10, finding.line)


@pytest.mark.parametrize("as_list", [True, False])
def test_fixes_are_edits_of_the_json_and_change_nothing_else(as_list: bool) -> None:
    broken = TRAIN.replace("        opt.zero_grad()\n", "")
    raw = notebook([code(SETUP, as_list), code(broken, as_list)])
    edits = [edit for item in report(raw).findings if item.fix for edit in item.fix.edits]
    assert len(edits) == 2
    after = applied(raw, edits)
    document, changed = json.loads(raw), json.loads(after)
    source = "".join(changed["cells"][1].pop("source"))
    document["cells"][1].pop("source")
    assert changed == document
    assert source == broken.replace("total += loss", "total += loss.detach()").replace(
        "opt.step()", "opt.step()\n        opt.zero_grad()"
    )
    assert report(after).findings == ()
    if as_list:  # one string for each line, as Jupyter writes them
        assert after.count(b"\n") == raw.count(b"\n") + 1


def test_names_live_on_from_cell_to_cell_and_a_broken_cell_costs_only_itself() -> None:
    body = "\n".join(line[4:] for line in TRAIN.splitlines()[2:])
    raw = notebook(
        [
            code("import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)"),
            code("print 'Python 2'"),
            code("opt = torch.optim.SGD(model.parameters(), lr=0.1)"),
            code(body),
        ]
    )
    found = report(raw)
    assert [item.rule for item in found.findings] == ["PF101"]
    assert [item.reason.partition(":")[0] for item in found.skipped] == ["cell 2"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1\n"),
        ("if x:\n    !ls \\\n  -l\n    y = 2\n", "if x:\n    pass\n\n    y = 2\n"),
        ("files = !ls *.py\n", "files = get_ipython().run_line_magic()\n"),
        ("x, y = %mine 1\n", "x, y = get_ipython().run_line_magic()\n"),
        ("a['x'], (b, c) = !ls\n", "a['x'], (b, c) = get_ipython().run_line_magic()\n"),
        ("print('loss=%f' % loss)\nprint('=!')\n", "print('loss=%f' % loss)\nprint('=!')\n"),
        ("%time train(model)\n", "train(model)\n"),
        ("%timeit -n 10 -r3 train(\n  model)\n", "train(\n  model)\n"),
        ("%%bash\necho 'x\n", "\n\n"),
        ("\n%%capture out\nx = 1\n", "\n\nx = 1\n"),
        ("torch.nn?\n?torch\nx??\n", "pass\npass\npass\n"),
        ("s = '''\n%no\n!no\n'''\n", "s = '''\n%no\n!no\n'''\n"),
        ("y = (a\n  % b\n  # )\n)\n%magic\n", "y = (a\n  % b\n  # )\n)\npass\n"),
        ("y = a \\\n  % b\n", "y = a \\\n  % b\n"),
        ("y = a % b; z = a != b; w == b\n", "y = a % b; z = a != b; w == b\n"),
        ("/print x\n", "pass\n"),
        ("x = await f()\n", "x = await f()\n"),
        ("# -*- coding: latin-1 -*-\nx = 'é'\n", "# -*- cod1ng: latin-1 -*-\nx = 'é'\n"),
        ("a = 1\r\n!ls\r\nb = 2", "a = 1\r\npass\r\nb = 2\n"),
    ],
)
def test_ipython_syntax_becomes_python_line_for_line(cell: str, expected: str) -> None:
    assert read(notebook([code(cell)])).source.decode() == expected


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "broken JSON at 1:1"),
        (b'{"cells": [', "broken JSON at 1:12"),
        (b"[1, 2]", "JSON without a list of cells"),
        (b"\xff\xfe{", "not UTF-8"),
        (b'{"cells": 3}', "JSON without a list of cells"),
        (b'{"cells": [], "cells": null}', "JSON without a list of cells"),
        (b'{"cells": [' + b"3," * 10_000 + b"3]}", "a notebook of 10,001 cells"),
        (notebook([code("x = 1\n" * 200_000, as_list=False)] * 2), "2,400,000 characters of code"),
        (b'{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "a notebook in R"),
        (b"[" * 100_000, "no notebook"),
    ],
)
def test_what_is_no_notebook_says_so(raw: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(raw)
    found = report(raw)
    assert (len(found.skipped), found.findings) == (1, ())
    assert reason in found.skipped[0].reason


ODD_CELLS = {
    "no source": ({"cell_type": "code"}, "it has no source"),
    "a number as source": ({"cell_type": "code", "source": 3}, "its source is neither text nor a list of lines"),
    "null as source": ({"cell_type": "code", "source": None}, "its source is neither text nor a list of lines"),
    "an object as source": ({"cell_type": "code", "source": {"source": "x"}}, "its source is neither text nor"),
    "a list of more than text": ({"cell_type": "code", "source": ["x = 1\n", None]}, "its source is neither text nor"),
    "no object": (["x"], "not a JSON object"),
    "nothing": (None, "not a JSON object"),
    "a null byte": ({"cell_type": "code", "source": "x = 1\0"}, ""),
    "half a character as a name": ({"cell_type": "code", "source": "\ud800 = 1"}, "syntax error at 1:1"),
    "nesting": ({"cell_type": "code", "source": "(" * 999 + ")" * 999}, "nested 999 deep at line 1"),
    "a string without an end": ({"cell_type": "code", "source": '"""'}, "syntax error at 1:1"),
    "half a block": ({"cell_type": "code", "source": "if True:"}, "syntax error at 1:9"),
    "a return of nothing": (
        {"cell_type": "code", "source": "x = 1\nreturn x"},
        "`return` outside a function at line 2",
    ),
    "a stray yield": (
        {"cell_type": "code", "source": "for x in (yield): pass"},
        "`yield` outside a function at line 1",
    ),
    "megabytes of data": ({"cell_type": "code", "source": "x = 1\n" * 400_000}, "2,400,000 characters long"),
}


@pytest.mark.parametrize(("cell", "reason"), ODD_CELLS.values(), ids=ODD_CELLS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cell_that_is_none_costs_only_itself(cell: Any, reason: str, is_first: bool) -> None:
    """Twice, so that two halves which make a whole together are seen to be none."""
    whole = code(f"{SETUP}\n" + TRAIN.partition("\n")[2])
    cells = [cell, whole, cell] if is_first else [whole, cell]
    found = report(notebook(cells))
    assert [item.rule for item in found.findings] == ["PF101"]
    assert [item.reason.partition(":")[0] for item in found.skipped] == (
        ["cell 1", "cell 3"] if is_first else ["cell 2"]
    )
    assert all(reason in item.reason and "the other cells are analysed" in item.reason for item in found.skipped)


ODD_DOCUMENTS = {
    "no metadata that we know": lambda whole: notebook([whole], metadata=[]),
    "metadata of numbers": lambda whole: notebook([whole], metadata={"kernelspec": 3, "language_info": []}),
    "an empty cell": lambda whole: notebook([{"cell_type": "code", "source": []}, whole]),
    "cells of no or an odd kind": lambda whole: notebook([{"cell_type": ["code"], "source": 3}, {}, whole]),
    "worksheets of nothing": lambda whole: json.dumps(
        {"worksheets": [3, {}, {"cells": 3}, {"cells": [{"cell_type": "code", "input": "".join(whole["source"])}]}]}
    ).encode(),
    "the key of an older format": lambda whole: notebook([{"cell_type": "code", "input": whole["source"]}]),
    "a byte order mark": lambda whole: b"\xef\xbb\xbf" + notebook([whole]),
    "line ends of Windows": lambda whole: notebook([whole]).replace(b"\n", b"\r\n"),
    "half a character in a string": lambda whole: notebook([code("x = '\ud800'"), whole]),
    "a number nobody reads": lambda whole: notebook([whole], huge=1).replace(b'"huge": 1', b'"huge": ' + b"9" * 4_400),
    "no numbers": lambda whole: notebook([whole], a=float("nan"), b=float("-inf")),
    "megabytes of outputs": lambda whole: notebook(
        [whole, {"cell_type": "raw", "source": 3, "outputs": ["x" * 5_000_000]}]
    ),
    "a key twice": lambda whole: notebook([whole]).replace(b'"source": ', b'"source": ["x = ("], "source": '),
    "keys of escapes": lambda whole: notebook([whole]).replace(
        b'"source"', b'"' + b"".join(b"\\u%04x" % each for each in b"source") + b'"'
    ),
}


@pytest.mark.parametrize("made", ODD_DOCUMENTS.values(), ids=ODD_DOCUMENTS)
def test_an_odd_document_is_read_all_the_same(made: Callable[[dict[str, Any]], bytes]) -> None:
    raw = made(code(f"{SETUP}\n" + TRAIN.partition("\n")[2]))
    found = report(raw)
    assert [item.reason for item in found.skipped] == []
    (finding,) = found.findings
    line = raw.decode("utf-8-sig").split("\n")[finding.line - 1]
    assert line[finding.span.start.column : finding.span.end.column] == "total += loss"


def test_nesting_that_no_json_reader_follows_says_so() -> None:
    raw = notebook([code(TRAIN)], deep=1).replace(b'"deep": 1', b'"deep": ' + b"[" * 100_000 + b"]" * 100_000)
    assert [item.reason for item in report(raw).skipped] == ["no notebook: JSON nested too deeply"]


def test_an_old_notebook_with_worksheets_is_read() -> None:
    cells = [{"cell_type": "code", "input": text, "language": "python"} for text in (SETUP, TRAIN)]
    raw = json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}], "metadata": {}}, indent=1).encode()
    (finding,) = report(raw).findings
    assert text_at(raw, finding) == "total += loss"


def test_tabs_before_spaces_are_read_and_keep_their_columns() -> None:
    """As Colab indents; LibCST refuses it."""
    shifted = "\n".join(f"\t{line}" if line.startswith(" ") else line for line in TRAIN.splitlines())
    raw = notebook([code(SETUP), code(shifted)])
    (finding,) = report(raw).findings
    assert text_at(raw, finding) == "total += loss"
    assert finding.fix is not None
    assert applied(raw, finding.fix.edits) == raw.replace(b"total += loss ", b"total += loss.detach() ")
    twice = notebook([code(SETUP), code(shifted.replace("\t        opt.zero_grad()\n", ""))])
    assert [item.fix for item in report(twice).findings if item.rule == "PF201"] == [None]


def test_imports_of_a_notebook_are_followed() -> None:
    raw = notebook([code("%cd ..\nfrom lib import net\nimport helpers")])
    assert imported_paths(raw, "nb/a.ipynb", {"lib/net.py", "nb/helpers.py", "other.py"}) == [
        "lib/net.py",
        "nb/helpers.py",
    ]


def test_comments_in_cells_suppress() -> None:
    raw = notebook([code(SETUP), code(TRAIN.replace("# 😀", "# preflight: ignore[PF101] tiny loop"))])
    found = report(raw)
    assert found.findings == ()
    (hidden,) = found.suppressed
    assert (hidden.reason, "ignore[PF101]" in raw.decode().split("\n")[hidden.line - 1]) == ("tiny loop", True)


@given(st.lists(st.lists(st.text(max_size=12), max_size=4), max_size=4), st.sampled_from([None, 0, 2]), st.booleans())
def test_any_cells_are_read_and_every_position_is_found_again(
    cells: list[list[str]], indent: int | None, is_ascii: bool
) -> None:
    document = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    raw = json.dumps(document, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        found = read(raw)
    except InputError:
        assert not is_ascii  # a lone surrogate that is not escaped is no UTF-8
        return
    for row in found.rows:
        text = row.cell.text
        for index in range(len(text)):
            rest, _ = _scanstring(found.raw, row.cell.raw_offset(found.raw, index))  # to the end of its JSON string
            assert rest
            assert text.startswith(rest, index)


SEEDED = """import random, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
images = load()
{before}
for step in range(10):
    opt.zero_grad()
    loss = model(images[{index}]).mean()
    loss.backward()
    opt.step()"""


@pytest.mark.parametrize(
    ("before", "index", "is_found"),
    [
        ("shown = random.sample(images, k=9)\nprint([each.shape for each in shown])", "step", False),
        ("one = random.choice(images)\nprint(one.shape)", "step", False),
        ("kept = random.sample(images, k=len(images) // 2)\nimages = kept", "step", True),
        ("random.shuffle(images)", "step", True),
        ("", "random.randrange(100)", True),
    ],
)
def test_a_handful_drawn_in_a_cell_is_to_look_at(before: str, index: str, is_found: bool) -> None:
    found = report(notebook([code(SEEDED.format(before=before, index=index))])).findings
    assert ("PF206" in {item.rule for item in found}) is is_found


TOWER = """import torch
from torch import nn
tower = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
tower.load_state_dict(torch.load("tower.pt"))
tower.eval()
table = nn.Embedding(10, 8).weight
loader = torch.utils.data.DataLoader(load())
kept = {{}}
for name in {over}:
    row = {row}
    kept[name] = tower(row).tolist()"""


@pytest.mark.parametrize(
    ("over", "row"),
    [
        ("names", "table[torch.tensor([index[name]])]"),
        ("names", "torch.tensor(context[name])"),
        ("loader", "torch.tensor([name])"),
    ],
)
def test_a_pass_that_a_cell_looks_at_is_a_note(over: str, row: str) -> None:
    found = report(notebook([code(TOWER.format(over=over, row=row))])).findings
    assert [item.severity.value for item in found if item.rule == "PF102"] == ["note"]


MADE_UP = """import numpy as np, torch
torch.manual_seed(1)
features = {data}
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(features), batch_size=10, shuffle=True)
for epoch in range(3):
    for (x,) in loader:
        opt.zero_grad()
        loss = net({x}).mean()
        loss.backward()
        opt.step()"""


@pytest.mark.parametrize(
    ("data", "x", "severity"),
    [
        ("torch.tensor(np.random.normal(0, 1, (1000, 2)))", "x", "note"),
        ("torch.tensor(load()[np.random.permutation(1000)])", "x", "warning"),
        ("torch.tensor(load())", "x + torch.tensor(np.random.normal(0, 1, (10, 2)))", "warning"),
    ],
)
def test_made_up_data_of_a_tutorial_is_a_note(data: str, x: str, severity: str) -> None:
    found = report(notebook([code(MADE_UP.format(data=data, x=x))])).findings
    assert [item.severity.value for item in found if item.rule == "PF206"] == [severity]


SUMMED = """import torch
model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for x, y in torch.utils.data.DataLoader(load(), shuffle=True):
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    total += loss"""


def test_a_sum_of_freed_graphs_is_a_note_in_a_notebook() -> None:
    found = report(notebook([code(SUMMED)])).findings
    assert [item.severity.value for item in found if item.rule == "PF101"] == ["note"]
