"""What the numbers of a tensor are after an operation: probabilities, log-probabilities, raw outputs of a layer.

``raw``: the output of a layer with weights, without bound. The other names are those of the function that made the
numbers. Anything that is not known to keep or to make such numbers gives None: nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from analyzer.engine.trace import Site
from analyzer.engine.values import Activation, Const, Tensor, Unknown, Value
from analyzer.knowledge.schema import Row
from analyzer.syntax import ir

PROBABILITIES = frozenset({"softmax", "sigmoid"})
LOG_PROBABILITIES = frozenset({"log_softmax", "logsigmoid"})
RAW = "raw"
OF_TEXT_ONLY = frozenset(
    {"startswith", "endswith", "lower", "upper", "strip", "rstrip", "lstrip", "isdigit", "splitlines"}
)
"""Methods that texts have, and neither tensors nor modules: what has one holds no numbers of a device."""
OF_TENSORS_ONLY = frozenset({"softmax", "log_softmax", "sigmoid", "sigmoid_"})
"""Methods that nothing but a tensor has, in code that trains."""
EPSILON = 1e-2
"""Adding no more than this keeps probabilities what they are (``p + 1e-8``)."""
_OF_KNOWN = {
    ("log", "softmax"): "log_softmax",
    ("log", "sigmoid"): "logsigmoid",
    ("exp", "log_softmax"): "softmax",
    ("exp", "logsigmoid"): "sigmoid",
    ("sum", "raw"): "raw",
}
"""Functions whose result is known only for some inputs."""
_BY_INPUT = frozenset(function for function, _ in _OF_KNOWN)


def after(row: Row, subject: Iterable[Value], node: ir.Expr | None, site: Site) -> Activation | None:
    """The activation of what `row` returns. `subject`: the tensors it works on, all of those it joins (``cat``)."""
    name = row.activation
    before = common(subject) if row.keeps_activation or name in _BY_INPUT else None
    if name in _BY_INPUT:
        name = _OF_KNOWN.get((name, before.name if before else ""), "")
    if name:
        is_method = row.name.startswith("Tensor.")
        return Activation(name, site, None if is_method or node is None else node.at, is_method)
    if before is None or (row.bounds and before.name == RAW):
        return None
    return before


def common(cases: Iterable[Value]) -> Activation | None:
    """The activation that all tensors share."""
    found = {
        case.activation if isinstance(case, Tensor) else None for case in cases if isinstance(case, (Tensor, Unknown))
    }
    return found.pop() if len(found) == 1 else None


def _adds_no_other(one: Tensor, two: Tensor) -> bool:
    """Whether neither of two terms came out of a normalising function: there are mixtures of these."""
    return all(case.activation is None or case.activation.name == RAW for case in (one, two))


def shifted(op: str, one: Value, two: Value) -> Activation | None:
    """The activation of a tensor after arithmetic with a plain number: raw outputs stay raw, however they are scaled
    (or joined with other raw ones), and whatever tensor is added to them (a bias, another term); probabilities stay
    what they are only if next to nothing is added."""
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        raw = [case.activation for case in (one, two) if case.activation is not None and case.activation.name == RAW]
        is_raw = (len(raw) == 2 and op in {"-", "*", "@"}) or (raw and op == "+" and _adds_no_other(one, two))
        return raw[0] if is_raw else None
    tensor, other = (one, two) if isinstance(one, Tensor) else (two, one)
    if not isinstance(tensor, Tensor) or tensor.activation is None or isinstance(other, (Tensor, Unknown)):
        return None
    if tensor.activation.name == RAW:
        return tensor.activation if op in {"+", "-", "*", "/"} else None
    is_small = isinstance(other, Const) and isinstance(other.value, float) and abs(other.value) <= EPSILON
    return tensor.activation if is_small and op == "+" else None
