"""What surrounds an optimizer's step: gradient scalers, clipping, schedulers, accumulation."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.events import Step
from analyzer.engine.machine import Args
from analyzer.engine.optim_events import (
    Clip,
    ParametersAdded,
    ScalerStep,
    ScalerUpdate,
    SchedulerStep,
    Unscale,
)
from analyzer.engine.state import FALSE, FRESH, SCALED, State
from analyzer.engine.trace import Gap, start
from analyzer.engine.values import TRI, ObjectId, Ref, Scalar, Tensor, Tri, Unknown, Value, const, union
from analyzer.records import replace


def _flag(state: State, place: tuple[object, str]) -> Tri:
    return TRI[state.flag(*place)]


def _optimizer(machine: Calls, args: Args) -> ObjectId | None:
    given = args.at(0, "optimizer")
    cases = [case for case in given.cases if isinstance(case, Ref)] if given is not None else []
    return cases[0].obj if len(cases) == 1 else None


# --- scalers --------------------------------------------------------------------------------------------------------


def scale(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``scaler.scale(loss)``: the same graph, and a backward through it leaves multiplied gradients."""
    tag = ("scaled", ref.obj)
    given = args.at(0, "outputs") or Scalar()
    return union(
        replace(case, via=case.via | {tag}) if isinstance(case, (Tensor, Unknown)) else case for case in given.cases
    )


def unscale(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``scaler.unscale_(optimizer)``."""
    machine.emit(Unscale, at, None, scaler=ref.obj, optimizer=_optimizer(machine, args))
    state.set(SCALED, FALSE)
    return const(None)


def scaler_step(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``scaler.step(optimizer)``: a step of the optimizer, or of one that was not seen."""
    optimizer = _optimizer(machine, args)
    machine.emit(ScalerStep, at, None, scaler=ref.obj, optimizer=optimizer)
    given = args.at(0, "optimizer")
    for case in given.cases if given is not None else ():
        if isinstance(case, Ref):
            machine.step(case, at, state, through_scaler=True)
        else:
            trace = start(machine.site(at), "the optimizer steps here", Gap.CONVENTION)
            machine.emit(Step, at, trace, optimizer=None, modules=frozenset(), is_stale="maybe", born_in=())
            state.set(FRESH, FALSE)
            state.set(SCALED, FALSE)
    return const(None)


def scaler_update(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``scaler.update()``."""
    machine.emit(ScalerUpdate, at, None, scaler=ref.obj)
    return const(None)


# --- clipping -------------------------------------------------------------------------------------------------------


def _clip(machine: Calls, given: Value | None, at: int, state: State, unscales: bool = False) -> Value:
    modules, is_complete = machine.modules_in(given, state) if given is not None else (frozenset(), False)
    if unscales:
        state.set(SCALED, FALSE)
    machine.emit(
        Clip, at, None, modules=machine.with_parts(modules, state), is_scaled=_flag(state, SCALED),
        is_fresh=_flag(state, FRESH), is_complete=is_complete,
    )  # fmt: skip
    return Tensor()


def clip(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``torch.nn.utils.clip_grad_norm_(parameters, …)``."""
    return _clip(machine, args.at(0, "parameters"), at, state)


def clip_by_accelerator(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``accelerator.clip_grad_norm_(parameters, …)`` and Fabric's ``clip_gradients(model, …)`` unscale first."""
    return _clip(machine, args.at(0, "parameters") or args.at(0, "module"), at, state, unscales=True)


def clip_of_module(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """FSDP's ``model.clip_grad_norm_(…)``."""
    return _clip(machine, ref, at, state)


def clip_by_lightning(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``self.clip_gradients(optimizer, …)`` of a LightningModule: its precision plugin unscales first."""
    return _clip(machine, args.at(0, "optimizer"), at, state, unscales=True)


# --- schedulers -----------------------------------------------------------------------------------------------------


def scheduler_step(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``scheduler.step()``."""
    given = args.at(0) or next(iter(args.keywords.values()), None)
    trace = start(machine.site(at), "the scheduler steps here", machine.obj(ref).trace.gap)
    machine.emit(
        SchedulerStep, at, trace, scheduler=ref.obj, given=given, has_more=args.has_more, is_fresh=_flag(state, FRESH)
    )
    return const(None)


def stepper_step(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``step()`` of an optimizer or a scheduler, whichever: after a backward pass it is the optimizer's."""
    if state.flag(*FRESH) is not False:
        machine.step(ref, at, state)
    return const(None)


def add_param_group(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``optimizer.add_param_group({"params": …})``."""
    machine.emit(ParametersAdded, at, None, optimizer=ref.obj)
    return const(None)


def accumulate(machine: Calls, ref: Ref, args: Args, at: int, state: State) -> Value:
    """``accelerator.accumulate(model)``: a context in which steps and clears count only every n-th time."""
    return machine.create("accumulate", at, "Context", "gradients accumulate here", name="Accelerator.accumulate",
                          arguments=(("accelerator", ref),))  # fmt: skip


FUNCTIONS = {
    f"torch.nn.utils.{place}{name}": clip
    for place in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")
}
METHODS = {
    ("Scaler", "scale"): scale,
    ("Scaler", "unscale_"): unscale,
    ("Scaler", "step"): scaler_step,
    ("Scaler", "update"): scaler_update,
    ("Scheduler", "step"): scheduler_step,
    ("Stepper", "step"): stepper_step,
    ("Optimizer", "add_param_group"): add_param_group,
    ("Accelerator", "clip_grad_norm_"): clip_by_accelerator,
    ("Accelerator", "clip_grad_value_"): clip_by_accelerator,
    ("Accelerator", "clip_gradients"): clip_by_accelerator,
    ("Accelerator", "accumulate"): accumulate,
    ("Module", "clip_grad_norm_"): clip_of_module,
    ("Module", "clip_gradients"): clip_by_lightning,
}
