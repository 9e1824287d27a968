"""What a training holds beside the model it trains: averages, references, critics, frozen models."""

from __future__ import annotations

from collections.abc import Iterator

from estimator.memory import weights
from estimator.memory.setup import ADAPTERS, Setup
from estimator.report import Term


def held(setup: Setup) -> list[Term]:
    """Every one that this run has. Floors are zero: each may be in host memory, or computed before the training."""
    return [Term(name, int(total), 0, formula, source) for name, total, formula, source in _all(setup)]


def critic_activations(setup: Setup, kept: Term) -> Term:
    """What a critic keeps: its loss and the policy's are added before one backward pass."""
    name = "critic's saved activations"
    if setup.objective != "ppo":
        return Term(name, 0, 0, "no critic", "")
    return Term(name, kept.num_bytes, 0, kept.formula, "trl PPOTrainer: PolicyAndValueWrapper")


def _all(setup: Setup) -> Iterator[tuple[str, float, str, str]]:
    ranks = weights.weight_sharding(setup)
    whole = setup.device_params * setup.weight_bytes / ranks
    copy = f"{setup.device_params:,} x {setup.weight_bytes:g} B" + (f", over {ranks} ranks" if ranks > 1 else "")
    if setup.has_ema and setup.method in ADAPTERS:
        total = setup.trainable_params * setup.trained_bytes / ranks
        yield (
            "moving average",
            total,
            f"{setup.trainable_params:,} x {setup.trained_bytes:g} B",
            "EMA of what is trained",
        )
    elif setup.has_ema:
        yield "moving average", whole, copy, "timm ModelEma, diffusers EMAModel, torch swa_utils: a copy in their dtype"
    if setup.has_reference:
        yield "reference model", whole, copy, "trl create_reference_model: a frozen copy, sharded as the model is"
    if setup.objective == "ppo":
        per_param = setup.weight_bytes + setup.trained_bytes + weights.state_bytes_per_param(setup)
        total = setup.device_params * per_param / ranks
        formula = f"{setup.device_params:,} x {per_param:.3g} B: weights, gradients and optimizer state"
        yield "critic", total, formula, "trl PPOTrainer, verl: a value model of the policy's size, trained as it is"
        yield (
            "reward model",
            2.0 * setup.device_params / ranks,
            f"{setup.device_params:,} x 2 B",
            "of the policy's size",
        )
