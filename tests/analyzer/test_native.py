"""Python's tree and LibCST's give the same IR, numbers included; where they would not, LibCST's counts."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import libcst as cst
import pytest

from analyzer.api import Options, analyze
from analyzer.engine.sources import Sources
from analyzer.engine.trace import Site
from analyzer.fixes.edits import _is_loose
from analyzer.pipeline import quiet_collector
from analyzer.positions import spans
from analyzer.project import Project
from analyzer.syntax import ir, native
from analyzer.syntax.alike import alike, difference
from analyzer.syntax.lower import lower
from analyzer.syntax.places import places
from analyzer.syntax.scope import node_at, of_type, walk
from tests.analyzer.engine.test_engine import Tree

ROOT = Path(__file__).resolve().parents[2]
OWN = sorted(ROOT.glob("analyzer/engine/*.py"))
STANDARD = ("ast", "dataclasses", "enum", "asyncio.base_events")
FORMS = [
    "def f(\n    a,\n    b: int = 1,\n    *,  # c\n    d,\n    **  f\n): pass",
    "def f(a, # x, (\n  b, *\n args, c=(1,\n  2), d=lambda q, *w, e=1: q, **kw): pass\ndef g(é, ü): pass",
    "x = a and b and c or (d and e) and not f",
    "x = (a and b) and c; y = a and (b and c)",
    "x = a + b * c - (d and e or f) @ g",
    "x = a < b <= c is not d not in e",
    "f(a, *b, c=1, *d, **e); f(c=1, *d); f(**e, c=2)",
    "x[a]; x[a, b]; x[(a, b)]; x[a,]; x[a:b, ::c]; x[()]; x[:]; x[(a)]; x[(a), (b)]",
    "del a, b; del (a, b); del [a, b]; del a[0], b.c",
    "x = 'a' 'b' \"c\"; y = b'a' b'b'; z = 'a' f'b{c}d' 'e'; w = f'' ''; v = f'{a}{b}'",
    "x = f'{{a}}{b!r:>{width}}{c:%Y}\\n'; y = rf'\\n{a}'; z = f'{ a = }|{b=!r}'",
    "x = 1 if a else 2; y = lambda a, *b, c=1, **d: (a, b); z = lambda: (yield)",
    "(a, *b), [c, d] = e; for_ = [*a, *b]; x = {*a}; y = {**a, 'b': 1}; z = a, *b",
    "x = [a for b in c if d if e for f in g]; y = {a: b for c in d}; z = (a for b in c); w = {a for a in b}",
    "def f(a, /, b: int = 1, *, c=2, d) -> int:\n    global g\n    yield a\n    x = yield from b\n    return x",
    "@a.b(c)\nasync def f(*args: int, **kw: str):\n    async with a as b, c:\n        await d\n    async for x in y: 1",
    "@a\nclass A(B, *d, metaclass=C, **e):\n    x: int\n    y: int = 1\n    def f(self): nonlocal_ = 1",
    "if a:\n    b\nelif c:\n    d\nelse:\n    if e:\n        f\n    else: g",
    "while a:\n    break\nelse:\n    continue_ = 1\nfor a, b in c:\n    continue\nelse:\n    pass",
    "try:\n    a\nexcept (B, C) as d:\n    e\nexcept F: g\nexcept:\n    h\nelse:\n    i\nfinally:\n    j",
    "match a:\n    case B(c, d=e) as f if g: h\n    case [i, *j] | {'k': i, **j}: l\n    case _: m",
    "import a.b as c, d.e\nfrom . import f as g, h\nfrom .i.j import *\nfrom ..k import (l, m as n,)",
    "with (a as b, c): pass\nwith a, b as (c, d): pass\nwith (a): pass",
    "assert a, b; raise A from b; raise; x += 1; x @= y; x = y = z; (w := 1); x = ..., None, True, -1, 1j, 0xf, 1e3",
    "print(a if b else c, *(d), (yield))\nx = not a; y = ~a; z = +a ** -b",
    "def f():\n    'text'\n    def g(): nonlocal x; x = 1\n    class H: y = [z for z in w]\n    return",
]  # fmt: skip


def both(source: bytes) -> tuple[ir.Unit, ir.Unit]:
    """The IR by LibCST and by Python."""
    with quiet_collector():
        by_python = native.lowered(source, "a.py")
        assert by_python is not None
        return lower(cst.parse_module(source), "a.py")[0], by_python


@pytest.mark.parametrize("text", FORMS)
def test_every_form_is_numbered_alike(text: str) -> None:
    assert difference(*both(text.encode())) is None


def test_our_own_files_are_numbered_alike() -> None:
    assert [path.name for path in OWN if difference(*both(path.read_bytes()))] == []


@pytest.mark.parametrize("name", STANDARD)
def test_the_standard_library_is_numbered_alike(name: str) -> None:
    path = Path(warnings.__file__).parent / (name.replace(".", "/") + ".py")
    source = (path if path.exists() else path.with_suffix("") / "__init__.py").read_bytes()
    assert difference(*both(source)) is None


UNICODE = "äöü = f(x)  # é\r\ny = ('ß', äöü . z)\rz = [a for a in äöü]\nif ä:\n\tb = c\n"


@pytest.mark.parametrize("text", [*FORMS, UNICODE, (ROOT / "analyzer/engine/control.py").read_text()])
def test_places_are_those_of_libcst(text: str) -> None:
    with quiet_collector():
        module = cst.parse_module(text.encode())
        nodes = lower(module, "a.py")[1]
        known, found = spans(module, "a.py", set(nodes)), places(text.encode())
    assert found is not None
    sure = [(span, known[node]) for at, node in enumerate(nodes) if (span := found.span("a.py", at))]
    assert [pair for pair in sure if pair[0] != pair[1]] == []
    assert len(sure) > len(nodes) / 3


def test_a_parameter_has_a_place_where_no_star_is_before_it() -> None:
    text = "def f(\n    model,\n    data: list = (),\n    *rest,\n    every=1,\n):\n    return lambda x: model(x)\n"
    known = places(text.encode())
    assert known is not None
    unit = both(text.encode())[1]
    (function,) = of_type(unit, ir.FunctionDef)
    spans_of = {param.name: known.span("a.py", param.at) for param in function.params}
    assert {name: span and (span.start.line, span.start.column) for name, span in spans_of.items()} == {
        "model": (2, 4),
        "data": (3, 4),
        "rest": None,
        "every": (5, 4),
    }


@pytest.mark.parametrize("text", FORMS)
def test_what_binds_loosely_does_so_in_both_trees(text: str) -> None:
    with quiet_collector():
        nodes, known = lower(cst.parse_module(text.encode()), "a.py")[1], places(text.encode())
    assert known is not None
    told = {number: known.is_loose(number) for number in range(len(nodes))}
    wrong = [
        nodes[number] for number, loose in told.items() if loose is not None and loose is not _is_loose(nodes[number])
    ]
    assert wrong == []
    assert any(loose is not None for loose in told.values())


@pytest.mark.parametrize(
    "text", [*FORMS, "(a).b(c); (a.b)(); a(1).b[2].c(); x = a.\\\n  b(c)\na.b()\n(a + b).c(); é.f(ü)"]
)
def test_calls_are_read_alike_in_both_trees(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[object]:
        sources = Sources(Project(Tree(a=text)))
        unit = sources.unit("a.py")
        assert unit is not None
        sites = [Site("a.py", node.at) for node in of_type(unit, ir.Call)]
        asked = (sources.receiver_text, sources.called_on, sources.callee, sources.statement_of)
        return [ask(site) for site in sites for ask in asked]

    with quiet_collector():
        by_python = answers()
        monkeypatch.setattr(Sources, "_places", lambda *_: None)
        assert by_python == answers()


@pytest.mark.parametrize("text", [*FORMS, "\n".join(FORMS[:-1]), OWN[0].read_text(encoding="utf-8")])
def test_a_node_is_found_by_its_number(text: str) -> None:
    """As a walk through the whole file finds it; of those that share a number the first one that a walk meets."""
    for unit in both(text.encode()):
        wanted: dict[int, object] = {}
        for node in walk(unit.body, into_functions=True):
            if isinstance(node, (ir.Expr, ir.Stmt)):
                wanted.setdefault(node.at, node)
        for at in range(unit.num_nodes):
            assert node_at(unit, at) is wanted.get(at)


@pytest.mark.parametrize("text", FORMS)
def test_nodes_of_a_type_come_as_the_walk_meets_them(text: str) -> None:
    unit = both(text.encode())[1]
    met = list(walk(unit.body, into_functions=True))
    assert all(
        list(of_type(unit, kind)) == [node for node in met if type(node) is kind] for kind in set(map(type, met))
    )


def test_a_function_knows_where_it_ends() -> None:
    unit = both(b"x = 1\n@a\ndef f(b=c):\n    def g(): return d\n    return [e for e in g()]\ny = f\n")[1]
    outer, inner = sorted(of_type(unit, ir.FunctionDef), key=lambda node: node.at)
    assert [unit.body[1], unit.body[2].at] == [outer, outer.last + 1]
    assert inner.last == max(getattr(node, "at", 0) for node in walk((inner,), into_functions=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(f'{a} loss {loss.item():.2f}, {b!r}')", "loss.item()"),
        ("x = ('é', f'''1\n{ loss . item() } 2''')", "loss . item()"),
        ("print(f'{a} {loss.item()}' f' {b}')", "loss.item()"),
        ("print(f'{loss.item()} {loss.item()}')", None),  # Python before 3.12 finds the first for both
        ("print(f'loss.item() {loss.item()}')", "loss.item()"),
        ("print(f'{{loss.item()}} {loss.item()}')", None),
    ],
)
def test_text_inside_an_f_string_is_known_where_it_is_sure(text: str, expected: str | None) -> None:
    unit, known = both(text.encode())[1], places(text.encode())
    assert known is not None
    read = next(node for node in of_type(unit, ir.Call) if isinstance(node.callee, ir.Attribute))
    wanted = {expected} if sys.version_info < (3, 12) or expected else {"loss.item()"}
    assert known.text(read.at) in {*wanted, None}
    if expected:
        assert known.text(read.at) == expected


def test_what_differs_is_seen() -> None:
    one, other = both(b"x = a[1]")[0], both(b"x = a[2]")[1]
    assert not alike(one, other)
    assert difference(one, other) == (1, 2)


LOOP = """
import torch
model = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for x in torch.utils.data.DataLoader(data):
    opt.zero_grad()
    loss = model(x).sum()
    loss.backward()
    opt.step()
    total += loss
"""


def test_where_they_differ_the_tree_that_positions_come_from_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(source: bytes) -> object:
        seen.append(source)
        return real(b"unexpected = 1" + source)  # on the empty first line: other numbers at the same places

    tree = Tree(train=LOOP)
    expected = analyze(tree, ["train.py"], Options(select=frozenset({"PF101"}))).findings
    assert [item.line for item in expected] == [11]
    assert expected[0].fix is not None  # or LibCST would not have been asked
    real, seen = native._lowered, list[bytes]()
    monkeypatch.setattr(native, "_lowered", shifted)
    places.cache_clear()
    assert analyze(tree, ["train.py"], Options(select=frozenset({"PF101"}))).findings == expected
    assert LOOP.encode() in seen
    places.cache_clear()


def test_syntax_that_this_python_does_not_know_is_read_by_libcst(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = analyze(Tree(train=LOOP), ["train.py"])
    monkeypatch.setattr(native, "lowered", lambda source, path: None)
    assert analyze(Tree(train=LOOP), ["train.py"]) == expected
