"""What a training step lacks by its text, where the objects came from code that was not read: a reset, a step, the
update of a scaler, a division. Each is asked of the whole file: what is done anywhere in it counts as done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from analyzer.engine.events import Clear, Step
from analyzer.engine.program import Program, extent
from analyzer.engine.trace import Gap, Site, start
from analyzer.engine.words import spelled
from analyzer.findings import Confidence, Severity
from analyzer.knowledge.words import pattern
from analyzer.records import dataclass
from analyzer.rules.base import Report
from analyzer.rules.spoken import (
    Act,
    Spoken,
    are_apart,
    is_handed_on,
    is_optimizer,
    is_scaled,
    is_scaler,
    is_scheduler,
    spoken,
)
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, target_names, walk

_BY_HAND = re.compile(
    rb"\.grad\s*=[^=]|\.grad(?:\.data)?\.(?:zero_|fill_|detach_)|def zero_grad|[\"']grad[\"']|"
    rb"\b(?!zero_grad\()\w{0,30}(?:reset|clear|zero)_?\w{0,20}grads?\w{0,20}\("
)
"""What else resets gradients; ``zero_grad`` itself is looked at by what it is called on."""
_ZERO_GRAD = re.compile(rb"zero_grad")
_STEPS = re.compile(rb"step\w{0,20}\(")
_READS = re.compile(rb"\.grad\b(?!\s+is\b)|autograd\.grad\(|_hook\(")
"""What gradients are computed for besides a step, and what divides them by hand."""
_SCALES = re.compile(rb"\.scale\(")
_DISABLED = re.compile(rb"enabled\s*=\s*False")
Found = tuple[Spoken, Act, Act]
"""The body of a function, and two of its acts."""


def is_told(report: Report, body: Spoken, even_possible: bool) -> bool:
    """Whether the rule has a finding in the same function already, or one whose evidence lies there; for the body of a
    file, in the file."""
    sites = {
        site
        for place, draft in report.drafts.items()
        if even_possible or draft.confidence is not Confidence.POSSIBLE
        for site in (place, *(each.site for trace in draft.evidence for each in trace.steps()))
        if site.path == body.path
    }
    return bool(sites) if body.function is None else any(site.at in extent(body.function) for site in sites)


def tell(
    report: Report,
    found: Iterable[Found],
    message: str,
    first: str,
    last: str,
    *,
    even_possible: bool = False,
    at_first: bool = False,
) -> None:
    """A note on the last place of each find, in a function of which the rule has told nothing. `message`: ``{of}`` is
    what that place is called on. `first` and `last`: what the two places are. `even_possible`: whether what is only
    possible was told as well, since what makes it so counts for a note. `at_first`: the note stands at the first place,
    where the rule's own findings stand: another program that shows the same file may have one."""
    for body, one, other in found:
        if not is_told(report, body, even_possible):
            report(
                body.site(one if at_first else other),
                message.replace("{of}", other.of),
                because=[start(body.site(one), first), start(body.site(other), last)],
                gaps=[Gap.CONVENTION],
                severity=Severity.NOTE,  # names alone say what the objects are
            )


@dataclass(frozen=True, slots=True)
class _Called:
    """On what the methods of a file are called, by their last names; `?` is what has none. `drawn`: what loops of the
    file go over."""

    cleared: frozenset[str]
    stepped: frozenset[str]
    updated: frozenset[str]
    unscaled: frozenset[str]
    drawn: frozenset[str]


def _act_of(method: str) -> str:
    """``step_and_update_lr`` is a step too."""
    return "step" if "step" in method else method


@remembered(maxsize=128)
def _called(unit: ir.Unit) -> _Called:
    on: dict[str, set[str]] = {"zero_grad": set(), "step": set(), "update": set(), "unscale_": set()}
    for call in of_type(unit, ir.Call):
        if isinstance(call.callee, ir.Attribute) and (name := _act_of(call.callee.attr)) in on:
            on[name].add((dotted(call.callee.value) or "?").rpartition(".")[2])
            if name == "step":
                on["step"].update((dotted(arg.value) or "?").rpartition(".")[2] for arg in call.args)
    drawn = {name for loop in of_type(unit, ir.For) for name in target_names(loop.target)}
    cleared, stepped, updated, unscaled = (frozenset(on[each]) for each in ("zero_grad", "step", "update", "unscale_"))
    return _Called(cleared, stepped, updated, unscaled, frozenset(drawn))


