"""One traced training: a public model of few layers, two steps, the bytes of its moments."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.calibration.kernels import install
from estimator.calibration.live import Cuda, Live
from estimator.calibration.variants import RANK, Variant
from estimator.exact.trace import OPTIMIZERS, numbers
from estimator.models.known import find_model

_NAMES = {
    "hidden_size": "hidden", "intermediate_size": "ffn", "num_attention_heads": "heads", "vocab_size": "vocab",
    "num_key_value_heads": "kv_heads", "head_dim": "head_dim", "num_hidden_layers": "layers",
}  # fmt: skip
"""What a transformers configuration calls our facts."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
STEPS = 2
"""The first allocates the optimizer's state, the second runs beside it."""


def trace(
    case: Mapping[str, Any], variant: Variant, layers: int, batch: int, seq: int, *, has_lists: bool = False,
    optimizer: str = "adamw",
) -> dict[str, int]:  # fmt: skip
    """Bytes at the end of forward, the most during forward, backward and the optimizer step, and what the allocator
    reserved for all of it. `has_lists`: the optimizer works on lists of all parameters (foreach)."""
    with FakeTensorMode(allow_non_fake_inputs=True), Live() as live:
        model = built(case, variant, layers)
        trained = [each for each in model.parameters() if each.requires_grad]
        kind, settings = OPTIMIZERS[optimizer]
        stepping = getattr(torch.optim, kind)(trained, foreach=has_lists, **settings)
        tokens = torch.zeros(batch, seq, dtype=torch.long)
        is_classifier = case["classes"][1].endswith("Classification")
        labels = tokens[:, 0].clone() if is_classifier else tokens
        read, source = ("input_ids", tokens)
        if hasattr(model, "model") and model.main_input_name == "input_features":  # 30 seconds of sound
            read, source = "input_features", torch.zeros(batch, model.config.num_mel_bins, 3000, dtype=model.dtype)
        gc.collect()
        found = {"load": live.now}
        for _ in range(STEPS):
            live.peak = live.now
            with ExitStack() as modes:
                modes.enter_context(Cuda(is_mixed=bool(variant.mixed)))
                if variant.mixed:
                    modes.enter_context(torch.autocast("cpu", DTYPES[variant.mixed]))
                loss = model(**{read: source}, labels=labels).loss
            found |= {"forward end": live.now, "forward": live.peak}
            live.peak = live.now
            with Cuda(is_mixed=bool(variant.mixed)):
                loss.backward()
            del loss
            found |= {"backward end": live.now, "backward": live.peak}
            live.peak = live.now
            with numbers():
                stepping.step()
            found["optimizer step"] = live.peak
            stepping.zero_grad()
        found["reserved"] = live.cache.reserved
    return found


def built(case: Mapping[str, Any], variant: Variant, layers: int, *, has_dropout: bool = False) -> Any:
    """The model, ready to be trained. `has_dropout`: inside of fused attention too, where a device has a kernel."""
    import transformers

    if "kernels" in case:
        install(f"transformers.models.{case['kernels']}.modeling_{case['kernels']}")
    facts = find_model(case["id"])
    assert facts is not None
    named = {key: value for key in _NAMES if (value := case.get("names", {}).get(key, key))}
    sizes = {named[key]: getattr(facts, fact) for key, fact in _NAMES.items() if key in named}
    sizes |= case.get("extra", {}) | dict.fromkeys((named["num_hidden_layers"], *case.get("depths", ())), layers)
    config = getattr(transformers, case["classes"][0])(**sizes)
    config._attn_implementation = "eager" if case.get("has_no_attention") else variant.attention
    config.use_cache = False
    if variant.attention == "sdpa" and not has_dropout:  # a CPU's fused attention knows no dropout, a GPU's does
        for name in ("attn_pdrop", "attention_probs_dropout_prob", "attention_dropout"):
            if hasattr(config, name):
                setattr(config, name, 0.0)
    torch.set_default_dtype(DTYPES[variant.weights])
    try:
        model = getattr(transformers, case["classes"][1])(config)
    finally:
        torch.set_default_dtype(torch.float32)
    if variant.method == "lora":
        model = _with_adapters(model)
    if variant.is_checkpointed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    return model.train()


class _Adapted(torch.nn.Module):  # type: ignore[misc]
    """A linear layer with peft's LoRA beside it: adapters in fp32, their input cast and dropped out anew per layer."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        weight = base.weight if hasattr(base, "in_features") else base.weight.t()  # GPT-2's Conv1D is transposed
        self.base = base
        self.weight, self.bias = base.weight, getattr(base, "bias", None)  # which some layers read
        self.down = torch.nn.Linear(weight.shape[1], RANK, bias=False, dtype=torch.float32)
        self.up = torch.nn.Linear(RANK, weight.shape[0], bias=False, dtype=torch.float32)

    def forward(self, x: Any) -> Any:
        """As peft's LoraLayer."""
        result = self.base(x)
        dropped = torch.nn.functional.dropout(x.to(self.down.weight.dtype), 0.05, training=True)
        return (result + self.up(self.down(dropped)) * 2.0).to(result.dtype)


def _with_adapters(model: Any) -> Any:
    model.requires_grad_(False)
    found = [(parent, name, child) for parent in model.modules() for name, child in parent.named_children()]
    for parent, name, child in found:
        is_linear = isinstance(child, torch.nn.Linear) or type(child).__name__ == "Conv1D"
        if is_linear and name not in ("lm_head", "embed_out", "classifier", "gate"):
            setattr(parent, name, _Adapted(child))
    return model
