"""What ranks put together: collectives of torch.distributed and Accelerate, and what Lightning logs for all of them."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.data_events import Collective, Launched, Logged
from analyzer.engine.hooks import framework_of
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import start
from analyzer.engine.values import Class, Const, External, Ref, Value, truth

_SEVERAL_DEVICES = ("devices", "gpus", "num_nodes", "num_processes", "tpu_cores")


def summed(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``dist.all_reduce(tensor, op)``: a sum unless `op` says otherwise."""
    op = args.at(1, "op")
    is_sum = op is None or all(isinstance(case, External) and case.name.endswith(".SUM") for case in op.cases)
    trace = start(machine.site(at), "summed over all ranks here" if is_sum else "put together over all ranks here")
    machine.emit(Collective, at, trace, how="sum" if is_sum else "mean", value=args.at(0, "tensor"))


def gathered(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``accelerator.gather(tensor)``: with the samples that were repeated to fill the last batches."""
    if machine.receiver_kind(receiver) == "Accelerator":
        trace = start(machine.site(at), "gathered from all ranks here, as it is")
        machine.emit(Collective, at, trace, how="gather", value=args.at(0, "tensor"))


def logged(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``self.log("val_loss", loss)`` of a LightningModule: the value of the first rank, unless it is told to merge."""
    cls = machine.obj(receiver).cls if isinstance(receiver, Ref) else None
    framework = framework_of(machine.knowledge, cls) if isinstance(cls, Class) else None
    if framework is None or framework.name != "Lightning":
        return
    value = args.at(1, "value")
    objects = [machine.obj(case) for case in (value.cases if value is not None else ()) if isinstance(case, Ref)]
    asked = [args.keywords[name] for name in ("sync_dist", "rank_zero_only") if name in args.keywords]
    is_merged = bool(objects) or args.has_more or any(truth(each) is not False for each in asked)
    trace = start(machine.site(at), "logged on every rank, each with its own value")
    machine.emit(Logged, at, trace, is_merged=is_merged)


def launched(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``Trainer(devices=4)``."""
    strategy = args.keywords.get("strategy", args.keywords.get("accelerator"))
    counts = [_count(args.keywords[name], state) for name in _SEVERAL_DEVICES if name in args.keywords]
    is_named = strategy is not None and all(_is_parallel(case) for case in strategy.cases)
    if any(count > 1 for count in counts) or (is_named and not any(count == 1 for count in counts)):
        machine.emit(Launched, at, start(machine.site(at), "the trainer runs on several devices"))


def _is_parallel(case: Value) -> bool:
    return (
        isinstance(case, Const) and isinstance(case.value, str) and case.value.startswith(("ddp", "fsdp", "deepspeed"))
    )


def _count(value: Value, state: State) -> int:
    """How many devices are asked for; 0 where that does not show."""
    counts = {_count_of(case, state) for case in value.cases}
    return counts.pop() if len(counts) == 1 else 0


def _count_of(case: Value, state: State) -> int:
    if isinstance(case, Const) and isinstance(case.value, int) and not isinstance(case.value, bool):
        return 2 if case.value == -1 else case.value
    return 0


_TRAINERS = tuple(f"{home}.Trainer" for home in ("lightning", "lightning.pytorch", "pytorch_lightning"))
OBSERVERS = {
    **dict.fromkeys(("torch.distributed.all_reduce", "torch.distributed.reduce"), summed),
    **dict.fromkeys(_TRAINERS, launched),
}
METHOD_OBSERVERS = {"gather": gathered, "log": logged}