def _passes_before(body: Spoken, act: Act) -> list[Act]:
    """The backward passes of the iteration that an act belongs to, before it."""
    acts = body.acts[: body.acts.index(act)]
    return [each for each in acts if each.kind == "backward" and each.loops == act.loops and not are_apart(each, act)]


def _does_caller(program: Program, body: Spoken, does: re.Pattern[bytes]) -> bool:
    """Whether another file of the tree names the function beside these words."""
    name = body.function.name if body.function is not None else ""
    return bool(name) and any(program.project.callers(name, body.path, does))


def never_reset(program: Program) -> Iterator[Found]:
    """A backward pass and the step of an optimizer whose gradients nothing in the file resets."""
    for body in spoken(program):
        unit = program.unit(body.path)
        steps = [act for act in body.of("step") if not act.call.args]
        if unit is None or not steps or _BY_HAND.search(program.project.read(body.path) or b""):
            continue
        called = _called(unit)
        if not all(map(is_optimizer, called.cleared)) or called.cleared & called.drawn:
            continue  # a network is reset, or each of several optimizers
        for step in steps:
            passes = _passes_before(body, step)
            if not passes or step.name in called.cleared | called.drawn or not _is_of_one(step, called):
                continue
            if is_handed_on(body.body, frozenset([step.name])) or _is_reset_elsewhere(program, body, step):
                continue
            if _is_made_in(unit, body, step):
                continue
            yield body, passes[-1], step
            break


def _is_of_one(step: Act, called: _Called) -> bool:
    """Whether what resets other optimizers of the file resets this one as well, by its name: ``self.opt`` is kept of
    ``opt``."""
    bare = step.name.strip("_").lower()
    return not any(each.strip("_").lower() in bare or bare in each.strip("_").lower() for each in called.cleared)


def _is_made_in(unit: ir.Unit, body: Spoken, step: Act) -> bool:
    """Whether a loop around the step makes the optimizer, with or without its network; where there is none, whether
    the same function does, which steps once."""
    loops = [node for node in of_type(unit, ir.For) if node.at in step.loops]
    blocks = [loop.body for loop in loops] if step.loops else [body.body]
    return any(
        isinstance(node, ir.Assign) and step.name in {(dotted(to) or "").rpartition(".")[2] for to in node.targets}
        for block in blocks
        for node in walk(block, into_functions=False)
    )


def _is_reset_elsewhere(program: Program, body: Spoken, step: Act) -> bool:
    """Whether code that was read resets what is stepped, or another file names the function beside a reset."""
    read = [each for each in program.of(Step) if each.site == body.site(step)]
    clears = [each for each in program.of(Clear) if each.site.path != body.path]  # those of the file are in its text
    if any(each.clears or any(program.may_clear(clear, each) for clear in clears) for each in read):
        return True
    return _does_caller(program, body, _ZERO_GRAD)


def never_stepped(program: Program) -> Iterator[Found]:
    """A reset of an optimizer and a backward pass, and no step of it in the file."""
    for body in spoken(program):
        unit = program.unit(body.path)
        if unit is None or not body.of("clear") or _READS.search(program.project.read(body.path) or b""):
            continue
        called = _called(unit)
        if called.stepped & (called.drawn | {"?"}):
            continue
        for clear in body.of("clear"):
            own = [act for act in body.of("backward") if act.loops == clear.loops and not are_apart(act, clear)]
            beside = [act for act in body.of("step", "scaled step") if act.loops == clear.loops]
            if (
                not own
                or any(not are_apart(act, clear) for act in beside)
                or not _is_left_unstepped(program, body, clear, called)
            ):
                continue
            yield body, clear, own[-1]
            break


