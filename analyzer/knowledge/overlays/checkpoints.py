"""What is read from and written to files, and on which devices."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engine import weights
from analyzer.engine.calls import Calls
from analyzer.engine.data_events import DeviceChosen, GpuUsed, Read, ReadAt, Restored, Saved, WeightsKept, reads_in
from analyzer.engine.device_events import ModuleMoved
from analyzer.engine.devices import HOST, named_device
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, start
from analyzer.engine.typing import is_argument
from analyzer.engine.values import Const, Device, External, Ref, Scalar, Tensor, Unknown, Value

_WRITTEN = "written device"
_GPU = "written GPU"
Observer = Callable[[Calls, Args, int, State, Value], None]


def load(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``torch.load(f, map_location)``: whatever was saved, marked with where it was read."""
    site = machine.site(at)
    file = args.node(0, "f")
    machine.emit(
        Read, at, start(site, "the file is read here"), device=args.at(1, "map_location"), has_more=args.has_more,
        file_at=file.at if file else None,
    )  # fmt: skip
    reason = "what `torch.load` gives"
    return Unknown(reason, via=frozenset({ReadAt(site)}), trace=start(site, reason, Gap.UNSEEN))


def restored(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``model.load_state_dict(state)``."""
    weights.used(machine, args.at(0, "state_dict"), "load", at, state)
    weights.restored(machine, args, at, state)
    read = reads_in(case for arg in args.all() for case in machine.deep(arg, state))
    if read:
        into = receiver.obj if isinstance(receiver, Ref) else None
        machine.emit(Restored, at, start(machine.site(at), "it is restored from what was read"), read=read, into=into)


def device_asked(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch.cuda.is_available()``."""
    machine.emit(DeviceChosen, at, start(machine.site(at), "the device is chosen when the program runs"))


def device_made(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch.device(args.device)``."""
    value = args.at(0, "device") or args.at(0, "type")
    if value is None:
        return
    names = {case.value for case in value.cases if isinstance(case, Const)}
    is_choice = "cpu" in names and len(names) > 1  # ``"cuda" if args.cuda else "cpu"``
    if is_choice or not all(isinstance(case, Const) for case in value.cases):
        device_asked(machine, args, at, state, result)


def device(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``torch.device("cpu")`` is the host, whatever its name; ``torch.device("cuda:0")`` is a device written down."""
    value = args.at(0, "device") or args.at(0, "type")
    names = [case.value for case in value.cases if isinstance(case, Const)] if value is not None else []
    if value is None or len(names) < len(value.cases) or not all(isinstance(name, str) for name in names):
        return Scalar()
    if all(str(name).startswith("cuda") for name in names):
        return Scalar(_GPU)
    return Scalar(HOST if all(name == "cpu" for name in names) else _WRITTEN)


def _may_be_module(machine: Calls, receiver: Value) -> bool:
    return isinstance(receiver, Unknown) or machine.is_module(receiver)


def _moved_in_loop(machine: Calls, receiver: Value, to: Device | None, at: int) -> None:
    if to is not None and machine.loops and isinstance(receiver, Ref) and machine.is_module(receiver):
        machine.emit(ModuleMoved, at, None, module=receiver.obj, to=to)


def moved(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``model.to(device)`` with a device that is not written down."""
    value = args.at(0, "device")
    _moved_in_loop(machine, receiver, named_device(value), at)
    if value is not None and isinstance(receiver, Tensor) and receiver.is_batch and _is_callers(value):
        trace = start(machine.site(at), "the data go to a device that the caller gives", Gap.CONVENTION)
        machine.emit(DeviceChosen, at, trace, is_callers=True)
    if value is None or not _may_be_module(machine, receiver):
        return
    if not any(isinstance(case, (Const, External, Tensor)) or _is_made(case) for case in value.cases):
        trace = start(machine.site(at), "the model goes to a device that is chosen when the program runs")
        machine.emit(DeviceChosen, at, trace)
    elif all(_is_gpu(case) for case in value.cases):
        machine.emit(GpuUsed, at, None)


def _is_callers(value: Value) -> bool:
    """An argument of a function that nobody was seen to call, or a field that only a caller sets."""
    return all(isinstance(case, Unknown) and is_argument(case) for case in value.cases)


def _is_made(case: Value) -> bool:
    """What ``torch.device("cuda:0")`` gives; where its argument is open, `device_made` has noted that."""
    return isinstance(case, Scalar) and case.kind in {HOST, _WRITTEN, _GPU}


def _is_gpu(case: Value) -> bool:
    """A GPU that is written down: ``"cuda"``, ``torch.device("cuda:0")``."""
    if isinstance(case, Const):
        return isinstance(case.value, str) and case.value.startswith("cuda")
    return isinstance(case, Scalar) and case.kind == _GPU


def moved_to_gpu(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``model.cuda(args.gpu)``; ``model.cuda()`` only under a condition."""
    value = args.at(0, "device")
    is_open = value is not None and not any(isinstance(case, Const) for case in value.cases)
    if not is_open and isinstance(receiver, Tensor) and machine.statement != machine.site(at):
        machine.emit(GpuUsed, at, None)
    if not _may_be_module(machine, receiver):
        return
    _moved_in_loop(machine, receiver, "accelerator", at)
    if is_open or machine.guards:
        trace = start(machine.site(at), "the model goes to a GPU that is chosen when the program runs")
        machine.emit(DeviceChosen, at, trace, is_conditional=not is_open)
    if not is_open and machine.is_module(receiver):
        machine.emit(GpuUsed, at, None)


def tensors_on_gpu(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch.set_default_tensor_type("torch.cuda.FloatTensor")``: every tensor is made on the GPU."""
    for case in (case for value in args.all() for case in value.cases):
        name = case.name if isinstance(case, External) else case.value if isinstance(case, Const) else ""
        if isinstance(name, str) and name.removeprefix("torch.").startswith("cuda"):
            machine.emit(GpuUsed, at, None)


def gpu_asked(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch.cuda.current_device()``: it raises where there is no GPU."""
    machine.emit(GpuUsed, at, None)


def _saved(callee: str, number: int, name: str) -> Observer:
    def note(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        file = args.node(number, name)
        trace = start(machine.site(at), "the file is written here")
        machine.emit(Saved, at, trace, callee=callee, file_at=file.at if file else None)
        weights.used(machine, args.at(0, "obj"), "save", at, state)

    return note


def saved_pretrained(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``model.save_pretrained(folder)``. It may ask for the rank itself; and tokenizers, which have the same method,
    come to the same text on every rank."""
    file = args.node(0, "save_directory")
    if {"is_main_process", "save_function", "state_dict"} & args.keywords.keys():
        return
    trace = None if machine.is_module(receiver) else start(machine.site(at), "written here", Gap.UNSEEN)
    machine.emit(Saved, at, trace, callee="save_pretrained", file_at=file.at if file else None)


def saved_once(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``accelerator.save(weights, file)``, which asks for the rank itself."""
    if machine.receiver_kind(receiver) == "Accelerator":
        machine.emit(WeightsKept, at, start(machine.site(at), "written here"))


FUNCTIONS = {"torch.load": load, "torch.device": device}
_NEED_GPU = tuple(
    f"torch.cuda.{name}"
    for name in ("current_device", "set_device", "get_device_name", "get_device_properties", "synchronize")
)
OBSERVERS = {
    "torch.save": _saved("torch.save", 1, "f"),
    "torch.cuda.is_available": device_asked,
    "torch.device": device_made,
    **dict.fromkeys(_NEED_GPU, gpu_asked),
    "torch.set_default_tensor_type": tensors_on_gpu,
    "torch.set_default_device": tensors_on_gpu,
}
METHOD_OBSERVERS = {
    "load_state_dict": restored,
    "to": moved,
    "cuda": moved_to_gpu,
    "save_pretrained": saved_pretrained,
    **dict.fromkeys(("save", "save_state", "save_model"), saved_once),
}
