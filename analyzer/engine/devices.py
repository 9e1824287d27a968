"""Where tensors are: what a knowledge row's result inherits, and what a device argument says."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engine.graphs import device_of
from analyzer.engine.machine import Args
from analyzer.engine.trace import Site
from analyzer.engine.values import Const, Device, External, Scalar, Tensor, Tuple, Unknown, Value
from analyzer.knowledge.schema import Row
from analyzer.records import replace
from analyzer.syntax import ir

MOVES = frozenset({"Tensor.cuda", "Tensor.to", "Tensor.cpu"})
"""Methods whose arguments say where a tensor goes."""


HOST = "host device"
"""The kind of what ``torch.device("cpu")`` gives."""


def named_device(value: Value | None) -> Device | None:
    """What a device argument says; None where it is no device (a dtype) or left out."""
    if value is None:
        return None
    found: set[Device | None] = {_named(case) for case in value.cases}
    if "accelerator" in found:
        return "accelerator"
    return found.pop() if len(found) == 1 else ""


def _named(case: Value) -> Device | None:
    if isinstance(case, Const):
        if case.value is None or isinstance(case.value, bool):
            return None
        return "host" if str(case.value).startswith("cpu") else "accelerator"
    if isinstance(case, External):
        return None  # a dtype
    if isinstance(case, Tensor):
        return case.device
    if isinstance(case, Scalar) and case.kind == HOST:
        return "host"
    return "accelerator"  # a device that a variable holds: nobody writes one for the CPU alone


def moved_to(name: str, args: Args) -> Device | None:
    """Where ``.to(…)``, ``.cuda()`` or ``.cpu()`` puts a tensor; None where it leaves it."""
    if name == "Tensor.cpu":
        return "host"
    if name == "Tensor.cuda":
        return "accelerator"
    node = args.node(0, "device")
    if isinstance(node, ir.Attribute) and node.attr == "dtype":
        return None  # ``mask.to(x.dtype)`` moves nothing
    return named_device(args.at(0, "device"))


def located(
    row: Row, value: Value, incoming: Sequence[Value], args: Args, birth: tuple[Site, tuple[object, ...]]
) -> Value:
    """A tensor that a row gives, with where it is."""
    if isinstance(value, Tuple):
        items = tuple(located(row, item, incoming, args, birth) for item in value.items)
        return replace(value, items=items)
    if not isinstance(value, Tensor):
        return value
    place = _place(row, incoming, args)
    if row.name == "Tensor.type_as":
        incoming = incoming[:1]  # the other tensor gives its type, not its values
    tensors = [case for case in incoming if isinstance(case, Tensor)]
    is_synthetic = not tensors and row.is_made_up
    if tensors and len(tensors) == len(incoming):
        is_synthetic = all(case.is_synthetic for case in tensors)
    if place == value.device and place != "host" and is_synthetic == value.is_synthetic:
        return value
    return replace(value, device=place, birth=birth if place == "host" else None, is_synthetic=is_synthetic)


def are_synthetic(given: Sequence[Value]) -> bool:
    """Whether tensors are among values, all of random or constant numbers, and nothing that is not known."""
    is_any = False
    for value in given:
        for case in value.cases:
            if isinstance(case, Tensor):
                if not case.is_synthetic:
                    return False
                is_any = True
            elif not isinstance(case, (Const, Scalar)):
                return False
    return is_any


def _place(row: Row, incoming: Sequence[Value], args: Args) -> Device:
    if row.name in MOVES:
        moved = moved_to(row.name, args)
        return device_of(incoming[:1]) if moved is None else moved
    asked = named_device(args.keywords.get("device"))
    if asked is not None:
        return asked
    if row.place == "copied to host":
        return "host"
    tensors = [case for case in incoming if isinstance(case, Tensor)]
    if tensors or row.graph != "none":
        return device_of(incoming)
    is_factory = row.name.startswith("torch.") and all(not isinstance(case, Unknown) for case in incoming)
    return "host" if is_factory or row.place else ""
