"""What a number measures: the mean over a batch, a sum over it, a count, a number of samples or of batches.

On tensors a measure is a mark in `via`, so that a join keeps it where one path has it; on plain numbers it is the
`kind` of the scalar. Marks end where numbers of another kind begin: at layers, at unseen calls, at a loss.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from analyzer.engine.events import Event
from analyzer.engine.padding import marks_in
from analyzer.engine.padding import without as unpadded_tags
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Const, Scalar, Tensor, Unknown, Value, union
from analyzer.records import dataclass, replace


class Mark(enum.Enum):
    """A measure of a tensor."""

    MEAN = "the mean over a batch"
    SUM = "a sum"
    LOSS = "a loss whose code was not seen: a mean by convention"
    CALLED = "what is called a loss, with gradients off: a mean by convention"
    FACTOR = "divided by something that is no output of a network"
    WEIGHT = "multiplied by something that is no output of a network"
    UNSEEN = "multiplied or divided by a number that is not written down"
    COUNT = "how often something holds"
    MEANS = "means of batches, added up"
    COUNTS = "counts of batches, added up"
    __hash__ = object.__hash__  # as in `Gap`


_MARKS = frozenset(Mark)
_FACTORS = frozenset({Mark.FACTOR, Mark.WEIGHT, Mark.UNSEEN})
_SCALING = {"/", "*"}
_SCALES = ("div", "div_", "mul", "mul_", "divide", "true_divide", "multiply", "divide_")
_SCALING_CALLS = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in _SCALES)
_COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_not", "isclose"})
METHODS = frozenset({*_SCALES, "sum"})
"""Methods of a tensor that change its measure: no output of a model has a field of such a name."""
DIVIDED_IN_PLACE = frozenset({"div_", "divide_", "true_divide_"})
SCALED_IN_PLACE = frozenset({"mul_", *DIVIDED_IN_PLACE})
NUMBERS = {"Tensor.item", "Tensor.numpy", "Tensor.tolist"}
UNITS = frozenset({"mean", "means", "total", "totals", "count", "counts", "samples", "batches", "size", "padded"})
"""Kinds of scalars: a batch mean; batch means added up; a batch mean times the size of its batch; these added up; a
count in a batch; counts added up; the number of samples in a data set; of batches in a loader; of samples in a batch;
of batches times their nominal size."""


BY_NAME = "the mean over a batch, if what is called a loss gives one"
COUNTED_BY_USE = "the number of samples, if what the loader is made of has that length"
ADDED_BY_NAME = "added up here, batch by batch: means, if what is called a loss gives them"


def is_by_name(trace: Trace | None) -> bool:
    """Whether only the name of what was called, or what a name is used for, says what a number measures."""
    return trace is not None and any(step.note in {BY_NAME, ADDED_BY_NAME, COUNTED_BY_USE} for step in trace.steps())


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(Event):
    """One measure is divided by another. `over` and `by` are their units."""

    over: str
    by: str
    over_trace: Trace
    by_trace: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(Event):
    """``next(iterator)``: one more element is taken."""


def marks_of(case: Value) -> frozenset[object]:
    """The measures of an atom."""
    return case.via & _MARKS if isinstance(case, (Tensor, Unknown)) else frozenset()


def is_loss_unread(case: Tensor) -> bool:
    """Whether a tensor is what a loss gave whose code was not seen."""
    return Mark.LOSS in case.via or Mark.CALLED in case.via


def lasting(case: Value) -> frozenset[object]:
    """The marks that stay on the same numbers without their graph."""
    return marks_of(case) | marks_in(case.via) if isinstance(case, (Tensor, Unknown)) else frozenset()


def without(tags: frozenset[object]) -> frozenset[object]:
    """The tags that are no measures."""
    tags = unpadded_tags(tags)
    return tags - _MARKS if tags & _MARKS else tags


def marked(value: Value, *marks: Mark) -> Value:
    """The value with these measures and no others."""
    return union(
        replace(case, via=without(case.via) | set(marks)) if isinstance(case, (Tensor, Unknown)) else case
        for case in value.cases
    )


def reduction(options: Mapping[str, Value]) -> Mark | None:
    """How a loss of torch reduces, by its options: to a mean unless told otherwise; None where it does not reduce or
    the option is not known."""
    given = options.get("reduction")
    average = options.get("size_average")
    if average is not None and any(isinstance(case, Const) and case.value is False for case in average.cases):
        return Mark.SUM
    if given is None:
        return Mark.MEAN
    names = {case.value if isinstance(case, Const) else None for case in given.cases}
    known = {"mean": Mark.MEAN, "batchmean": Mark.MEAN, "sum": Mark.SUM, "elementwise_mean": Mark.MEAN}
    return known.get(str(names.pop())) if len(names) == 1 else None


def after_call(name: str, inputs: tuple[Value, ...], result: Value) -> Value:
    """The result of a library call with its measure: whole reductions, and scaling by something plain."""
    last = name.rsplit(".", 1)[-1]
    if last in _COMPARES and name.startswith(("torch.", "Tensor.")):
        return marked(result, Mark.COUNT)
    if last in {"mean", "sum"} and len(inputs) == 1:
        is_count = any(Mark.COUNT in marks_of(case) for case in inputs[0].cases)
        marks = [Mark.MEAN if last == "mean" else Mark.SUM, *([Mark.COUNT] if is_count else [])]
        return marked(result, *marks)
    if name in _SCALING_CALLS and len(inputs) == 2 and is_scaling(inputs[0], inputs[1]):
        op = "*" if "mul" in last else "/"
        return union(_with_factor(case, op, inputs[1]) for case in result.cases)
    return result


def is_scaling(one: Value, two: Value) -> bool:
    """Whether one of two factors is no output of a network."""
    return not all(any(_has_roots(case) for case in value.cases) for value in (one, two))


def _has_roots(case: Value) -> bool:
    return isinstance(case, (Tensor, Unknown)) and bool(case.roots)


def is_scaled(case: Value) -> bool:
    """Whether a case was multiplied or divided by something that is no output of a network."""
    return bool(marks_of(case) & _FACTORS)


def _with_factor(case: Value, op: str, by: Value) -> Value:
    """``(a + b) / 2`` of two means is still a mean; ``loss * 32`` is one times the size of a batch."""
    marks = {Mark.WEIGHT if op == "*" else Mark.FACTOR}
    if op == "*" or not isinstance(by, Const):
        marks.add(Mark.UNSEEN)
    return replace(case, via=case.via | marks) if isinstance(case, (Tensor, Unknown)) else case


def after_operation(op: str, one: Value, two: Value, result: Value) -> Value:
    """The measure of ``one op two`` where a tensor is involved: a sum is scaled only if all its parts are, and what
    each of them is multiplied by is its weight in the sum."""
    if op == "/" and Mark.COUNT in marks_of(two) and isinstance(result, (Tensor, Unknown)):
        result = replace(result, via=result.via - {Mark.COUNT, Mark.SUM})  # ``loss / mask.sum()`` counts nothing more
    if op in _SCALING:
        return _with_factor(result, op, two) if is_scaling(one, two) else result
    is_sum = op in {"+", "-"} and all(isinstance(case, (Tensor, Unknown)) for case in (one, two))
    if is_sum and isinstance(result, (Tensor, Unknown)):
        is_weighted = all(_has_roots(case) and is_scaled(case) for case in (one, two))
        if is_scaled(one) != is_scaled(two) or (is_weighted and Mark.FACTOR not in marks_of(result)):
            return replace(result, via=result.via - _FACTORS - _besides(one, two))
    return result


def _besides(one: Value, two: Value) -> frozenset[object]:
    """What a weighted term (a penalty on the weights) does not make of the mean it is added to."""
    main = [marks_of(case) for case in (one, two) if not is_scaled(case)]
    is_mean = len(main) == 1 and bool(main[0] & {Mark.MEAN, Mark.LOSS, Mark.CALLED}) and Mark.SUM not in main[0]
    return frozenset({Mark.SUM, Mark.COUNT}) if is_mean else frozenset()


def number_of(receiver: Value, site: Site) -> Scalar:
    """``loss.item()``: the measure goes on."""
    units = {_unit(marks_of(case)) for case in receiver.cases}
    unit = units.pop() if len(units) == 1 else ""
    if not unit:
        return Scalar(trace=receiver.trace)
    is_named = any(Mark.CALLED in marks_of(case) for case in receiver.cases)
    is_guess = is_named or any(Mark.LOSS in marks_of(case) for case in receiver.cases)
    note = {
        "mean": BY_NAME if is_named else "the mean over a batch",
        "means": "means of batches, added up",
        "counts": "counts of batches, added up",
    }.get(unit, "a count in a batch")
    return Scalar(unit, trace=start(site, note, Gap.CONVENTION if is_guess else None))


def _unit(marks: frozenset[object]) -> str:
    if Mark.UNSEEN in marks or (Mark.FACTOR in marks and Mark.SUM in marks):
        return ""
    if Mark.MEANS in marks or Mark.COUNTS in marks:
        return "means" if Mark.MEANS in marks else "counts"
    if Mark.SUM in marks:
        return "count" if Mark.COUNT in marks and Mark.MEAN not in marks else ""
    return "mean" if marks & {Mark.MEAN, Mark.LOSS, Mark.CALLED} else ""


def unit_of(case: Value) -> str:
    """The unit of an atom, if it has one."""
    if isinstance(case, Scalar):
        return case.kind if case.kind in UNITS else ""
    return _unit(marks_of(case))


def plain(op: str, one: Value, two: Value) -> Scalar | None:
    """Arithmetic on plain numbers with units; None where neither has one."""
    units = {unit_of(one), unit_of(two)} - {""}
    if not units:
        return None
    trace = one.trace if unit_of(one) else two.trace
    is_nominal = units == {"batches"} and not is_small(one) and not is_small(two)
    if op == "*" and (is_nominal or units == {"batches", "size"}):
        return Scalar("padded", trace=trace)
    if op == "*" and units & {"count", "counts"} and (isinstance(one, Const) or isinstance(two, Const)):
        return Scalar(units.pop(), trace=trace)  # per cent
    if op == "*" and units == {"mean", "size"}:
        return Scalar("total", trace=trace)
    if op in {"+", "-"} and len(units) == 1:
        return Scalar(units.pop(), trace=trace)
    return Scalar()


def is_small(case: Value) -> bool:
    """One, or a constant that is no batch size."""
    return isinstance(case, Const) and not (isinstance(case.value, int) and case.value > 1)


_ADDED_UP = {
    "mean": "means", "means": "means", "total": "totals", "totals": "totals", "count": "counts", "size": "samples",
}  # fmt: skip


def added_up(value: Value, result: Value, site: Site) -> Value:
    """``total += value`` in a loop: batch means and counts of all batches so far."""
    units = {unit_of(case) for case in value.cases}
    unit = _ADDED_UP.get(units.pop() if len(units) == 1 else "")
    if unit is None:
        return result
    gap = Gap.CONVENTION if value.trace is not None and Gap.CONVENTION in value.trace.gaps else None
    guess = any(marks_of(case) & {Mark.LOSS, Mark.CALLED} for case in value.cases)
    is_named = is_by_name(value.trace) or any(Mark.CALLED in marks_of(case) for case in value.cases)
    note = ADDED_BY_NAME if is_named else "added up here, batch by batch"
    trace = start(site, note, Gap.CONVENTION if guess else gap)
    return union(_sum(case, unit, trace) for case in result.cases)


def _sum(case: Value, unit: str, trace: Trace) -> Value:
    if isinstance(case, (Tensor, Unknown)):
        mark = {"means": Mark.MEANS, "counts": Mark.COUNTS}.get(unit)
        if mark is Mark.COUNTS:
            return replace(case, via=case.via | {mark}, trace=trace)
        return replace(case, via=case.via | {mark}) if mark is not None else case
    return Scalar(unit, trace=trace) if isinstance(case, (Scalar, Const)) else case
