"""A run as moments: the peak is the largest of them, never a sum of totals."""

from __future__ import annotations

from functools import lru_cache

from estimator.memory import activations, beside, collectives, generation, images, local, loss, runtime, weights
from estimator.memory.setup import ONLINE, WITH_REFERENCE, Setup
from estimator.report import Moment, Term


@lru_cache(maxsize=2048)
def timeline(setup: Setup) -> tuple[Moment, ...]:
    """Every moment of a run in order. Terms of zero bytes are left out."""
    return tuple(Moment(name, tuple(term for term in terms if term.num_bytes)) for name, terms in _moments(setup))


@lru_cache(maxsize=2048)
def moment_sizes(setup: Setup) -> tuple[int, ...]:
    """The bytes of every moment: all that a search over readings asks for."""
    return tuple(sum([term.num_bytes for term in terms]) for _, terms in _moments(setup))


def _moments(setup: Setup) -> list[tuple[str, list[Term]]]:
    if setup.facts.local is not None:
        return _training_locally(setup) if setup.is_training else _locally_alone(setup)
    if setup.facts.image_net is not None:
        return _training_on_images(setup) if setup.is_training else _images_alone(setup)
    return _training(setup) if setup.is_training else _inference(setup)


def peak(moments: tuple[Moment, ...]) -> Moment:
    """The moment with the most bytes."""
    return max(moments, key=lambda moment: moment.num_bytes)


def _training(setup: Setup) -> list[tuple[str, list[Term]]]:
    model, state, scratch = weights.weights(setup), weights.optimizer_state(setup), runtime.workspace(setup)
    at_rest = [model, state, scratch, *beside.held(setup)]
    held = [*at_rest, collectives.buckets(setup)]
    grads, added = weights.gradients(setup), weights.accumulating_gradients(setup)
    is_early = setup.keeps_gradients or setup.grad_accum > 1 or setup.whole_gradients
    kept, working = _activation_terms(setup)
    cached, recorded = weights.autocast_copies(setup, is_cached=True), weights.autocast_copies(setup, is_cached=False)
    fetched, quantised = collectives.gathered(setup), generation.dequantized(setup)
    read = [loss.logits(setup), loss.widened_logits(setup)]
    left, log_probabilities = loss.held_logits(setup), loss.log_probabilities(setup)
    scattered, root = (collectives.unsharded_gradients(setup, is_last=is_last) for is_last in (False, True))
    critic = beside.critic_activations(setup, kept)
    forward = [*held, *([added] if is_early else []), kept, critic, fetched, quantised]
    passing = generation.forward_working_set(setup)
    return [
        ("model load", [model, collectives.unsharded_weights(setup), scratch]),
        *_rollout(setup, [*at_rest, fetched, quantised]),
        ("forward end", [*forward, cached, *read]),
        ("loss forward", [*forward, cached, *read, loss.shifted_logits(setup), log_probabilities]),
        *_reference(setup, [*forward, recorded, log_probabilities, passing]),
        ("loss backward", [*forward, recorded, left, log_probabilities, loss.logit_gradient(setup)]),
        ("deepest backward", [*forward, recorded, working, scattered]),
        ("backward end", [*held, added, working, fetched, quantised, root, weights.tied_gradient(setup)]),
        ("optimizer step", [*held, grads, weights.step_temporaries(setup)]),
        ("evaluation", [*at_rest, fetched, quantised, passing, *read]),
    ]


def _reference(setup: Setup, held: list[Term]) -> list[tuple[str, list[Term]]]:
    """A frozen copy, or the model without its adapters, reads what the policy has read."""
    if setup.objective not in WITH_REFERENCE:
        return []
    return [("reference forward", [*held, loss.reference_logits(setup)])]


def _rollout(setup: Setup, held: list[Term]) -> list[tuple[str, list[Term]]]:
    """Answers that the model generates to learn from them; an engine beside it takes its share of the card instead."""
    if setup.objective not in ONLINE:
        return []
    words = [generation.kv_cache(setup), generation.recurrent_state(setup)]
    words += [generation.forward_working_set(setup), generation.last_logits(setup)]
    return [("rollout", [*held, *words])]


