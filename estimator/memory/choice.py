"""What one word of a run may be: a value, or several with the likeliest first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from estimator.runconfig import UNSET
from estimator.sourced import Sourced, Unknown


@dataclass(frozen=True, slots=True)
class Choice:
    """What one word may be. `typical` is the point's; `is_open` says that nobody knows and the answer says so;
    `is_even` that the probable values are about as likely as the typical one, so the point lies between them."""

    typical: Any
    probable: tuple[Any, ...] = ()
    cheapest: tuple[Any, ...] = ()
    is_open: bool = False
    is_even: bool = False


Choices = dict[str, Choice]


def choose(sourced: Sourced[Any], absent: Choice, unknown: Choice) -> Choice:
    """The choice of a word that is known, that nobody wrote, or that nobody can read."""
    if sourced.is_known:
        return Choice(sourced.value)
    if sourced is UNSET or sourced == UNSET:
        return absent
    assert isinstance(sourced.value, Unknown)
    if sourced.value.plausible:
        options = tuple(sourced.value.plausible)
        return Choice(options[-1], options, options, True)
    return replace(unknown, is_open=True)


def fixed(value: Any) -> Choice:
    """One value."""
    return Choice(value)


def undecided(typical: Any, *others: Any, cheapest: tuple[Any, ...] = ()) -> Choice:
    """Several plausible values, of which nobody knows which."""
    return Choice(typical, (typical, *others), cheapest, True)
