"""The door of the estimator: the only module that `bot` imports.

Signatures are the contract between the rooms; bodies live in the modules named beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyzer.api import Files
from analyzer.findings import Finding
from estimator.impact import Impact, Impacts
from estimator.report import Estimate, Interval, Verdict
from estimator.runconfig import RunConfig
from estimator.verdict import is_hardly_enough

if TYPE_CHECKING:
    from estimator.launches import Found
    from estimator.offers import Offers
    from estimator.submission import Shell
    from estimator.submissions import Submission, Submissions

__all__ = [
    "Estimate",
    "Impact",
    "Impacts",
    "Interval",
    "RunConfig",
    "Verdict",
    "affected",
    "estimate",
    "estimate_words",
    "gpu_rows",
    "impact_finding",
    "instance_rows",
    "inventory",
    "is_hardly_enough",
    "launches",
    "manifest",
    "model_rows",
    "offers",
    "submissions",
    "what_if",
]


def affected(base: Files, head: Files, changed: Collection[str], targets: Mapping[str, str] | None = None) -> Impacts:
    """Launch configs that `changed` touches directly or through their closure; those that did not move are left out.

    `targets` maps a partition, constraint, pool or runner label to a GPU or instance name (from the base branch's
    Preflight config). The answer is a tuple of `Impact`; its `notes` name the files that could not be read. Never
    raises for what a file holds.
    """
    from estimator.affected import affected as find

    return find(base, head, changed, targets)


def inventory(files: Files, targets: Mapping[str, str], is_wanted: Callable[[str], bool]) -> Impacts:
    """Every launch config of the tree in the files that `is_wanted`, as if all were new. Never raises for a file."""
    from estimator.inventory import inventory as find

    return find(files, targets, is_wanted)


def impact_finding(impact: Impact) -> Finding | None:
    """PF501 at the launch config where the head exceeds its target in every reading; else None."""
    from estimator.finding import impact_finding as build

    return build(impact)


def launches(
    files: Files,
    paths: Sequence[str] | None = None,
    command: str | None = None,
    targets: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    said: RunConfig | None = None,
) -> Found:
    """The launch configs of `paths` (default: every one in the tree), or those of one command line, estimated.
    Of those that a person `named` one by one, a file without a launch is skipped with the reason. `said` are options
    over what the files say: a network of the repository is run on inputs of their size.

    Raises `InputError` for a `command` that is none. A file that cannot be read is named in ``skipped``.
    """
    from estimator.launches import find

    return find(files, paths, command, targets, named, said or RunConfig())


def submissions(files: Files, words: Sequence[str], targets: Mapping[str, str], shell: Shell) -> Submissions:
    """What a submit command would run, estimated, with every file that the answer was read from.

    Raises `InputError` for a batch script that is not in the tree.
    """
    from estimator.submissions import submissions as find

    return find(files, words, targets, shell)


def manifest(files: Files, path: str, targets: Mapping[str, str]) -> tuple[Submission, ...]:
    """The launches of one file of the tree, each judged over its readings."""
    from estimator.submissions import of_file

    return of_file(files, path, targets)


def estimate(run: RunConfig) -> Estimate:
    """Peak memory of one run, moment by moment, on every target it may mean, with what would make it fit.

    Raises `InputError` naming the field or the GPU that no run can have.
    """
    from estimator.estimation import estimate as compute

    return compute(run)


def estimate_words(words: Sequence[str], base: Mapping[str, Any] | None = None) -> Estimate:
    """The words of ``preflight estimate`` / ``/preflight estimate`` (GPU names and options) as an Estimate.

    `base` is a run-config document that the words override. Raises `InputError` naming the word and the nearest ones.
    """
    from estimator.options import parse_words

    return estimate(parse_words(words, base))


def what_if(run: Mapping[str, Any], edit: Mapping[str, Any]) -> Estimate:
    """A run (a run-config document, as `Impact.run` holds one) with some fields changed; null takes a field back.

    Raises `InputError` naming the field or the GPU that no run can have.
    """
    from estimator.what_if import edited

    return estimate(edited(run, edit))


def offers(run: RunConfig, search: Sequence[str] = ()) -> Offers:
    """The cheapest known instances on which a run fits as it is, and how large its micro-batch could be on each.

    Each word of `search` (provider, instance type, GPU) narrows them. Raises `InputError` as `estimate` does.
    """
    from estimator.offers import offers as find

    return find(run, search)


def gpu_rows(search: str = "") -> list[dict[str, Any]]:
    """Cards for listing; memory in GiB."""
    from estimator.catalogue import gpu_rows as find

    return find(search)


def instance_rows(search: str = "") -> list[dict[str, Any]]:
    """Instance types for listing; memory in GiB per GPU, price in USD per hour."""
    from estimator.catalogue import instance_rows as find

    return find(search)


def model_rows(search: str = "") -> list[dict[str, Any]]:
    """Models for listing."""
    from estimator.catalogue import model_rows as find

    return find(search)