def _is_left_unstepped(program: Program, body: Spoken, clear: Act, called: _Called) -> bool:
    if clear.name in called.stepped | called.drawn:
        return False
    if not is_optimizer(clear.name):  # a network: some optimizer is at hand, gradients are clipped, and none steps
        function = body.function
        names = (
            {each.rpartition(".")[2] for each in (*function.uses, *function.locals)} if function is not None else set()
        )
        given = {param.name for param in function.params} if function is not None else set()
        if not body.of("clip") or not any(map(is_optimizer, names | given)) or any(map(is_optimizer, called.stepped)):
            return False
    unit = program.unit(body.path)
    mine = frozenset([clear.name])
    return unit is not None and not is_handed_on(unit.body, mine) and not _does_caller(program, body, _STEPS)


def never_used(program: Program) -> Iterator[tuple[Spoken, Site, str]]:
    """The optimizer that a function makes and neither steps nor hands on, beside one that it steps: where, and its
    name."""
    for body in spoken(program):
        stepped = {act.name for act in body.of("step")}
        if not stepped:
            continue
        held = set[str]()
        nodes = list(walk(body.body, into_functions=True))
        for node in nodes:
            if not isinstance(node, ir.Assign) or len(node.targets) != 1 or not isinstance(node.value, ir.Call):
                continue
            target = node.targets[0]
            if isinstance(target, ir.Name) and is_optimizer(target.id):
                kind = pattern("optimizer class").search(last_name(node.value.callee))
                holds = spelled(node.value.args[0].value) if node.value.args else ""
                if kind and holds and target.id not in stepped | held and not _is_of_use(nodes, target.id):
                    others = (each for each in nodes if isinstance(each, ir.Call) and each is not node.value)
                    if not any(each.args and spelled(each.args[0].value) == holds for each in others):
                        held.add(target.id)
                        yield body, Site(body.path, node.at), target.id


def _is_of_use(nodes: list[object], name: str) -> bool:
    """Whether anything but resets and reads of its settings is done with a variable."""
    idle = {
        id(node.value)
        for node in nodes
        if isinstance(node, ir.Attribute)
        and node.attr in {"zero_grad", "param_groups", "state_dict", "load_state_dict"}
    }
    idle |= {id(to) for node in nodes if isinstance(node, ir.Assign) for to in node.targets}
    idle |= {
        id(arg.value)
        for node in nodes
        if isinstance(node, ir.Call) and is_scheduler(_called_as(node))
        for arg in node.args
    }
    return any(isinstance(node, ir.Name) and node.id == name and id(node) not in idle for node in nodes)


def _called_as(call: ir.Call) -> str:
    return dotted(call.callee) or ""


def never_updated(program: Program) -> Iterator[Found]:
    """A scaler that steps and is updated nowhere in the file."""
    for body in spoken(program):
        unit = program.unit(body.path)
        for step in body.of("scaled step") if unit is not None else ():
            passes = _passes_before(body, step)
            is_mine = any(is_scaled(each) == step.of for each in body.of("backward"))
            called = _called(unit) if unit is not None else None
            if called is None or not is_mine or "?" in called.updated or any(map(is_scaler, called.updated)):
                continue
            if not is_handed_on(body.body, frozenset([step.name])) and not _does_caller(program, body, _SCALES):
                yield body, passes[-1] if passes else step, step
                break


def stepped_past(program: Program) -> Iterator[Found]:
    """A loss that a scaler multiplies, and an optimizer that steps by itself."""
    for body in spoken(program):
        if body.of("scaled step", "unscale") or _READS.search(program.project.read(body.path) or b""):
            continue
        for step in body.of("step"):
            passes = [each for each in _passes_before(body, step) if is_scaled(each)]
            scalers = frozenset(is_scaled(each).rpartition(".")[2] for each in passes)
            if passes and not is_handed_on(body.body, scalers):
                yield body, passes[-1], step
                break


def clipped_scaled(program: Program) -> Iterator[Found]:
    """Gradients of a scaled loss that are clipped before the scaler steps, in a file that unscales none."""
    for body in spoken(program):
        unit = program.unit(body.path)
        source = program.project.read(body.path) or b""
        if unit is None or not body.of("scaled step") or not body.of("clip") or _called(unit).unscaled:
            continue
        if _READS.search(source) or _DISABLED.search(source):
            continue
        for clip in body.of("clip"):
            passes = [each for each in _passes_before(body, clip) if is_scaled(each)]
            after = body.acts[body.acts.index(clip) :]
            steps = [each for each in after if each.kind == "scaled step" and not are_apart(each, clip)]
            if passes and steps and steps[0].loops == clip.loops:
                names = frozenset([steps[0].name])
                if not is_handed_on(body.body, names):
                    yield body, passes[-1], clip
                    break


