"""Evidence, recorded where a fact arises.

A `Trace` is a persistent list: each step points at the step before it, so that recording one costs an allocation and
values share their history. Text and positions are made only for the steps of a reported finding. A step may carry a
`Gap`: something the program text did not show. Confidence is nothing but the gaps on the evidence.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analyzer.findings import Confidence
from analyzer.records import dataclass
from analyzer.syntax.ir import NodeId


class Site(NamedTuple):
    """A place in the program: a file and the number of a node in it. `run` tells the runs of one place apart, where
    that matters: a function that two loops call makes two graphs."""

    path: str
    at: NodeId
    run: int = 0


class Gap(enum.Enum):
    """What the evidence rests on where the text is silent."""

    CONVENTION = "convention"
    """Nearly everybody means this (`model` has `.eval()` called and is called itself: a module)."""
    USE = "use"
    """One use tells what something is, and other things are used so too (a timer steps as an optimizer does): what
    rests on it is a note."""
    UNSEEN = "unseen"
    """Code we cannot see could change the answer."""
    __hash__ = object.__hash__  # of an enum it is that of the name, found by code in Python


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One step of evidence and what came before it."""

    site: Site
    note: str
    before: Trace | None = None
    gap: Gap | None = None
    length: int = 1

    def then(self, site: Site, note: str, gap: Gap | None = None) -> Trace:
        """This evidence and one step more."""
        return Trace(site, note, self, gap, self.length + 1)

    def steps(self) -> Iterator[Trace]:
        """The steps, oldest first."""
        chain: list[Trace] = []
        step: Trace | None = self
        while step is not None:
            chain.append(step)
            step = step.before
        return reversed(chain)

    @property
    def gaps(self) -> frozenset[Gap]:
        """The gaps anywhere on the chain."""
        return frozenset(step.gap for step in self.steps() if step.gap)


def start(site: Site, note: str, gap: Gap | None = None) -> Trace:
    """The first step of a chain."""
    return Trace(site, note, None, gap)


def better(one: Trace, other: Trace) -> Trace:
    """The witness to keep where two prove the same fact: fewer gaps, then fewer steps, then the earlier place."""
    if one is other:
        return one
    return min(one, other, key=_cost)


def _cost(trace: Trace) -> tuple[int, int, Site]:
    gaps = trace.gaps
    weight = 4 * (Gap.UNSEEN in gaps) + 2 * (Gap.USE in gaps) + (Gap.CONVENTION in gaps)
    return weight, trace.length, trace.site


def confidence(gaps: Iterable[Gap]) -> Confidence:
    """None: certain. A convention, or a use: likely. Unseen code that could change the answer: possible."""
    found = set(gaps)
    if Gap.UNSEEN in found:
        return Confidence.POSSIBLE
    return Confidence.LIKELY if found else Confidence.CERTAIN
