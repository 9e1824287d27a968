"""Evaluation of so little that nobody would notice its graphs: a part of PF102."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from analyzer.engine.events import Backward, Forward, Loop
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Const
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, last_name, of_type, walk

_HANDFUL = 32
"""Passes that nobody waits for, and whose graphs fit where those of training do."""
_SOON = 64
"""Batches after which a loop that looks at some of the data leaves off."""
_ASKS = frozenset({"input", "raw_input", "cv2.waitKey", "cv2.imshow"})
"""What a loop calls that runs for somebody who sits before it."""
_FIGURES = frozenset({"plt.show", "pyplot.show", "matplotlib.pyplot.show"})
_LINEAR = frozenset({"torch.nn.Linear", "torch.nn.LazyLinear"})


def is_looked_at(site: Site, nest: tuple[Loop, ...]) -> bool:
    """Whether a cell of a notebook runs it: by hand, once, and what comes out is looked at."""
    return site.path.endswith(".ipynb") and nest[-1].kind != "framework"


def is_detached(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether the graph is cut off in the expression that makes it: ``model(x).detach()``, or, in a loop that counts
    to a number that is written down, ``model(x).max(1)[1].detach()``. Whoever writes it knows of the graph, which
    lives for this one pass."""
    site, unit = forward.site, program.unit(forward.site.path)
    loop = program.statement_of(nest[-1]) if nest[-1].kind == "range" else None
    is_counted = loop is not None and _counted(loop.iter) is not None
    for part in of_type(unit, ir.Attribute) if unit is not None else ():
        if part.attr == "detach":
            made: ir.Expr | None = part.value
            while is_counted and made is not None and made.at != site.at:
                made = _before(made)
            if made is not None and made.at == site.at:
                return True
    return False


def _before(value: ir.Expr) -> ir.Expr | None:
    """What a method, an attribute or an item is asked of."""
    if isinstance(value, ir.Call):
        return value.callee.value if isinstance(value.callee, ir.Attribute) else None
    return value.value if isinstance(value, (ir.Attribute, ir.Subscript)) else None


