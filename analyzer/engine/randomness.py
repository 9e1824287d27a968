"""Which global generators of random numbers the files of a program seed and draw from, wherever they do.

Flow plays no part: a seed in a helper counts, called or not. So the question is asked of what names are used for, which
the lowering has noted; only where something is missing are the calls looked up in the IR.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from analyzer.engine.data_events import Drawn, Seeded
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, is_for_types, last_name, walk

TORCH_DRAWS = frozenset(
    f"torch.{name}"
    for name in (
        "rand",
        "randn",
        "randint",
        "randperm",
        "normal",
        "bernoulli",
        "multinomial",
        "rand_like",
        "randn_like",
        "randint_like",
    )
)
_ORDERS = frozenset({"shuffle", "permutation", "permuted", "sample", "choice"})
_FEW_STATEMENTS = 3
_MORE_STATEMENTS = 6
_DEEP = 3
_BUILTINS = frozenset(vars(builtins))
_UNSEEDS = re.compile(rb"\bseed\(\s*\)")
_CLOCKED = frozenset({"numpy.random.seed", "random.seed"})
RESTORES = "<restores>"
_RESTORES = frozenset({"load_state_dict(…)", "from_pretrained(…)", "load(…)"})
_SEEDS_ALL = frozenset({"seed_everything(…)", "seed_everything"})
STREAMS = {"torch": "torch", "numpy": "NumPy", "python": "`random`"}


@dataclass(slots=True)
class Randomness:
    """By generator: the files that seed it and that draw from it."""

    seeds: dict[str, dict[str, None]] = field(default_factory=dict)
    draws: dict[str, dict[str, None]] = field(default_factory=dict)
    layers: dict[str, None] = field(default_factory=dict)
    """The files that make layers: their weights are drawn from torch."""
    is_restored: bool = False
    """Weights are read from a file: what was drawn is replaced."""
    is_uncertain: bool = False
    """Code that was not read and speaks of seeds is called."""


def randomness(program: Program) -> Randomness:
    """What the files that were read seed and draw."""
    found = Randomness()
    for path in program.modules:
        unit = program.unit(path)
        for full in _called(program, unit) if unit is not None else ():
            _add(program, full, path, found)
        if found.seeds and _UNSEEDS.search(program.project.read(path) or b""):
            _drop_unseeding(program, path, found)
    _add_by_variable(program, found)
    return found


def _add_by_variable(program: Program, found: Randomness) -> None:
    """``for seed in (random.seed, torch.manual_seed): seed(0)``: the function that seeds came through a variable."""
    for event in program.of(Seeded):
        node = words(program).node(event.site)
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Name):
            for stream in event.streams:
                found.seeds.setdefault(stream, {}).setdefault(event.site.path)


def _drop_unseeding(program: Program, path: str, found: Randomness) -> None:
    """``np.random.seed()`` without a number seeds from the clock: another order each time."""
    for stream, paths in list(found.seeds.items()):
        if path in paths and not any(_calls(program, path, "seed", stream, None)):
            del paths[path]
            if not paths:
                del found.seeds[stream]


def _called(program: Program, unit: ir.Unit) -> frozenset[str]:
    """The full names of what a file calls through its imports, and `RESTORES` if it reads weights; kept with the
    sources, because many programs share a file."""
    known = program.sources.called.get(unit.path)
    if known is not None:
        program.project.journal.add(known[1])
        return known[0]
    with program.project.noting() as journal:
        names = meanings(program, unit)
        found: set[str] = set()
        for name, how in unit.uses.items():
            if not how.isdisjoint(_RESTORES):
                found.add(RESTORES)
            if not how.isdisjoint(_SEEDS_ALL):  # a method of Fabric, which is often handed in
                found.add("lightning.seed_everything")
            head, _, rest = name.partition(".")
            if "()" in how and head in names:
                found.add(f"{names[head]}.{rest}" if rest else names[head])
        program.sources.called[unit.path] = frozenset(found), journal
    return frozenset(found)


def _add(program: Program, full: str, path: str, found: Randomness) -> None:
    row = program.knowledge.row(full)
    if row is not None and row.random:
        into = found.seeds if row.effect == "seed" else found.draws
        for stream in row.random:
            into.setdefault(stream, {})[path] = None
    elif full in TORCH_DRAWS:
        found.draws.setdefault("torch", {})[path] = None
    elif row is not None and row.returns == "Module" and row.graph == "parameters":
        found.layers[path] = None
    elif full == RESTORES:
        found.is_restored = True
    elif "seed" in full.rpartition(".")[2].lower() and (row is None or not row.returns):
        module = full.rpartition(".")[0]
        level = len(module) - len(module.lstrip("."))
        found.is_uncertain |= program.project.resolve(module.lstrip("."), path, level) is None


def meanings(program: Program, unit: ir.Unit) -> dict[str, str]:
    """The names of `imported`, and those of what the file calls that ``from module import *`` brings out of a module of
    the tree."""
    called = {name.partition(".")[0] for name, how in unit.uses.items() if "()" in how}
    return _meanings(program, unit, called - _BUILTINS, 0)


def _meanings(program: Program, unit: ir.Unit, called: AbstractSet[str], depth: int) -> dict[str, str]:
    names = imported(unit)
    if names.pop("*", None) is None:
        return names
    for node in _statements(unit.body):
        wanted = called - names.keys()
        if not wanted:  # the files that a package gathers so may be thousands
            break
        if isinstance(node, ir.ImportFrom) and any(name == "*" for name, _ in node.names):
            path = program.project.resolve(node.module, unit.path, node.level)
            other = program.unit(path) if path is not None and depth < _DEEP else None
            names = {**_meanings(program, other, wanted, depth + 1), **names} if other is not None else names
    return names


def imported(unit: ir.Unit) -> dict[str, str]:
    """The names that imports anywhere in a file bind, and what they mean."""
    names: dict[str, str] = {}
    for node in _statements(unit.body):
        if isinstance(node, ir.Import):
            names.update((bound or name.partition(".")[0], name if bound else name.partition(".")[0])
                         for name, bound in node.names)  # fmt: skip
        elif isinstance(node, ir.ImportFrom):
            prefix = "." * node.level + node.module
            names.update((bound, f"{prefix}.{name}") for name, bound in node.names)
    return names


def _statements(block: ir.Block) -> Iterator[ir.Stmt]:
    """Every statement that runs, expressions left alone."""
    work: list[ir.Stmt] = list(block)
    while work:
        node = work.pop()
        yield node
        for name in ("orelse",) if is_for_types(node) else ("body", "orelse", "final"):
            work.extend(getattr(node, name, ()))
        if isinstance(node, ir.Try):
            work.extend(each for handler in node.handlers for each in handler.body)


def seeds_of(program: Program, found: Randomness, stream: str) -> list[Site]:
    """The calls that seed a generator."""
    return [site for path in found.seeds.get(stream, ()) for site in _calls(program, path, "seed", stream, None)]


def draws_of(program: Program, found: Randomness, stream: str) -> list[Site]:
    """The calls that draw from a generator and that the program may run: they were seen to run, they stand in the file
    it starts with, or in a dataset that it makes."""
    first = next(iter(program.modules), "")
    classes = {obj.cls.node for obj in program.objects if obj.cls is not None and obj.kind == "Data"}
    sites = {event.site for event in program.of(Drawn) if stream in event.streams}
    for path in found.draws.get(stream, ()):
        sites.update(_calls(program, path, "draw", stream, None if path == first else classes))
    return sorted(sites, key=lambda site: (site.path != first, site))


def _calls(
    program: Program, path: str, effect: str, stream: str, classes: Collection[ir.ClassDef] | None
) -> Iterator[Site]:
    """The calls of a file, or of some classes in it, that seed a generator or draw from it."""
    unit = program.unit(path)
    if unit is None:
        return
    names = meanings(program, unit)
    body = unit.body if classes is None else tuple(node for node in unit.body if node in classes)
    for node in walk(body, True):
        name = dotted(node.callee) if isinstance(node, ir.Call) else None
        if name is None or not isinstance(node, ir.Call):
            continue
        head, _, rest = name.partition(".")
        full = ".".join(part for part in (names.get(head, "?"), rest) if part)
        row = program.knowledge.row(full)
        is_it = row is not None and row.effect == effect and stream in row.random
        if is_it and full in _CLOCKED and not node.args:
            continue
        if (
            is_it
            and row is not None
            and row.unless
            and any(arg.keyword == row.unless or arg.star == "**" for arg in node.args)
        ):
            continue
        if is_it or (effect == "draw" and stream == "torch" and full in TORCH_DRAWS):
            yield Site(path, node.at)


def is_right_before_order(
    program: Program, seed: Site, stream: str, *, of_any: bool = False, of_next: bool = False
) -> bool:
    """Whether a number that is written down, or that a function is given beside what it orders, seeds a generator, and
    a statement right after it draws an order. `of_any`: or draws anything, as made-up data is. `of_next`: any number,
    and the very next statement."""
    unit = program.unit(seed.path)
    draws = {site.at for site in _calls(program, seed.path, "draw", stream, None)}
    for block in _blocks(unit.body) if unit is not None and draws else ():
        for index, node in enumerate(block):
            if not isinstance(node, ir.Evaluate) or node.value.at != seed.at or not isinstance(node.value, ir.Call):
                continue
            given = [arg.value for arg in node.value.args]
            is_written = all(_is_constant(unit, each) or _is_parameter(program, seed, each) for each in given)
            count = 1 if of_next else _MORE_STATEMENTS if of_any else _FEW_STATEMENTS
            after = walk(block[index + 1 : index + 1 + count], False)
            orders = (part for part in after if isinstance(part, ir.Call) and part.at in draws)
            named = (last_name(part.callee) for part in orders)
            return (is_written or of_next) and any(of_any or name in _ORDERS for name in named)
    return False


def _is_constant(unit: ir.Unit | None, value: ir.Expr) -> bool:
    """Whether a number is written down, here or under a name that the file gives to it and to nothing else."""
    if not isinstance(value, ir.Name) or unit is None:
        return isinstance(value, ir.Constant)
    bound = [
        node.value
        for node in walk(unit.body, True)
        if isinstance(node, ir.Assign) and any(dotted(target) == value.id for target in node.targets)
    ]
    return bool(bound) and all(isinstance(each, ir.Constant) for each in bound)


def _is_parameter(program: Program, site: Site, value: ir.Expr) -> bool:
    """Whether a function was given the number, among other things: it is for what the function makes."""
    function = program.function_around(site)
    params = [param.name for param in function.params] if function is not None else []
    return isinstance(value, ir.Name) and value.id in params and len(params) > 1


def _blocks(block: ir.Block) -> Iterator[ir.Block]:
    """A block and those inside its statements, functions and classes."""
    yield block
    for node in block:
        for name in ("body", "orelse", "final"):
            inner = getattr(node, name, None)
            if isinstance(inner, tuple):
                yield from _blocks(inner)
        if isinstance(node, ir.Try):
            for handler in node.handlers:
                yield from _blocks(handler.body)
