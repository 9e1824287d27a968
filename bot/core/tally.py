"""What became of the findings of one pull request, counted once it is closed: which were of use and which were noise.

A finding has one outcome. *Fixed*: gone before the merge. *Kept*: merged as it was. *Dismissed*: somebody with write
access said it is no defect, or silenced its rule. *Suppressed*: a comment in the code hides it. *Abandoned*: the pull
request was closed without a merge. Reactions are counted beside that. Counts carry rule, framework and pattern, never a
word of the code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.core.ledger import Ledger, Posted
from bot.core.lifecycle import Thread

Outcome = Literal["fixed", "kept", "dismissed", "suppressed", "abandoned"]
Metric = Literal["findings", "fixed", "kept", "dismissed", "suppressed", "abandoned", "up", "down"]
METRICS: tuple[Metric, ...] = ("findings", "fixed", "kept", "dismissed", "suppressed", "abandoned", "up", "down")
UNKNOWN = "unknown"
_IN_CODE = frozenset({"comment", "noqa", "file"})


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """What sort of finding."""

    rule: str
    framework: str = UNKNOWN
    pattern: str = ""


Traits = Mapping[str, Kind]
"""By fingerprint."""
Counts = Mapping[tuple[Kind, Metric], int]


def traits_of(details: Mapping[str, Any]) -> dict[str, Kind]:
    """Of every finding of a report."""
    found = details.get("findings", ())
    return {item["fingerprint"]: Kind(item["rule"], item["framework"], item["pattern"]) for item in found}


def hidden_by(details: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(rule, path, framework) of every comment in the code that a change adds to hide a finding."""
    found = details.get("suppressed", ())
    return [
        (item["rule"], item["path"], item.get("framework", UNKNOWN)) for item in found if item["source"] in _IN_CODE
    ]


def tally(
    ledger: Ledger,
    threads: Iterable[Thread],
    traits: Traits,
    hidden: Sequence[tuple[str, str, str]],
    *,
    is_merged: bool,
) -> Counts:
    """The counts of one closed pull request: the same, however often they are made."""
    counts: Counter[tuple[Kind, Metric]] = Counter()
    left = Counter((rule, path) for rule, path, _ in hidden)
    frameworks = {(rule, path): framework for rule, path, framework in hidden}
    for item in ledger.posted:
        kind = traits.get(item.fingerprint, Kind(item.rule))
        counts[kind, "findings"] += 1
        counts[kind, _outcome(item, ledger, left, is_merged=is_merged)] += 1
    for (rule, path), number in left.items():  # hidden before it was ever said
        if number > 0:
            kind = Kind(rule, frameworks[rule, path])
            counts[kind, "findings"] += number
            counts[kind, "suppressed"] += number
    rules = {item.fingerprint: item.rule for item in ledger.posted}
    for thread in threads:
        fingerprint = thread.fingerprint
        if fingerprint in rules:
            kind = traits.get(fingerprint, Kind(rules[fingerprint]))
            counts[kind, "up"] += thread.up
            counts[kind, "down"] += thread.down
    return {key: number for key, number in counts.items() if number > 0}


def _outcome(item: Posted, ledger: Ledger, left: Counter[tuple[str, str]], *, is_merged: bool) -> Outcome:
    """`left` counts the comments that hide a finding of a rule in a file, and have not hidden one yet."""
    if ledger.dismissal(item.fingerprint) or ledger.ignored(item.rule):
        return "dismissed"
    place = (item.rule, item.path)
    if item.status != "open":
        if left[place] > 0:  # it is gone because a comment hides it
            left[place] -= 1
            return "suppressed"
        # The ledger calls all that is gone from a file with such a comment dismissed; one comment hides one finding.
        return "fixed" if item.status == "fixed" or place in left else "dismissed"
    return "kept" if is_merged else "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Counts of one group, by the metrics' names."""

    name: str
    counts: Mapping[Metric, int]

    @property
    def decided(self) -> int:
        """Findings that somebody did something about, or merged as they were."""
        return self.counts["findings"] - self.counts["abandoned"]

    @property
    def useful(self) -> float | None:
        """The share that was fixed before the merge."""
        return self.counts["fixed"] / self.decided if self.decided else None

    @property
    def noise(self) -> float | None:
        """The share that people called no defect: dismissed or suppressed."""
        hidden = self.counts["dismissed"] + self.counts["suppressed"]
        return min(1.0, hidden / self.decided) if self.decided else None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        shares = {"useful": self.useful, "noise": self.noise}
        rounded = {name: None if share is None else round(share, 3) for name, share in shares.items()}
        return {"name": self.name, **{metric: self.counts[metric] for metric in METRICS}, **rounded}


def rows(counted: Iterable[tuple[str, Metric, int]]) -> tuple[Row, ...]:
    """(group, metric, number) as rows, the noisiest first, then the most frequent."""
    groups: dict[str, dict[Metric, int]] = {}
    for name, metric, number in counted:
        groups.setdefault(name, dict.fromkeys(METRICS, 0))[metric] += number
    found = [Row(name=name, counts=counts) for name, counts in groups.items()]
    return tuple(sorted(found, key=lambda row: (-(row.noise or 0.0), -row.counts["findings"], row.name)))
