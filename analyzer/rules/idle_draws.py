"""Draws that decide nothing of a run: of held-out data, of data that is made up, of names."""

from __future__ import annotations

import re

from analyzer.engine.data_events import Drawn
from analyzer.engine.events import Backward, Step
from analyzer.engine.program import Program
from analyzer.engine.randomness import STREAMS, Randomness, draws_of
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled, words
from analyzer.rules.item_draws import is_for_item
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

_ORDERS = frozenset({"shuffle", "permutation", "permuted", "train_test_split"})

_DISTRIBUTIONS = frozenset({
    "normal", "uniform", "rand", "randn", "random", "standard_normal", "multivariate_normal", "gauss", "random_sample",
})  # fmt: skip

_CLOCK = frozenset({"time.time", "time.time_ns", "time", "datetime.now", "datetime.datetime.now"})

_HELD_OUT = re.compile(r"(?:^|[\W_])(?:val|valid|validation|dev|test|eval)(?:$|[\W_])", re.IGNORECASE)

_LOOKS = re.compile(
    r"(?:^|_)(?:eval\w*|valid\w*|infer\w*|log\w*|visuali\w*|plot\w*|show\w*|demo|preview|inspect)(?:_|$)", re.IGNORECASE
)


def is_drawn_again(program: Program, site: Site) -> bool:
    """Whether numbers are drawn while the training goes on: in a loop that trains, for an item, by a generator or in
    the forward pass; or put the data into an order, or split it. What else is drawn once (a first value, a name, which
    of several) may be all the same to the run."""
    node = words(program).node(site)
    if isinstance(node, ir.Call) and last_name(node.callee) in _ORDERS:
        return True
    trains = (event.loops[0].key for kind in (Step, Backward) for event in program.of(kind) if event.loops)
    here = {event.loops[0].key for event in program.of(Drawn) if event.site == site and event.loops}
    if not here.isdisjoint(trains) or is_for_item(program, site):
        return True
    function = program.function_around(site)
    if function is None or function.name == "__init__":
        return False
    return function.is_generator or any(
        obj.kind == "Module" and obj.cls is not None and function in obj.cls.node.body for obj in program.objects
    )


def are_of_evaluation(program: Program, sites: list[Site]) -> bool:
    """Whether all that is drawn without a seed picks from what is held out, or in a function that evaluates or logs: to
    look at, not to train with."""
    around = {site: program.function_around(site) for site in sites}
    return bool(sites) and all(
        _is_of_held_out(program, site) or (function is not None and _LOOKS.search(function.name))
        for site, function in around.items()
    )


def _is_of_held_out(program: Program, site: Site) -> bool:
    call = words(program).node(site)
    given = [spelled(arg.value) for arg in call.args if arg.keyword is None] if isinstance(call, ir.Call) else []
    return bool(_HELD_OUT.search(" ".join(given))) and "train" not in " ".join(given)


def are_made_up(program: Program, sites: list[Site]) -> bool:
    """Whether all that is drawn without a seed are numbers of a distribution, in cells of a notebook outside of
    functions and loops, or items of a dataset of a shape that is written down: made-up data of a tutorial, of which
    other numbers teach the same."""
    looped = {event.site for event in program.of(Drawn) if event.loops}
    return bool(sites) and all(
        (_is_made_up(program, site) and site not in looped) or _is_whole_item(program, site) for site in sites
    )


def _is_whole_item(program: Program, site: Site) -> bool:
    """``np.random.randint(0, 255, size=(1, 28, 28))`` where a dataset gives an item."""
    node = words(program).node(site)
    sizes = [arg.value for arg in node.args if arg.keyword in {"size", None}] if isinstance(node, ir.Call) else []
    shapes = (size.items for size in sizes if isinstance(size, ir.Display))
    is_shaped = any(len(shape) > 1 and all(isinstance(each, ir.Constant) for each in shape) for shape in shapes)
    return is_shaped and is_for_item(program, site)


def _is_made_up(program: Program, site: Site) -> bool:
    node = words(program).node(site)
    name = last_name(node.callee) if isinstance(node, ir.Call) else ""
    return site.path.endswith(".ipynb") and program.function_around(site) is None and name in _DISTRIBUTIONS


def drawn_names(program: Program, found: Randomness, near: Site) -> set[str]:
    """What a random number, or the time, is put into in any case, in the function or file body around a seed:
    ``args.seed = random.randint(1, 10000)``, and not ``if args.seed is None``."""
    function, unit = program.function_around(near), program.unit(near.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    drawn = {site.at for stream in STREAMS for site in draws_of(program, found, stream) if site.path == near.path}
    names: set[str] = set()
    for node in body:
        if isinstance(node, ir.Assign) and node.value is not None and _is_random(node.value, drawn):
            names |= {name for target in node.targets if (name := dotted(target)) is not None}
    return names


def _is_random(value: ir.Expr, drawn: set[int]) -> bool:
    parts = walk((value,), False)
    return any(isinstance(part, ir.Call) and (part.at in drawn or dotted(part.callee) in _CLOCK) for part in parts)


def is_drawn_fresh(program: Program, site: Site, drawn: set[str]) -> bool:
    """Whether a seed is another one in each run, so that what it leaves out differs no more than the rest."""
    node = words(program).node(site)
    given = node.args[0].value if isinstance(node, ir.Call) and node.args else None
    return given is not None and dotted(given) in drawn
