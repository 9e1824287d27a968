"""Which model a run config means: one set of facts, several plausible ones, or none with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.models.facts import ModelFacts
from estimator.models.known import (
    find_image_nets,
    find_model,
    find_pixel_net,
    is_listed,
    nearest_models,
    of_network,
    params_of,
)
from estimator.models.local import NOTHING, LocalNet, of_size
from estimator.models.resembling import decoders_near, from_arch, rough_model, transformers_near
from estimator.runconfig import NOT_GIVEN, RunConfig
from estimator.sourced import Unknown

_PIXELS = ("video", "diffusion")
"""Categories whose models are transformers over patches of latent images."""
_NO_PROGRAM = ("3d", "vision", "speech", "audio")
"""Categories whose members are not a stack of transformer layers: a size says nothing about their activations."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """`readings` holds the plausible shapes, the likeliest first; empty means no number, and `reason` says why. Then
    `least` may hold what is known all the same: it has a floor."""

    readings: tuple[ModelFacts, ...]
    id: str | None
    params: int | None
    source: str
    reason: str = ""
    least: ModelFacts | None = None


def choose_model(run: RunConfig) -> ModelChoice:
    """By id, then by spelled-out shape, then by size alone."""
    name = None if isinstance(run.model.value, Unknown) else run.model.value
    if name is None and not isinstance(run.network.value, Unknown):
        return _local(run, run.network.value)
    return _public(run, name)


def _public(run: RunConfig, name: str | None) -> ModelChoice:
    if name is not None and find_model(name) is None and (found := _of_pictures(name)):
        return ModelChoice(tuple(found), name, found[0].params, found[0].source)
    category = "" if isinstance(run.category.value, Unknown) else run.category.value
    if category.startswith(_NO_PROGRAM) and (name is None or find_model(name) is None):
        return ModelChoice((), name, None, "", f"{category} models have no layer program yet")
    params = None if isinstance(run.params.value, Unknown) else run.params.value
    arch = {} if isinstance(run.arch.value, Unknown) else run.arch.value
    if run.image_size.is_known and name is None:
        return ModelChoice(
            (), None, params, "", "image_size is given without a model: only a listed id of one says its shape"
        )
    if name is not None and (facts := find_model(name)) is not None:
        if params is not None and not 0.5 < params / facts.params < 2:
            facts = replace(facts, params=params, source=f"{facts.source}; size from {run.params.origin}")
        return ModelChoice((facts,), name, facts.params, facts.source)
    listed = params_of(name) if name is not None else None
    size = params or listed
    if (spelled := from_arch(arch, size, name)) is not None and not run.image_size.is_known:
        return ModelChoice((spelled,), name, spelled.params, spelled.source)
    if name is not None and (rough := rough_model(name)) is not None:
        return ModelChoice((rough,), name, rough.params, rough.source)
    if name is not None and is_listed(name):
        return ModelChoice((), name, size, "models table", f"{name}: its family has no layer program yet")
    is_pixels = category.startswith(_PIXELS)
    if size is None or (run.image_size.is_known and not is_pixels):
        return ModelChoice((), name, size, "", _unknown_model(name, run))
    source = f"size from {run.params.origin}; shape like public models of that size"
    publisher = (name or "").lower().partition("/")[0]
    near = transformers_near(size) if is_pixels else decoders_near(size, publisher=publisher)
    return ModelChoice(tuple(replace(item, id=name) for item in near), name, size, source)


def _of_pictures(name: str) -> list[ModelFacts]:
    """Networks that read or make images, or read sound, and are no stack of plain transformer layers."""
    net = find_pixel_net(name)
    return find_image_nets(name) or ([net] if net is not None else [])


def _local(run: RunConfig, net: LocalNet) -> ModelChoice:
    """A network of the repository, for the inputs that are possible."""
    source = str(run.network.origin) if run.network.origin.path else f"{net.name}, as the repository builds it"
    image = None if isinstance(run.image_size.value, Unknown) else run.image_size.value
    length = None if isinstance(run.seq_len.value, Unknown) else run.seq_len.value
    sized = of_size(net, image, length)
    found = of_network(sized, source)
    if net.is_partial:
        what = run.network.origin.text.partition(" and more: ")[2]  # as `resolve.networks` tells it
        reason = f"{net.name}: the parameters of some of its parts are not in the text{': ' * bool(what)}{what}"
        return ModelChoice((), net.name, None, source, reason, _smallest(found))
    if not sized.passes:
        return ModelChoice((), net.name, net.params, source, _no_pass(run, net, image, length), _smallest(found))
    return ModelChoice(tuple(found), net.name, net.params, source)


def _no_pass(run: RunConfig, net: LocalNet, image: tuple[int, int] | None, length: int | None) -> str:
    """Why nothing is known of its forward pass, and what to do."""
    if not net.passes:
        known = f"{net.name}: its parameters are known ({net.params:,}), what its forward pass keeps is not"
        return f"{known}: {net.problem}{_made_for(run)}" if net.problem else known
    is_image = net.passes[0].image is not None
    ordered = sorted(net.passes, key=lambda each: each.size)
    counted = " to ".join(dict.fromkeys((ordered[0].size_text, ordered[-1].size_text)))
    asked = f"{image[0]}x{image[1]}" if is_image and image else f"{length:,}"
    option = f"--image-size {asked}" if is_image else f"--seq-len {length}"
    return (
        f"{net.name}: this run has its forward pass for {counted}, not for {asked}: only the script says it "
        f"(`preflight estimate SCRIPT {option}`)"
    )


def _made_for(run: RunConfig) -> str:
    """Where a size that is overruled may be what the network is made for, and not only what it is given."""
    sizes = [size for size in (run.image_size, run.seq_len) if size.is_known and size.overrides]
    if not sizes or not (place := sizes[0].overrides[0].origin).path:
        return ""
    return (
        f"; it may be made for the size that is overruled, {place}: where an argument of the script says that, give it "
        "in the command (`preflight estimate -- python SCRIPT ARGUMENTS`)"
    )


def _smallest(found: list[ModelFacts]) -> ModelFacts | None:
    """What is there in any case: of several networks one, and of that one its parameters alone."""
    least = min(found, key=lambda facts: facts.params)
    return replace(least, local=NOTHING) if least.params else None


def _unknown_model(name: str | None, run: RunConfig) -> str:
    if name is None:
        why = run.model.value.reason if isinstance(run.model.value, Unknown) else NOT_GIVEN
        if why != NOT_GIVEN:
            return f"no model is known: {why}"
        return "no model is known: give a model id or a number of parameters"
    close = nearest_models(name)
    hint = f"; nearest: {', '.join(close)}" if close else ", and no id is near it: `preflight models WORD` finds some"
    return f"model {name!r} is not in the table and its size is not given{hint}"