def summed_micro_batches(program: Program) -> Iterator[Found]:
    """Backward passes in every iteration, a step in every n-th, or after a loop over micro-batches, and no division by
    their number in the file."""
    for body in spoken(program):
        unit = program.unit(body.path)
        if unit is None or not body.of("step", "scaled step") or _READS.search(program.project.read(body.path) or b""):
            continue
        branches = {node.at: node for node in _tests(body.body)}
        for step in body.of("step", "scaled step"):
            count = _periodic_count(body, step, branches) or _inner_count(body, step, branches)
            passes = [act for act in body.of("backward") if act.loops[: len(step.loops)] == step.loops]
            if count and not _is_divided(unit, count) and not any(map(_is_weighed, passes)):
                yield body, passes[-1], step
                break


def _tests(body: ir.Block) -> Iterator[ir.If | ir.For]:
    return (node for node in walk(body, into_functions=False) if isinstance(node, (ir.If, ir.For)))


def _periodic_count(body: Spoken, step: Act, nodes: dict[int, ir.If | ir.For]) -> str:
    """What ``if (i + 1) % n == 0:`` around a step and a reset is told to divide by, where the backward pass of every
    iteration stands before it."""
    for at, way in step.guards:
        test = nodes.get(at)
        moduli = walk((test.test,), False) if isinstance(test, ir.If) and way else ()
        count = next((each.right for each in moduli if isinstance(each, ir.Operation) and each.op == "%"), None)
        passes = [act for act in body.of("backward") if act.loops == step.loops]
        is_free = bool(passes) and all((at, True) not in act.guards and (at, False) not in act.guards for act in passes)
        resets = [act for act in body.of("clear") if (at, True) in act.guards]
        if count is None or not is_free or not resets or passes[0].at > step.at or _is_foreign(passes):
            continue
        if any(act is not step and act.loops == step.loops and (at, True) not in act.guards for act in body.of("step")):
            continue
        return spelled(count) if pattern("accumulation").search(spelled(count)) else ""
    return ""


def _inner_count(body: Spoken, step: Act, nodes: dict[int, ir.If | ir.For]) -> str:
    """What the loop of backward passes before a step counts to, if it says that they are accumulated."""
    inside = [act for act in body.of("backward") if len(act.loops) == len(step.loops) + 1 and act.at < step.at]
    inside = [act for act in inside if act.loops[:-1] == step.loops and not are_apart(act, step)]
    if not inside or _is_foreign(inside) or _passes_before(body, step):
        return ""
    loop = nodes.get(inside[-1].loops[-1])
    over = loop.iter if isinstance(loop, ir.For) else None
    is_range = isinstance(over, ir.Call) and last_name(over.callee) in {"range", "trange"} and len(over.args) == 1
    if not isinstance(over, ir.Call) or not is_range:
        return ""
    said = spelled(over.args[0].value)
    calls = (node for node in walk(loop.body, into_functions=False) if isinstance(node, ir.Call)) if loop else ()
    is_drawn = any(pattern("gives a batch").search(last_name(call.callee)) for call in calls)
    return said if is_drawn and pattern("accumulation").search(said) else ""


def _is_foreign(passes: list[Act]) -> bool:
    """``accelerator.backward(loss)``: what owns the pass may divide."""
    return any(act.call.args for act in passes if not is_scaled(act))


def _is_divided(unit: ir.Unit, count: str) -> bool:
    """Whether anything in the file is divided by what is spelled like a number of micro-batches."""
    if any(count in {spelled(to) for to in node.targets} and _divides(node.value) for node in of_type(unit, ir.Assign)):
        return True  # a nominal batch is made up to, of sizes that are known: its sum may be meant
    divided = [node.right for node in of_type(unit, ir.Operation) if node.op == "/" and not _is_log(node.left)]
    divided += [node.value for node in of_type(unit, ir.Augment) if node.op == "/"]
    said = (spelled(each) for each in divided if each is not None)
    return any(each == count or pattern("accumulation").search(each) for each in said)


