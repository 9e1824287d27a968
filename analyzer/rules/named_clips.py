"""Clipped networks and stepped optimizers that were not read: their names tell which belong together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.knowledge.words import pattern
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_CLIPS = re.compile(rb"clip_grad_(?:norm|value)_?\(")
_CALLS = frozenset(["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"])
_OWN_OPTIMIZER = re.compile(
    r"_*(\w+?)_*(?:optimizer|optimiser|optim|opt)|(?:optimizer|optimiser|optim|opt)_+(\w+)", re.I
)
_COPY = re.compile(r"_*(?:target|teacher|ema|momentum)_+(\w+)|_*(\w+?)_+(?:target|teacher|ema|momentum)", re.I)
"""Names of networks that are averaged or copied from another, which is what is left of the name."""
_MADE = re.compile(
    rb"\b(\w{1,80})\s*=\s*[\w.]{0,40}(?:Adam\w{0,9}|SGD|RMSprop|[Oo]ptim\w{0,9})\(\s*(?:params\s*=\s*)?(?:list\()?(?:self\.)?"
    rb"(\w{1,80})\.parameters\("
)
_LONGEST = 80
"""Longer names are nobody's, and would be searched for long."""


def other_networks(program: Program) -> Iterator[tuple[Site, Site, str, str]]:
    """Clips of one network before the step of the optimizer of another: where, the step, and both names."""
    for path in program.modules:
        source = program.project.read(path) or b""
        if not _CLIPS.search(source):
            continue
        for function in of_type(program.unit(path), ir.FunctionDef):
            calls = [node for node in walk(function.body, into_functions=False) if isinstance(node, ir.Call)]
            clipped = dict(sorted((call.at, _network(call)) for call in calls if last_name(call.callee) in _CALLS))
            steps = sorted((call.at, name) for call in calls if (name := _stepped(call))) if clipped else []
            passes = sorted(call.at for call in calls if "backward" in last_name(call.callee)) if steps else []
            for at, network in clipped.items():
                end = next((each for each in passes if each > at), math.inf)
                after = [step for step in steps if at < step[0] < end]
                if not network or not after:
                    continue
                start = max((each for each in passes if each < at), default=-1)
                beside = [each for place, each in clipped.items() if start < place < end]
                other = _mismatch(function, source, network, after[0][1], {name for _, name in after})
                other = other or _of_other_optimizer(source, network, {name for _, name in after})
                if (other and other not in beside) or (other := _clipped_twice(source, network, at, clipped, after)):
                    yield Site(path, at), Site(path, after[0][0]), network, other


def _owners(source: bytes) -> dict[str, str]:
    """The network whose parameters each optimizer of a file was made of, by their names."""
    found = _MADE.findall(source)
    return {optimizer.decode().strip("_"): network.decode().strip("_") for optimizer, network in found}


def _of_other_optimizer(source: bytes, network: str, stepped: set[str]) -> str:
    """The network of the optimizer that steps, where each that does was made of another than the clipped one, which has
    its own."""
    owners = _owners(source)
    stepped = {each.strip("_") for each in stepped}
    if network not in owners.values() or not stepped <= owners.keys():
        return ""
    networks = sorted(owners[each] for each in stepped)
    return "" if network in networks else networks[0]


def _clipped_twice(source: bytes, network: str, at: int, clipped: dict[int, str], after: list[tuple[int, str]]) -> str:
    """The network of one of the optimizers that step, where another is clipped twice in its place."""
    same = [place for place, each in clipped.items() if each == network and place < after[0][0]]
    before = [place for place in clipped if place < at]
    if len(same) != 2 or same[-1] != at or before[-1:] != same[:1]:
        return ""
    owners = _owners(source)
    named = {owners.get(name.strip("_")) or _own_name(name) for _, name in after}
    left = sorted(each for each in named - set(clipped.values()) if each)
    return left[0] if len(named) > 1 and any(each and each in network for each in named) and left else ""


def _own_name(optimizer: str) -> str:
    own = _OWN_OPTIMIZER.fullmatch(optimizer)
    return ((own[1] or own[2]) if own is not None else "").strip("_")


def _network(call: ir.Call) -> str:
    """``critic`` of ``clip_grad_norm_(self.critic.parameters(), …)``."""
    given = call.args[0].value if call.args else None
    of = given.callee if isinstance(given, ir.Call) else None
    network = of.value if isinstance(of, ir.Attribute) and of.attr == "parameters" else None
    name = last_name(network).strip("_") if network is not None and dotted(network) else ""
    return name if len(name) <= _LONGEST else ""


def _stepped(call: ir.Call) -> str:
    """The name of the optimizer that is stepped."""
    name = dotted(call.callee.value) if isinstance(call.callee, ir.Attribute) and call.callee.attr == "step" else None
    last = (name or "").rsplit(".", 1)[-1]
    return last if len(last) <= _LONGEST and pattern("stepped after a clip").search(last) else ""


def _mismatch(function: ir.FunctionDef, source: bytes, network: str, stepped: str, all_stepped: set[str]) -> str:
    """The network whose optimizer steps, if its name, and the one of the clipped network, say that it is another."""
    copy = _COPY.fullmatch(network)
    if copy is not None:
        trained = copy[1] or copy[2]
        names = {last_name(node).strip("_") for node in walk(function.body, False) if isinstance(node, _NAMES)}
        made = rb"(?:Adam\w{0,9}|SGD|RMSprop|optim\w{0,9})\([^\n]{0,99}\b" + network.encode() + rb"\.param"
        return trained if trained in names and not re.search(made, source) else ""
    own = _OWN_OPTIMIZER.fullmatch(stepped)
    other = ((own[1] or own[2]) if own is not None else "").strip("_")
    if not other or other in network or network in other:
        return ""
    mine = [name for name in all_stepped if network in name]
    has_own = re.search(rb"\b_*" + network.encode() + rb"_*opt|opt\w{0,9}_" + network.encode() + rb"\b", source)
    is_network = re.search(rb"\b_*" + other.encode() + rb"\b", source)
    called = {last_name(node.callee).strip("_") for node in walk(function.body, False) if isinstance(node, ir.Call)}
    is_other = has_own or (other in called and network not in called)
    return other if is_other and is_network and not mine else ""


_NAMES = (ir.Name, ir.Attribute)
