"""Networks whose weights become integers, which ask for no gradient: nothing records a graph in them."""

from __future__ import annotations

from analyzer.engine import frozen
from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Gap
from analyzer.engine.values import Ref, Value, const, truth
from analyzer.knowledge.overlays import copies

_HOMES = ("torch.quantization", "torch.ao.quantization")
_INPLACE = {"prepare": 1, "prepare_qat": 2, "fuse_modules": 2, "convert": 2, "quantize": 4, "quantize_dynamic": 4}
"""Functions that work on a copy of the network unless they are told not to, by the place of that argument."""
_TRACED = ("prepare_fx", "prepare_qat_fx", "fuse_fx", "convert_fx", "convert_to_reference_fx")
_STILL_FLOAT = frozenset({"prepare", "prepare_qat", "fuse_modules", "prepare_fx", "prepare_qat_fx", "fuse_fx"})
"""These put in what watches or imitates: the weights are trained as before."""


def _changed(name: str, inplace_at: int | None) -> object:
    """What gives a network with other layers: ``convert(model, inplace=True)``."""

    def change(machine: Calls, args: Args, at: int, state: State) -> Value:
        given = args.at(0, "model") or args.at(0, "module")
        inplace = args.at(inplace_at, "inplace") if inplace_at is not None else None
        is_known = given is not None and all(isinstance(c, Ref) and machine.is_module(c) for c in given.cases)
        if given is None or not is_known:
            made: Value = machine.create(
                "quantized", at, "Module", "a network is quantized here", gap=Gap.CONVENTION, born="unseen"
            )
        else:
            is_same = inplace is not None and truth(inplace) is not False
            made = given if is_same else copies.deepcopy(machine, args, at, state)
        if name not in _STILL_FLOAT:
            frozen.asked(machine, made, const(False), at, state)
        return made

    return change


FUNCTIONS = {
    **{f"{home}.{name}": _changed(name, place) for home in _HOMES for name, place in _INPLACE.items()},
    **{f"{home}.{each}.{name}": _changed(name, place) for home in _HOMES for each in ("quantize", "fuse_modules")
       for name, place in _INPLACE.items()},
    **{f"{home}.quantize_fx.{name}": _changed(name, None) for home in _HOMES for name in _TRACED},
}  # fmt: skip