def _divides(value: ir.Expr | None) -> bool:
    parts = walk((ir.Evaluate(value.at, value),), into_functions=False) if value is not None else ()
    return any(isinstance(part, ir.Operation) and part.op in {"/", "//"} for part in parts)


def _is_weighed(backward: Act) -> bool:
    """``loss.sum().mul(scale / total).backward()``."""
    parts = walk((ir.Evaluate(backward.at, backward.call),), into_functions=False)
    return any(
        (isinstance(part, ir.Operation) and part.op in {"*", "/"})
        or (isinstance(part, ir.Call) and last_name(part.callee) in {"mul", "div"})
        for part in parts
    )


def _is_log(divided: ir.Expr) -> bool:
    """``loss.item() / n``."""
    callee = divided.callee if isinstance(divided, ir.Call) else None
    return isinstance(callee, ir.Attribute) and callee.attr in {"item", "detach", "tolist"}


def early_schedules(program: Program) -> Iterator[Found]:
    """A scheduler that is stepped before the one step of the optimizer in one block of an iteration, also before its
    backward pass."""
    for body in spoken(program):
        for schedule in (act for act in body.of("schedule") if not act.call.args):
            steps = [act for act in body.of("step", "scaled step") if act.loops == schedule.loops]
            after = [act for act in steps if act.block == schedule.block and act.place > schedule.place]
            before = [act for act in steps if act.at < schedule.at]
            if len(after) == 1 and not before and schedule.loops and _passes_before(body, after[0]):
                yield body, schedule, after[0]
                break


def seldom_schedules(program: Program) -> Iterator[Found]:
    """A scheduler that is told how many training steps there are, and is stepped outside of the loop that trains."""
    for body in spoken(program):
        unit = program.unit(body.path)
        for schedule in body.of("schedule") if unit is not None else ():
            inside = [act for act in body.of("step", "scaled step") if _is_deeper(act, schedule)]
            same = [act for act in body.of("schedule", "step", "scaled step") if act.loops == schedule.loops]
            beside = [act for act in same if act.kind != "schedule" or (act is not schedule and act.of == schedule.of)]
            again = [act for act in body.of("schedule") if act.of == schedule.of and _is_deeper(act, schedule)]
            made = _made_by_steps(unit, schedule.name) if inside and unit is not None else None
            if made is None or unit is None or _goes_over_batches(unit, schedule, made):
                continue
            if schedule.loops and not beside and not again:
                yield body, inside[-1], schedule
                break


def _goes_over_batches(unit: ir.Unit, schedule: Act, made: ir.Call) -> bool:
    """Whether the loop around a schedule's step goes over what its total counts (``steps_per_epoch=len(loader)``): it
    is stepped per batch, of which each is several steps of the optimizer."""
    iters = [node.iter for node in of_type(unit, ir.For) if schedule.loops[-1:] == (node.at,)]
    over = {part.id for part in walk(tuple(iters), False) if isinstance(part, ir.Name)}
    parts = (part for arg in made.args for part in walk((arg.value,), False))
    counted = (part for part in parts if isinstance(part, ir.Call) and last_name(part.callee) == "len")
    return any(isinstance(arg.value, ir.Name) and arg.value.id in over for call in counted for arg in call.args)


def _is_deeper(act: Act, than: Act) -> bool:
    return len(act.loops) > len(than.loops) and act.loops[: len(than.loops)] == than.loops


def _made_by_steps(unit: ir.Unit, name: str) -> ir.Call | None:
    """The call that makes a scheduler that counts steps: every one of this name that is told a total is told steps."""
    made = [
        node.value
        for node in of_type(unit, ir.Assign)
        if isinstance(node.value, ir.Call) and any((dotted(to) or "").rpartition(".")[2] == name for to in node.targets)
    ]
    if not made or not all(pattern("schedule of steps").search(last_name(call.callee)) for call in made):
        return None  # one of two kinds, as an option says
    said = [" ".join(spelled(arg.value) for arg in call.args) for call in made]  # `num_training_steps=epochs` is epochs
    return made[0] if any(re.search(r"step|len|total|iter", each) for each in said) else None
