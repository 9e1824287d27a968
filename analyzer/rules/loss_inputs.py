"""What the rules about a loss and the numbers it is fed with share: the mismatch, its evidence, its gaps, its fixes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from analyzer.engine.activations import LOG_PROBABILITIES, PROBABILITIES, RAW
from analyzer.engine.events import Loss
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.values import Activation, Const, Tensor, Value
from analyzer.fixes.edits import Replace, ReplaceText, SymbolicEdit
from analyzer.rules.base import DraftFix

_SUITS = {
    "logits": frozenset({RAW, "tanh", "relu"}) | LOG_PROBABILITIES,
    "binary logits": frozenset({RAW, "tanh", "relu"}) | LOG_PROBABILITIES,
    "probabilities": PROBABILITIES,
    "log-probabilities": LOG_PROBABILITIES,
}
"""Which numbers each kind of loss can be fed with."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A loss, the activation that its input came out of, and what could still be otherwise."""

    loss: Loss
    activation: Activation
    gaps: tuple[Gap, ...]

    @property
    def is_inside(self) -> bool:
        """Whether the activation stands in the loss call itself."""
        return self.activation.site == Site(self.loss.site.path, self.loss.input_at)

    def because(self, made: str, wants: str) -> list[Trace]:
        """The two places that do not fit."""
        return [start(self.activation.site, made), start(self.loss.site, wants)]


def mismatch(program: Program, loss: Loss, wrong: Collection[str], value: Value | None = None) -> Mismatch | None:
    """Whether the input of a loss (or `value`) came out of one of the functions `wrong`, in some case at least."""
    cases = [case for case in (value or loss.input).cases if not (isinstance(case, Const) and case.value is None)]
    found = [case.activation for case in cases if isinstance(case, Tensor) and case.activation]
    bad = [activation for activation in found if activation.name in wrong]
    if not bad:
        return None
    others = [case for case in cases if not _is_blank(case)]  # what a loop fills with outputs, before it is filled
    is_open = len(bad) < len(others) or loss.is_choice or _has_alternative(program, loss, bad[0])
    return Mismatch(loss, bad[0], (Gap.UNSEEN,) if is_open else ())


def _is_blank(case: Value) -> bool:
    return isinstance(case, Tensor) and not (case.activation or case.roots or case.via or case.is_batch)


def _has_alternative(program: Program, loss: Loss, activation: Activation) -> bool:
    """Whether the same code feeds the same tensor, on another branch, to a loss that it suits: a condition that was
    not decided may keep the two apart."""
    for other in program.of(Loss):
        if other is loss or other.function != loss.function or other.calls != loss.calls:
            continue
        if not (loss.guards or other.guards) or activation.name not in _SUITS.get(other.expects, ()):
            continue
        if any(isinstance(case, Tensor) and case.activation == activation for case in other.input.cases):
            return True
    return False


def described(program: Program, found: Mismatch) -> str:
    """The input and where it comes from, in words: ``, `out`, … `softmax(x)` in net.py``."""
    what = program.sources.text(Site(found.loss.site.path, found.loss.input_at))
    source = program.sources.text(found.activation.site)
    place = "" if found.activation.site.path == found.loss.site.path else f" in {found.activation.site.path}"
    return f"`{what}`, which comes out of `{source}`{place}"


def without_activation(program: Program, found: Mismatch, inside: str, elsewhere: str) -> DraftFix | None:
    """The activation's input in its place: safe in the loss call itself, where nobody else reads it."""
    activation = found.activation
    if activation.site.path != found.loss.site.path:
        return None
    receiver = program.sources.called_on(activation.site) if activation.is_method else None
    edit: SymbolicEdit
    if activation.input_at is not None:
        edit = Replace(activation.site.at, activation.input_at)
    elif receiver is not None:
        edit = ReplaceText(activation.site.at, receiver)
    else:
        return None
    if found.is_inside:
        return DraftFix(inside, "safe", (edit,))
    return DraftFix(elsewhere, "unsafe", (edit,))


def renamed_call(program: Program, site: Site, old: str, new: str, path: str) -> ReplaceText | None:
    """Call `new` where ``….old(…)`` is called, if that is written out in the file of the finding."""
    callee = program.sources.callee(site) if site.path == path else None
    if callee is None or not callee[1].endswith(f".{old}"):
        return None
    return ReplaceText(callee[0], callee[1].removesuffix(old) + new)


def is_true(value: Value | None) -> bool | None:
    """An option that is on, off (or not given), or not known."""
    if value is None:
        return False
    known = {bool(case.value) if isinstance(case, Const) else None for case in value.cases}
    return known.pop() if len(known) == 1 else None


def shape_note(value: Value, shape: str) -> Trace | None:
    """Where a value comes from, with its shape."""
    trace = value.trace
    text = "a column, one number per sample" if shape == "column" else "a flat tensor"
    return None if trace is None else start(trace.site, text)
