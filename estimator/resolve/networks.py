"""Networks that the repository defines and a script trains: one per run, several together where all are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from analyzer import api as analyzer
from analyzer.api import Files, ForwardPass, Network
from analyzer.api import Origin as Place
from estimator.models.local import MAX_PASSES, LocalNet, Pass
from estimator.resolve.frameworks import Facts
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced

_COUNTS = [item.name for item in fields(Pass) if item.name not in ("kind", "shape")]


def add(facts: Facts, files: Files, path: str, words: Sequence[tuple[str, Place]], said: RunConfig) -> None:
    """The fact ``network``, where a script gives the parameters of modules of the repository to an optimizer. Its
    forward pass is made for the input that a person has `said`, else for the one that the script shows."""

    def size(name: str, kind: type) -> Any:
        asked: Sourced[Any] = getattr(said, name)
        known = asked if asked.is_known else facts.one(name)
        return known.value if known is not None and isinstance(known.value, kind) else None

    found = analyzer.networks(
        files, path, words,
        image=size("image_size", tuple), length=size("seq_len", int), frames=size("frames", int),
    )  # fmt: skip
    own = [each for each in found if not each.path.startswith("<") and (each.params or each.gaps)]
    chosen = own or [each for each in found if each.params]
    if not chosen:
        return
    first = chosen[0]
    place = Origin(
        ", ".join(_told(each) for each in chosen)[:300], first.path if own else path, first.line if own else 0
    )
    facts.add("network", Sourced(together([local(each) for each in chosen]), place))
    facts.marks.setdefault("training", place)


def _told(each: Network) -> str:
    """``UNet: 31,037,698 parameters``, with what is missing."""
    told = f"{each.name}: {each.params:,} parameters"
    if each.gaps:
        gap = each.gaps[0]
        where = f" ({gap.path}:{gap.line})" if gap.line else ""
        return f"{told} and more: {gap.reason}{where}"
    return f"{told}; its forward pass cannot be followed: {_problem(each)}" if each.problem is not None else told


def _problem(each: Network) -> str:
    if each.problem is None:
        return ""
    where = f" ({each.problem.path}:{each.problem.line})" if each.problem.line else ""
    return f"{each.problem.reason}{where}"


def local(network: Network) -> LocalNet:
    """The plain numbers of a network."""
    return LocalNet(
        name=network.name, params=network.params, trained=network.trained, largest=network.largest,
        layers=network.layers, is_partial=bool(network.gaps),
        passes=tuple(_pass(each) for each in network.passes[:MAX_PASSES]), problem=_problem(network),
    )  # fmt: skip


def _pass(one: ForwardPass) -> Pass:
    return Pass(one.kind, one.shape, *(getattr(one, name) for name in _COUNTS))


def together(nets: Sequence[LocalNet]) -> LocalNet:
    """Several networks of one run: a generator and a discriminator, which are on the device together, or the choices of
    a configuration, of which one is. Together they are the likely reading, each alone a possible one."""
    if len(nets) == 1:
        return nets[0]
    unknown = next((each for each in nets if not each.passes), None)
    passes = tuple(_sum(each) for each in _combined([each.passes for each in nets])) if unknown is None else ()
    problem = f"{unknown.name}: {unknown.problem}" if unknown is not None and unknown.problem else ""
    return LocalNet(
        name=" + ".join(dict.fromkeys(each.name for each in nets))[:200], params=sum(each.params for each in nets),
        trained=sum(each.trained for each in nets), largest=max(each.largest for each in nets),
        layers=sum(each.layers for each in nets), is_partial=any(each.is_partial for each in nets), passes=passes,
        parts=tuple(nets), problem=problem,
    )  # fmt: skip


def _combined(nets: Sequence[Sequence[Pass]]) -> list[tuple[Pass, ...]]:
    """One pass of each network, for every size that all of those have that have sizes; the likeliest first, and of very
    many the ends."""
    images = _common([[each.image for each in passes if each.image] for passes in nets])
    lengths = _common([[each.length for each in passes if each.length] for passes in nets])
    found = list(product(images, lengths))
    if len(found) > MAX_PASSES:
        ends = [(images[0], lengths[0]), *product((min(images), max(images)), (min(lengths), max(lengths)))]
        found = list(dict.fromkeys((*ends, *found)))[:MAX_PASSES]
    return [tuple(_with(passes, *size) for passes in nets) for size in found]


def _common(sizes: Sequence[Sequence[Any]]) -> list[Any]:
    """The sizes of all networks that have any, in the order of the first; an empty one where there are none."""
    having = [each for each in sizes if each]
    common = [size for size in dict.fromkeys(having[0]) if all(size in each for each in having)] if having else []
    return common or [None]


def _with(passes: Sequence[Pass], image: Any, length: Any) -> Pass:
    """The pass of that size; the first of a network that has none."""
    return next((each for each in passes if each.image in (None, image) and each.length in (None, length)), passes[0])


def _sum(chosen: Sequence[Pass]) -> Pass:
    """What is kept of all is there together; the widest tensor is one of them."""
    sums = {name: sum(getattr(each, name) for each in chosen) for name in _COUNTS}
    most = {name: max(getattr(each, name) for each in chosen) for name in ("operands", "widest", "recomputed")}
    largest = max(chosen, key=lambda each: (bool(each.size), each.operands))
    return replace(largest, **{**sums, **most})
