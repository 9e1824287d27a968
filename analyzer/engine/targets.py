"""What a step takes as given: bootstrap targets, advantages, averages of weights. Their graph has no business there.

Marks in `via` say what arithmetic made of a tensor; they end where a layer begins, and a value without `roots` has no
graph whatever they say.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from analyzer.engine import measures
from analyzer.engine.activations import LOG_PROBABILITIES
from analyzer.engine.events import Event
from analyzer.engine.graphs import roots_of
from analyzer.engine.state import GRAD_OFF, State
from analyzer.engine.trace import Site
from analyzer.engine.values import Scalar, Tensor, Unknown, Value, union
from analyzer.records import dataclass, replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, walk

if TYPE_CHECKING:
    from analyzer.engine.machine import Args, Machine


class Mark(enum.Enum):
    """What arithmetic made of a tensor."""

    BOOTSTRAP = "something that is no output of a network, plus a scaled output"
    ADVANTAGE = "an output of a network less something else, or the other way round"
    LOG_PROB = "the logarithm of the probability of what a policy did"
    BY_HAND = "such a logarithm that is put together from probabilities, or the ratio of two"
    TAKEN = "of the outputs of a network, those that indices pick"
    WEIGHTS = "scaled parameters, or made of these"
    DISCOUNTED = "an output of a network times two things that are none: a rate, and what ends with the episode"


_MARKS = frozenset(Mark)
_REWARDS = re.compile("reward|done|terminal|discount|gamma|next_state|next_obs", re.IGNORECASE)
_IN_PLACE = frozenset({"Tensor.add_", "Tensor.lerp_", "Tensor.copy_", "Tensor.mul_"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrapped(Event):
    """A bootstrap target that has a graph is compared with an output of a network: the forward passes of both."""

    target: frozenset[Site]
    output: frozenset[Site]
    is_guess: bool = False
    """Whether the loss was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWeighted(Event):
    """The log-probability of an action is multiplied by an advantage that has a graph."""

    advantage: frozenset[Site]
    policy: frozenset[Site]
    is_by_hand: bool = False
    """Whether no distribution gave the log-probability: it was picked from outputs, or is the ratio to an old one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsAveraged(Event):
    """A running average takes up parameters together with a graph."""


def marks_of(case: Value) -> frozenset[object]:
    """The marks of an atom."""
    return case.via & _MARKS if isinstance(case, (Tensor, Unknown)) and case.via else frozenset()


def without(tags: frozenset[object]) -> frozenset[object]:
    """The tags that are none of these marks."""
    return tags - _MARKS if tags & _MARKS else tags


def marked(value: Value, mark: Mark) -> Value:
    """An atom with one more mark."""
    return replace(value, via=value.via | {mark}) if isinstance(value, (Tensor, Unknown)) else value


def after_operation(machine: Machine, op: str, one: Value, two: Value, result: Value, at: int) -> Value:
    """What ``one op two`` is, and what it says about the two."""
    first, second = roots_of(one), roots_of(two)
    if op == "*" and (_is_parameter(one) or _is_parameter(two)):
        return marked(result, Mark.WEIGHTS)
    if op == "*" and first and second:
        _weigh(machine, one, two, at)
    elif op == "*" and (first or second) and (measures.is_scaled(one) or measures.is_scaled(two)):
        return marked(result, Mark.DISCOUNTED)
    elif op == "+" and bool(first) != bool(second):
        scaled, other = (one, two) if first else (two, one)
        is_layer = machine.forwards > 0 or _is_parameter(other)  # ``x * self.gamma + self.beta``
        is_reward = _is_reward(other) or (
            Mark.DISCOUNTED in marks_of(scaled) and _is_number(other) and _speaks_of_rewards(machine)
        )
        if measures.is_scaled(scaled) and is_reward and not is_layer:
            return marked(result, Mark.BOOTSTRAP)
    elif op == "-" and (first or second):
        return _difference(machine, one, two, result, at)
    return result


def _is_parameter(case: Value) -> bool:
    return isinstance(case, Tensor) and bool(case.param_of) and case.graph == "yes"


def _is_reward(case: Value) -> bool:
    """Whether a summand is a quantity of its own: no constant, no share of a mixture."""
    if isinstance(case, (Tensor, Unknown)):
        return not measures.is_scaled(case)
    return isinstance(case, Scalar)


def _speaks_of_rewards(machine: Machine) -> bool:
    """Whether the function has names of reinforcement learning. They only ever hush: else, a share of one thing and a
    share of another are a mixture (``lam * y + (1 - lam) * w * out``)."""
    node = machine.frame.node
    names = (
        (*node.locals, *(param.name for param in node.params), *node.uses) if isinstance(node, ir.FunctionDef) else ()
    )
    return any(_REWARDS.search(name) for name in names)


def _is_number(case: Value) -> bool:
    """Whether a summand is, or may be, a quantity, whatever it was multiplied by (``reward * scale``)."""
    return isinstance(case, (Tensor, Unknown, Scalar))


def _difference(machine: Machine, one: Value, two: Value, result: Value, at: int) -> Value:
    is_target = [Mark.BOOTSTRAP in marks_of(case) for case in (one, two)]
    roots = [roots_of(one), roots_of(two)]
    if all(roots) and is_target[0] != is_target[1]:
        target, output = roots if is_target[0] else roots[::-1]
        machine.emit(Bootstrapped, at, None, target=target, output=output)
    is_given = [isinstance(case, (Tensor, Unknown)) and not roots_of(case) for case in (one, two)]
    if any(Mark.LOG_PROB in marks_of(case) for case in (one, two)):
        return marked(result, Mark.BY_HAND)  # ``log_prob - old_log_prob``: the logarithm of a ratio
    return marked(result, Mark.ADVANTAGE) if any(is_given) or any(is_target) else result


def _weigh(machine: Machine, one: Value, two: Value, at: int) -> None:
    for policy, weight in ((one, two), (two, one)):
        here = marks_of(policy)
        there = marks_of(weight)
        if Mark.LOG_PROB in here - there and Mark.ADVANTAGE in there - here:
            machine.emit(
                PolicyWeighted, at, weight.trace, advantage=roots_of(weight), policy=roots_of(policy),
                is_by_hand=Mark.BY_HAND in here,
            )  # fmt: skip


def compared(machine: Machine, args: Args, at: int) -> None:
    """Code that was not read is given a bootstrap target and an output: a loss, if a backward pass follows."""
    if len(args.positional) != 2 or args.keywords:
        return
    sides = [{mark for case in value.cases for mark in marks_of(case)} for value in args.positional]
    roots = [frozenset(root for case in value.cases for root in roots_of(case)) for value in args.positional]
    is_target = [Mark.BOOTSTRAP in marks for marks in sides]
    if all(roots) and is_target[0] != is_target[1]:
        target, output = roots if is_target[0] else roots[::-1]
        machine.emit(Bootstrapped, at, None, target=target, output=output, is_guess=True)


def after_call(
    machine: Machine, name: str, args: Args, receiver: Value | None, result: Value, state: State, at: int
) -> Value:
    """What a library call gives: log-probabilities; and parameters that others are mixed into, in place."""
    mark = _taken(name, args, receiver)
    if mark is not None:
        picked = union(marked(case, mark) for case in result.cases)
        is_given = mark is Mark.TAKEN or name.endswith(".log_prob")
        return picked if is_given else union(marked(case, Mark.BY_HAND) for case in picked.cases)
    if name in _IN_PLACE and receiver is not None:
        note_followed(machine, receiver, args.all())
        if isinstance(receiver, Tensor) and receiver.param_of and not _is_parameter(receiver):
            return receiver  # ``p.data.mul_(decay).add_(q.data)``
    if name in _IN_PLACE and receiver is not None and _is_parameter(receiver):
        given = [case for arg in args.all() for case in arg.cases]
        is_plain = name != "Tensor.copy_"
        is_mixed = any((is_plain and _is_parameter(case)) or Mark.WEIGHTS in marks_of(case) for case in given)
        if is_mixed and state.flag(*GRAD_OFF) is False:
            machine.emit(WeightsAveraged, at, None)
        return receiver
    return result


def _taken(name: str, args: Args, receiver: Value | None) -> Mark | None:
    """What a call makes of what a policy gives: ``dist.log_prob(a)``, ``probs.gather(1, a)`` and the logarithm of it,
    ``log_softmax(x).gather(1, a)``."""
    method = name.rpartition(".")[2]
    if method == "log_prob":
        return Mark.LOG_PROB
    if method not in {"gather", "log"}:
        return None
    subject = args.at(0, "input") if receiver is None else receiver
    cases = [case for case in (subject.cases if subject is not None else ()) if isinstance(case, (Tensor, Unknown))]
    if method == "log":
        return Mark.LOG_PROB if any(Mark.TAKEN in marks_of(case) for case in cases) else None
    made = [case.activation.name for case in cases if isinstance(case, Tensor) and case.activation is not None]
    return Mark.LOG_PROB if any(each in LOG_PROBABILITIES for each in made) else Mark.TAKEN


def note_followed(machine: Machine, receiver: Value, given: Iterable[Value]) -> None:
    """Parameters of one network are mixed into those of another, which follows it."""
    mine = frozenset(obj for case in receiver.cases if isinstance(case, Tensor) for obj in case.param_of)
    others = [case for value in given for case in value.cases if isinstance(case, Tensor)]
    if mine and any(bool(case.param_of - mine) or Mark.WEIGHTS in marks_of(case) for case in others):
        machine.followers |= mine


def note_average(machine: Machine, node: ir.Assign, value: Value, state: State) -> None:
    """``shadow[name] = decay * shadow[name] + (1 - decay) * parameter``. Fast weights of an inner loop, which keep
    their graph on purpose, are parameters less a gradient: nothing scales them."""
    for case in value.cases:
        if isinstance(case, Tensor) and case.via and case.graph == "yes" and Mark.WEIGHTS in marks_of(case):
            break
    else:
        return
    if state.flag(*GRAD_OFF) is not False:
        return
    read = [each for each in walk((node.value,), into_functions=False) if isinstance(each, ir.Subscript)]
    for target in node.targets:
        name = dotted(target.value) if isinstance(target, ir.Subscript) else None
        if node.value is not None and name is not None and any(dotted(each.value) == name for each in read):
            machine.emit(WeightsAveraged, node.value.at, None)