def _inference(setup: Setup) -> list[tuple[str, list[Term]]]:
    held = [weights.weights(setup), runtime.workspace(setup), generation.dequantized(setup)]
    if setup.task == "generate":
        cache = [generation.kv_cache(setup), generation.recurrent_state(setup)]
        prefill = [*held, *cache, generation.forward_working_set(setup), generation.last_logits(setup)]
        decode = [*held, *cache, generation.last_logits(setup)]
        return [("model load", held), ("prefill", prefill), ("decode", decode)]
    forward = [*held, collectives.gathered(setup), generation.forward_working_set(setup), loss.logits(setup)]
    return [("model load", held), ("forward", forward), ("picture", [*held, generation.decoded_picture(setup)])]


def _training_on_images(setup: Setup) -> list[tuple[str, list[Term]]]:
    model, state, scratch = weights.weights(setup), weights.optimizer_state(setup), runtime.workspace(setup)
    held = [model, state, scratch, collectives.buckets(setup), *beside.held(setup)]
    grads = weights.gradients(setup)
    kept, read, is_early = images.kept(setup), images.outputs(setup), setup.keeps_gradients or setup.grad_accum > 1
    forward = [
        *held, *([grads] if is_early else []), kept, images.weight_copies(setup), images.layouts(setup),
        collectives.gathered(setup),
    ]  # fmt: skip
    late = [images.shared_gradients(setup), *([] if is_early else [images.late_gradients(setup)])]
    return [
        ("model load", [model, collectives.unsharded_weights(setup), scratch]),
        ("forward end", [*forward, read, images.passing(setup)]),
        ("box matching", [*forward, read, images.matching(setup)]),
        ("loss backward", [*forward, read, images.loss_temporaries(setup)]),
        ("deepest backward", [*forward, *late, images.working(setup)]),
        ("backward end", [*held, grads, images.passing(setup)]),
        ("optimizer step", [*held, grads, weights.step_temporaries(setup)]),
        ("evaluation", [model, state, scratch, images.passing(setup), read]),
    ]


def _images_alone(setup: Setup) -> list[tuple[str, list[Term]]]:
    held = [weights.weights(setup), runtime.workspace(setup)]
    return [("model load", held), ("forward", [*held, images.passing(setup), images.outputs(setup)])]


def _training_locally(setup: Setup) -> list[tuple[str, list[Term]]]:
    model, state, scratch = weights.weights(setup), weights.optimizer_state(setup), runtime.workspace(setup)
    held = [model, state, scratch, collectives.buckets(setup), *beside.held(setup)]
    grads = weights.gradients(setup)
    is_early = setup.keeps_gradients or setup.grad_accum > 1
    forward = [*held, *([grads] if is_early else []), local.kept(setup), local.weight_copies(setup),
               collectives.gathered(setup)]  # fmt: skip
    read = local.outputs(setup)
    return [
        ("model load", [model, collectives.unsharded_weights(setup), scratch]),
        ("forward end", [*forward, read, local.passing(setup)]),
        ("loss backward", [*forward, read, local.loss_temporaries(setup)]),
        ("deepest backward", [*forward, local.working(setup)]),
        ("backward end", [*held, grads, local.passing(setup)]),
        ("optimizer step", [*held, grads, weights.step_temporaries(setup)]),
        ("evaluation", [model, state, scratch, local.passing(setup), read]),
    ]


def _locally_alone(setup: Setup) -> list[tuple[str, list[Term]]]:
    held = [weights.weights(setup), runtime.workspace(setup)]
    return [("model load", held), ("forward", [*held, local.passing(setup), local.outputs(setup)])]


def _activation_terms(setup: Setup) -> tuple[Term, Term]:
    found = activations.saved(setup)
    kept = Term("saved activations", int(found.kept), int(found.kept_floor), found.formula, activations.SOURCE)
    name = "recomputed layer" if setup.checkpointing != "none" else "layer being differentiated"
    working = Term(name, int(found.working), int(found.working_floor), "one layer's intermediates", activations.SOURCE)
    return kept, working
