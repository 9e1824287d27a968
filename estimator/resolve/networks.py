"""Networks that the repository defines and a script trains: one per run, several together where all are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from analyzer import api as analyzer
from analyzer.api import Files, ForwardPass, Network
from analyzer.api import Origin as Place
from estimator.models.local import MAX_PASSES, LocalNet, Pass
from estimator.resolve.frameworks import Facts
from estimator.sourced import Origin, Sourced

_COUNTS = [item.name for item in fields(Pass) if item.name not in ("kind", "shape")]


def add(facts: Facts, files: Files, path: str, words: Sequence[tuple[str, Place]]) -> None:
    """The fact ``network``, where a script gives the parameters of modules of the repository to an optimizer."""
    image, length = facts.one("image_size"), facts.one("seq_len")
    found = analyzer.networks(
        files, path, words,
        image=image.value if image is not None and isinstance(image.value, tuple) else None,
        length=length.value if length is not None and isinstance(length.value, int) else None,
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
    if each.problem is not None:
        where = f" ({each.problem.path}:{each.problem.line})" if each.problem.line else ""
        return f"{told}; its forward pass cannot be followed: {each.problem.reason}{where}"
    return told


def local(network: Network) -> LocalNet:
    """The plain numbers of a network."""
    return LocalNet(
        name=network.name, params=network.params, trained=network.trained, largest=network.largest,
        layers=network.layers, is_partial=bool(network.gaps),
        passes=tuple(_pass(each) for each in network.passes[:MAX_PASSES]),
    )  # fmt: skip


def _pass(one: ForwardPass) -> Pass:
    return Pass(one.kind, one.shape, *(getattr(one, name) for name in _COUNTS))


def together(nets: Sequence[LocalNet]) -> LocalNet:
    """Several networks of one run: a generator and a discriminator, which are on the device together, or the choices of
    a configuration, of which one is. Together they are the likely reading, each alone a possible one."""
    if len(nets) == 1:
        return nets[0]
    passes: tuple[Pass, ...] = ()
    if all(each.passes for each in nets):
        firsts = [each.passes[0] for each in nets]
        sums = {name: sum(getattr(each, name) for each in firsts) for name in _COUNTS}
        largest = max(firsts, key=lambda each: each.operands)
        most = {name: max(getattr(each, name) for each in firsts) for name in ("operands", "widest", "recomputed")}
        passes = (replace(largest, **{**sums, **most}),)
    return LocalNet(
        name=" + ".join(dict.fromkeys(each.name for each in nets))[:200], params=sum(each.params for each in nets),
        trained=sum(each.trained for each in nets), largest=max(each.largest for each in nets),
        layers=sum(each.layers for each in nets), is_partial=any(each.is_partial for each in nets), passes=passes,
        parts=tuple(nets),
    )  # fmt: skip
