"""Clipped networks and stepped optimizers that were not read: their names tell which belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_CLIPS = re.compile(rb"clip_grad_(?:norm|value)_?\(")
_CALLS = frozenset(["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"])
_OWN_OPTIMIZER = re.compile(
    r"_*(\w+?)_*(?:optimizer|optimiser|optim|opt)|(?:optimizer|optimiser|optim|opt)_+(\w+)", re.I
)
_ANY_OPTIMIZER = re.compile(r"optim|^_*opt$|_opt$", re.I)
_COPY = re.compile(r"_*(?:target|teacher|ema|momentum)_+(\w+)|_*(\w+?)_+(?:target|teacher|ema|momentum)", re.I)
"""Names of networks that are averaged or copied from another, which is what is left of the name."""
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
            clipped = {call.at: _network(call) for call in calls if last_name(call.callee) in _CALLS}
            steps = sorted((call.at, name) for call in calls if (name := _stepped(call))) if clipped else []
            for at, network in clipped.items():
                step = next((step for step in steps if step[0] > at), None)
                if network and step is not None:
                    other = _mismatch(function, source, network, step[1], {name for _, name in steps})
                    if other and other not in clipped.values():
                        yield Site(path, at), Site(path, step[0]), network, other


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
    return last if len(last) <= _LONGEST and _ANY_OPTIMIZER.search(last) else ""


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
