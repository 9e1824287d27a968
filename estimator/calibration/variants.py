"""What is traced: how a model is trained, and of which size the trace is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).with_name("cases.toml")
TRACES = Path(__file__).with_name("traces.csv")
RESERVED = Path(__file__).with_name("reserved.csv")
MOMENTS = ("load", "forward end", "forward", "backward end", "backward", "optimizer step")
RESERVED_COLUMNS = ("model", "variant", "step", "batch", "seq", "live", "reserved")
STEPS = ("one by one", "lists")
"""How the optimizer works: tensor by tensor, as fused kernels allocate too, or on lists of all parameters."""
COLUMNS = ("model", "variant", "layers", "batch", "seq", *MOMENTS)
DEPTHS = (2, 4)
"""Layers of the two traces of a case: their difference is one layer's, without what the rest costs."""
RANK = 16


@dataclass(frozen=True, slots=True)
class Variant:
    """How a model is trained. `mixed` is autocast's dtype, empty without."""

    name: str
    weights: str
    mixed: str
    attention: str
    method: str = "full"
    is_checkpointed: bool = False

    @property
    def precision(self) -> str:
        """As a run config says it: of adapters, what the frozen weights are held in."""
        if self.mixed and self.method == "full":
            return f"amp-{self.mixed}"
        return self.weights if self.weights == "fp32" else f"pure-{self.weights}"


VARIANTS = (
    Variant("bf16", "bf16", "", "sdpa"),
    Variant("bf16 checkpointed", "bf16", "", "sdpa", is_checkpointed=True),
    Variant("autocast", "fp32", "bf16", "sdpa"),
    Variant("autocast checkpointed", "fp32", "bf16", "sdpa", is_checkpointed=True),
    Variant("autocast, eager attention", "fp32", "fp16", "eager"),
    Variant("fp32, eager attention", "fp32", "", "eager"),
    Variant("LoRA on bf16", "bf16", "", "sdpa", "lora"),
    Variant("LoRA on bf16 under autocast", "bf16", "bf16", "sdpa", "lora"),
)