def is_handful(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether all loops around that do not train count to numbers that are written down, to a handful of passes in all:
    a few samples to look at."""
    passes = 1
    for depth, loop in enumerate(nest, 1):
        if depth < len(nest) and any(program.within(Backward, nest[:depth])):
            continue
        statement = program.statement_of(loop) if loop.kind == "range" else None
        count = (_counted(statement.iter) or _bound(loop)) if statement is not None else None
        if count is None:
            return False
        passes *= count
    return passes <= _HANDFUL


def _bound(loop: Loop) -> int | None:
    """As many as a variable says that has one value: ``classes = 10``, ``range(classes)``."""
    cases = loop.bound.cases if loop.bound is not None else ()
    known = [case.value for case in cases if isinstance(case, Const) and isinstance(case.value, int)]
    return max(known) if known and len(known) == len(cases) else None


def breaks_off(program: Program, nest: tuple[Loop, ...]) -> bool:
    """Whether the loop over the batches leaves off after a handful of them, by a number that is written down:
    ``if i == 50: break``."""
    statement = program.statement_of(nest[-1])
    tests = (node.test for node in (statement.body if statement is not None else ()) if _leaves(node))
    return any(_is_reached_soon(test) for test in tests)


def _leaves(node: ir.Stmt) -> TypeGuard[ir.If]:
    last = node.body[-1] if isinstance(node, ir.If) and node.body else None
    return isinstance(last, ir.Jump) and last.kind == "break"


def _is_reached_soon(test: ir.Expr) -> bool:
    """``i == 50``, ``i >= 50``."""
    if not isinstance(test, ir.Operation) or test.op not in {"==", ">", ">="}:
        return False
    bound = test.right.value if isinstance(test.right, ir.Constant) else None
    return isinstance(test.left, ir.Name) and isinstance(bound, int) and bound <= _SOON


def is_on_call(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether somebody types what goes in (``while True: text = input()``), or watches each frame that comes out; or it
    is one item after the other of a list that is no data, or of one batch: ``images = next(iter(loader))``."""
    loop = words(program).node(nest[-1].site)
    body = loop.body if isinstance(loop, (ir.For, ir.While)) else ()
    if any(isinstance(part, ir.Call) and dotted(part.callee) in _ASKS for part in walk(body, False)):
        return True
    if _shows(program, body, nest[-1].site):
        return True
    if nest[-1].kind == "range" and nest[-1].runs_over == "container" and not forward.on_batch:
        return True
    over = loop.iter if isinstance(loop, ir.For) else None
    return over is not None and bool(_taken_once(program, nest[-1].site) & set(_named(over)))


def _shows(program: Program, body: ir.Block, site: Site) -> bool:
    """Whether a loop waits in every round until somebody has closed a figure, itself or in a function of its file."""
    unit = program.unit(site.path)
    made = {node.name: node for node in (unit.body if unit is not None else ()) if isinstance(node, ir.FunctionDef)}
    names = set(_always_called(body))
    inside = {name for called in names & set(made) for name in _always_called(made[called].body)}
    return bool((names | inside) & _FIGURES)


def _always_called(body: ir.Block) -> Iterator[str]:
    """What statements call under no condition."""
    parts = walk(tuple(node for node in body if not isinstance(node, ir.If)), False)
    return (dotted(part.callee) or "" for part in parts if isinstance(part, ir.Call))


def _taken_once(program: Program, site: Site) -> set[str]:
    """The names that a function, or the body of a file, gives the next batch of something."""
    function, unit = program.function_around(site), program.unit(site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    assigns = [node for node in walk(body, False) if isinstance(node, ir.Assign)]
    taken = [node for node in assigns if isinstance(node.value, ir.Call) and dotted(node.value.callee) == "next"]
    return {name for node in taken for name in assigned_names(node)}


def _named(value: ir.Expr) -> Iterator[str]:
    return (part.id for part in walk((value,), False) if isinstance(part, ir.Name))


def is_made_anew(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether what runs is one layer of the library that is made for each batch again: a filter whose weights are set
    by hand, and no model. Its graph holds its input, which lives anyway."""
    obj = program.objects[forward.module] if forward.module is not None else None
    return obj is not None and obj.cls is None and obj.name.startswith("torch.nn.") and 0 < len(nest) <= len(obj.loops)


def is_one_layer(program: Program, forward: Forward, nest: tuple[Loop, ...]) -> bool:
    """Whether the model is one layer with weights, in a tree of several files (a file alone may sketch a larger one):
    a linear probe on features. Its graph holds its input, which lives anyway."""
    obj = program.objects[forward.module] if forward.module is not None else None
    inside = forward.calls[nest[-1].depth :] if nest else forward.calls
    if obj is None or program.project.is_single:
        return False
    around = [
        node
        for node in of_type(program.unit(forward.site.path), ir.ClassDef)
        if any(getattr(part, "at", None) == forward.site.at for part in walk((node,), True))
    ]
    if obj.cls is None and obj.name in _LINEAR and not around:
        return True  # a head by itself, whoever calls: ``model.lm_head(vector)``
    if len(inside) > 1:
        return False
    if not inside:
        return obj.name in _LINEAR if obj.cls is None else _makes_one_layer(obj.cls.node)
    return len(around) == 1 and _makes_one_layer(around[0])


def _makes_one_layer(cls: ir.ClassDef) -> bool:
    """``class Probe(nn.Module)`` that makes a linear layer, and no other object but a sequence of it alone."""
    if [last_name(base.value) for base in cls.bases] != ["Module"]:
        return False
    calls = (part for part in walk(cls.body, True) if isinstance(part, ir.Call))
    made = [call for call in calls if last_name(call.callee)[:1].isupper() and not _is_sequence_of_one(call)]
    kept = [node for node in walk(cls.body, True) if isinstance(node, ir.Assign) and isinstance(node.value, ir.Call)]
    parts = [target for node in kept for target in node.targets if (dotted(target) or "").startswith("self.")]
    return [last_name(call.callee) for call in made] == ["Linear"] and len(parts) <= 1


def _is_sequence_of_one(call: ir.Call) -> bool:
    """``nn.Sequential(nn.Linear(1, 1))``."""
    given = [arg.value for arg in call.args if not arg.star]
    return (
        last_name(call.callee) == "Sequential" and len(call.args) == len(given) == 1 and isinstance(given[0], ir.Call)
    )


def _counted(value: ir.Expr) -> int | None:
    """``range(8)``: as many as is written down."""
    if not isinstance(value, ir.Call) or len(value.args) != 1 or dotted(value.callee) not in {"range", "trange"}:
        return None
    bound = value.args[0].value
    return bound.value if isinstance(bound, ir.Constant) and isinstance(bound.value, int) else None
