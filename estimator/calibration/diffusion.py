"""Counts of ``data/pixels.csv``: diffusers' networks traced at one size, in bytes per latent position.

    python -m estimator.calibration.diffusion [NAME ...]
    python -m estimator.calibration.diffusion layers    # writes data/layers.csv

Of a transformer two depths are traced, so that a block's own bytes come out; of a UNet the whole, with and without
checkpointing. `frozen` has LoRA on the attention's projections. Under autocast the copies of the weights are taken off.
`layers` are the linear layers and convolutions of each network in its checkpoint's sizes, by name and width:
what adapters can be put on.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.calibration.live import Cuda, Live

_ATTENTION = ("to_q", "to_k", "to_v", "0", "add_q_proj", "add_k_proj", "add_v_proj")
_DEPTHS = (1, 3)
_REAL = {
    "CogVideoX-5b": (42,), "Wan 2.1 1.3B": (30,), "FLUX.2 klein 4B": (5, 20), "FLUX.2 klein 9B": (8, 24),
    "Stable Diffusion 3 medium": (24,), "Stable Diffusion 3.5 large": (38,),
    "Stable Diffusion 3.5 medium, two attentions": (24,), "DiT-L": (24,), "DiT-B": (12,), "DiT-S": (12,),
}  # fmt: skip
"""Depths of checkpoints whose class has other ones by default; with them the parameters are those of pixels.csv."""
Grid = tuple[int, int, int]
"""Latent frames, height and width, in positions."""
Inputs = Callable[[Grid, Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Net:
    """A class of diffusers; `depths` name its arguments that count blocks, none of a UNet."""

    cls: str
    grid: Grid
    inputs: Inputs
    depths: tuple[str, ...] = ()
    sizes: tuple[tuple[str, Any], ...] = ()


def _zeros(dtype: Any, *shape: int) -> Any:
    return torch.zeros(*shape, dtype=dtype)


def _step() -> Any:
    return torch.ones(1, dtype=torch.long)


def _ltx(grid: Grid, dtype: Any) -> dict[str, Any]:
    frames, height, width = grid
    return {
        "hidden_states": _zeros(dtype, 1, frames * height * width, 128), "timestep": _zeros(dtype, 1),
        "encoder_hidden_states": _zeros(dtype, 1, 128, 4096), "encoder_attention_mask": _zeros(dtype, 1, 128),
        "num_frames": frames, "height": height, "width": width,
    }  # fmt: skip


def _cogvideo(*, is_rotated: bool) -> Inputs:
    def made(grid: Grid, dtype: Any) -> dict[str, Any]:
        frames, height, width = grid
        count = frames * height * width
        found = {
            "hidden_states": _zeros(dtype, 1, frames, 16, 2 * height, 2 * width), "timestep": _step(),
            "encoder_hidden_states": _zeros(dtype, 1, 226, 4096),
        }  # fmt: skip
        rotary = (_zeros(torch.float32, count, 64), _zeros(torch.float32, count, 64))
        return {**found, "image_rotary_emb": rotary} if is_rotated else found

    return made


def _video(tokens: int, *, is_hunyuan: bool) -> Inputs:
    def made(grid: Grid, dtype: Any) -> dict[str, Any]:
        frames, height, width = grid
        found = {
            "hidden_states": _zeros(dtype, 1, 16, frames, 2 * height, 2 * width), "timestep": _step(),
            "encoder_hidden_states": _zeros(dtype, 1, tokens, 4096),
        }  # fmt: skip
        if is_hunyuan:
            found |= {
                "encoder_attention_mask": torch.ones(1, tokens, dtype=torch.bool), "guidance": _zeros(dtype, 1),
                "pooled_projections": _zeros(dtype, 1, 768),
            }  # fmt: skip
        return found

    return made


def _flux(grid: Grid, dtype: Any) -> dict[str, Any]:
    count = grid[1] * grid[2]
    return {
        "hidden_states": _zeros(dtype, 1, count, 64), "encoder_hidden_states": _zeros(dtype, 1, 512, 4096),
        "pooled_projections": _zeros(dtype, 1, 768), "timestep": _zeros(dtype, 1), "guidance": _zeros(dtype, 1),
        "img_ids": _zeros(dtype, count, 3), "txt_ids": _zeros(dtype, 512, 3),
    }  # fmt: skip


def _flux2(width: int, *, is_guided: bool = False) -> Inputs:
    def made(grid: Grid, dtype: Any) -> dict[str, Any]:
        count = grid[1] * grid[2]
        found = {
            "hidden_states": _zeros(dtype, 1, count, 128), "encoder_hidden_states": _zeros(dtype, 1, 512, width),
            "timestep": _zeros(dtype, 1), "img_ids": _zeros(dtype, count, 4), "txt_ids": _zeros(dtype, 512, 4),
        }  # fmt: skip
        return {**found, "guidance": _zeros(dtype, 1)} if is_guided else found

    return made


def _sd3(grid: Grid, dtype: Any) -> dict[str, Any]:
    return {
        "hidden_states": _zeros(dtype, 1, 16, 2 * grid[1], 2 * grid[2]), "timestep": _zeros(dtype, 1),
        "encoder_hidden_states": _zeros(dtype, 1, 333, 4096), "pooled_projections": _zeros(dtype, 1, 2048),
    }  # fmt: skip


def _unet(width: int, *, is_xl: bool = False) -> Inputs:
    def made(grid: Grid, dtype: Any) -> dict[str, Any]:
        found = {
            "sample": _zeros(dtype, 1, 4, grid[1], grid[2]), "timestep": _step(),
            "encoder_hidden_states": _zeros(dtype, 1, 77, width),
        }  # fmt: skip
        added = {"text_embeds": _zeros(dtype, 1, 1280), "time_ids": _zeros(dtype, 1, 6)}
        return {**found, "added_cond_kwargs": added} if is_xl else found

    return made


def _classes(grid: Grid, dtype: Any) -> dict[str, Any]:
    return {
        "hidden_states": _zeros(dtype, 1, 4, 2 * grid[1], 2 * grid[2]), "timestep": _step(),
        "class_labels": torch.zeros(1, dtype=torch.long),
    }  # fmt: skip


def _pixart(words: int, *, has_sizes: bool) -> Inputs:
    def made(grid: Grid, dtype: Any) -> dict[str, Any]:
        sizes = {"resolution": _zeros(dtype, 1, 2), "aspect_ratio": _zeros(dtype, 1, 1)}
        none = dict.fromkeys(sizes)
        return {
            "hidden_states": _zeros(dtype, 1, 4, 2 * grid[1], 2 * grid[2]), "timestep": _step(),
            "encoder_hidden_states": _zeros(dtype, 1, words, 4096), "added_cond_kwargs": sizes if has_sizes else none,
        }  # fmt: skip

    return made


def _amused(grid: Grid, dtype: Any) -> dict[str, Any]:
    return {
        "input_ids": torch.zeros(1, grid[1], grid[2], dtype=torch.long), "micro_conds": _zeros(dtype, 1, 5),
        "encoder_hidden_states": _zeros(dtype, 1, 77, 768), "pooled_text_emb": _zeros(dtype, 1, 768),
    }  # fmt: skip


_COGVIDEO = (("sample_width", 90), ("sample_height", 60))
NETS = {
    "LTX-Video": Net("LTXVideoTransformer3DModel", (7, 16, 24), _ltx, ("num_layers",)),
    "CogVideoX-2b": Net(
        "CogVideoXTransformer3DModel", (13, 30, 45), _cogvideo(is_rotated=False), ("num_layers",),
        (("num_attention_heads", 30), *_COGVIDEO),
    ),
    "CogVideoX-5b": Net(
        "CogVideoXTransformer3DModel", (13, 30, 45), _cogvideo(is_rotated=True), ("num_layers",),
        (("num_attention_heads", 48), ("use_rotary_positional_embeddings", True), *_COGVIDEO),
    ),
    "HunyuanVideo": Net(
        "HunyuanVideoTransformer3DModel", (5, 16, 24), _video(256, is_hunyuan=True), ("num_layers", "num_single_layers")
    ),
    "Wan 2.1 1.3B": Net(
        "WanTransformer3DModel", (7, 16, 24), _video(512, is_hunyuan=False), ("num_layers",),
        (("num_attention_heads", 12), ("ffn_dim", 8960)),
    ),
    "Wan 2.1 14B": Net("WanTransformer3DModel", (7, 16, 24), _video(512, is_hunyuan=False), ("num_layers",)),
    "FLUX.1": Net(
        "FluxTransformer2DModel", (1, 64, 64), _flux, ("num_layers", "num_single_layers"), (("guidance_embeds", True),)
    ),
    "FLUX.2 klein 4B": Net(
        "Flux2Transformer2DModel", (1, 64, 64), _flux2(7680), ("num_layers", "num_single_layers"),
        (("num_attention_heads", 24), ("joint_attention_dim", 7680), ("guidance_embeds", False)),
    ),
    "FLUX.2 klein 9B": Net(
        "Flux2Transformer2DModel", (1, 64, 64), _flux2(12288), ("num_layers", "num_single_layers"),
        (("num_attention_heads", 32), ("joint_attention_dim", 12288), ("guidance_embeds", False)),
    ),
    "FLUX.2 dev": Net(
        "Flux2Transformer2DModel", (1, 64, 64), _flux2(15360, is_guided=True), ("num_layers", "num_single_layers")
    ),
    "Stable Diffusion 3 medium": Net(
        "SD3Transformer2DModel", (1, 64, 64), _sd3, ("num_layers",),
        (("num_attention_heads", 24), ("caption_projection_dim", 1536), ("sample_size", 128), ("patch_size", 2),
         ("pos_embed_max_size", 192)),
    ),
    "Stable Diffusion 1": Net("UNet2DConditionModel", (1, 64, 64), _unet(768), (), (("cross_attention_dim", 768),)),
    "SDXL": Net(
        "UNet2DConditionModel", (1, 128, 128), _unet(2048, is_xl=True), (),
        (("sample_size", 128), ("cross_attention_dim", 2048), ("use_linear_projection", True),
         ("down_block_types", ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D")),
         ("up_block_types", ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")),
         ("block_out_channels", (320, 640, 1280)), ("transformer_layers_per_block", (1, 2, 10)),
         ("attention_head_dim", (5, 10, 20)), ("addition_embed_type", "text_time"),
         ("addition_time_embed_dim", 256), ("projection_class_embeddings_input_dim", 2816)),
    ),
    "DiT-XL": Net(
        "DiTTransformer2DModel", (1, 64, 64), _classes, ("num_layers",),
        (("num_attention_heads", 16), ("attention_head_dim", 72), ("sample_size", 128), ("out_channels", 8)),
    ),
    "DiT-L": Net(
        "DiTTransformer2DModel", (1, 64, 64), _classes, ("num_layers",),
        (("num_attention_heads", 16), ("attention_head_dim", 64), ("sample_size", 128), ("out_channels", 8)),
    ),
    "DiT-B": Net(
        "DiTTransformer2DModel", (1, 64, 64), _classes, ("num_layers",),
        (("num_attention_heads", 12), ("attention_head_dim", 64), ("sample_size", 128), ("out_channels", 8)),
    ),
    "DiT-S": Net(
        "DiTTransformer2DModel", (1, 64, 64), _classes, ("num_layers",),
        (("num_attention_heads", 6), ("attention_head_dim", 64), ("sample_size", 128), ("out_channels", 8)),
    ),
    "PixArt-alpha": Net(
        "PixArtTransformer2DModel", (1, 64, 64), _pixart(120, has_sizes=True), ("num_layers",),
        (("caption_channels", 4096),),
    ),
    "PixArt-Sigma": Net(
        "PixArtTransformer2DModel", (1, 64, 64), _pixart(300, has_sizes=False), ("num_layers",),
        (("caption_channels", 4096), ("use_additional_conditions", False)),
    ),
    "Stable Diffusion 3.5 large": Net(
        "SD3Transformer2DModel", (1, 64, 64), _sd3, ("num_layers",),
        (("num_attention_heads", 38), ("caption_projection_dim", 2432), ("sample_size", 128), ("patch_size", 2),
         ("pos_embed_max_size", 192), ("qk_norm", "rms_norm")),
    ),
    "Stable Diffusion 3.5 medium, two attentions": Net(
        "SD3Transformer2DModel", (1, 64, 64), _sd3, ("num_layers",),
        (("num_attention_heads", 24), ("caption_projection_dim", 1536), ("sample_size", 128), ("patch_size", 2),
         ("pos_embed_max_size", 384), ("qk_norm", "rms_norm"), ("dual_attention_layers", tuple(range(13)))),
    ),
    "Stable Diffusion 3.5 medium, one attention": Net(
        "SD3Transformer2DModel", (1, 64, 64), _sd3, ("num_layers",),
        (("num_attention_heads", 24), ("caption_projection_dim", 1536), ("sample_size", 128), ("patch_size", 2),
         ("pos_embed_max_size", 384), ("qk_norm", "rms_norm")),
    ),
    "Stable Diffusion 2": Net(
        "UNet2DConditionModel", (1, 96, 96), _unet(1024), (),
        (("cross_attention_dim", 1024), ("attention_head_dim", (5, 10, 20, 20)), ("use_linear_projection", True)),
    ),
    "aMUSEd 256": Net("UVit2DModel", (1, 16, 16), _amused),
    "aMUSEd 512": Net("UVit2DModel", (1, 32, 32), _amused, (), (("downsample", True), ("upsample", True))),
}  # fmt: skip


class _Adapted(torch.nn.Module):  # type: ignore[misc]
    """A frozen linear layer and LoRA of rank 8 beside it, in the layer's dtype or, for autocast, in fp32."""

    def __init__(self, base: Any, dtype: Any) -> None:
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, 8, bias=False, dtype=dtype)
        self.up = torch.nn.Linear(8, base.out_features, bias=False, dtype=dtype)

    def forward(self, x: Any) -> Any:
        """The layer's result and the adapters', which get a copy of their own where they have another type (peft)."""
        return self.base(x) + self.up(self.down(x.to(self.down.weight.dtype)))


def _adapt(model: Any, dtype: Any) -> None:
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in _ATTENTION and isinstance(child, torch.nn.Linear):
                setattr(parent, name, _Adapted(child, dtype))


def measure(net: Net, regime: str, depths: Sequence[int], *, is_checkpointed: bool = False) -> tuple[int, int, int]:
    """Bytes of the weights, of what forward leaves, and of the most during forward and backward, above the weights."""
    import diffusers

    is_mixed = regime in ("mixed", "frozen mixed")
    dtype = torch.float32 if regime in ("mixed", "fp32") else torch.bfloat16
    with FakeTensorMode(allow_non_fake_inputs=True), Live() as live:
        torch.set_default_dtype(dtype)
        try:
            sizes = dict(net.sizes) | dict(zip(net.depths, depths, strict=True))
            model = getattr(diffusers, net.cls)(**sizes)
        finally:
            torch.set_default_dtype(torch.float32)
        if regime.startswith("frozen"):
            _adapt(model, torch.float32 if is_mixed else dtype)
        if is_checkpointed:
            model.enable_gradient_checkpointing()
        inputs, loaded = net.inputs(net.grid, dtype), live.now
        live.peak = live.now
        with ExitStack() as modes:
            modes.enter_context(Cuda(is_mixed=is_mixed))
            if is_mixed:
                modes.enter_context(torch.autocast("cpu", torch.bfloat16))
            result = model.train()(**inputs)
            tensor = result if isinstance(result, torch.Tensor) else result[0]
            loss = tensor.float().pow(2).mean()
        left = live.now - loaded
        with Cuda(is_mixed=is_mixed):
            torch.autograd.backward(loss)  # a tensor's own method would run without the mode around it
        return loaded, left, live.peak - loaded


def _blocks(net: Net, regime: str) -> list[str]:
    positions = net.grid[0] * net.grid[1] * net.grid[2]
    base = measure(net, regime, [_DEPTHS[0]] * len(net.depths))
    lines = []
    for index, name in enumerate(net.depths):
        depths = [_DEPTHS[1] if index == at else _DEPTHS[0] for at in range(len(net.depths))]
        deep = measure(net, regime, depths)
        count = _DEPTHS[1] - _DEPTHS[0]
        copies = (deep[0] - base[0]) // 2 if regime == "mixed" else 0
        kept = (deep[1] - base[1] - copies) / count / positions
        lines.append(f"{name}: {kept:,.0f} B per block and position, {(deep[2] - deep[1]) / positions:,.0f} B beside")
    return lines


def _whole(net: Net, regime: str) -> list[str]:
    positions = net.grid[0] * net.grid[1] * net.grid[2]
    weights, left, most = measure(net, regime, ())
    copies = weights // 2 if regime == "mixed" else 0
    return [f"whole: {(left - copies) / positions:,.0f} B per position, {(most - left) / positions:,.0f} B beside"]


def layers() -> None:
    """Write ``data/layers.csv``: what each linear layer and convolution reads and gives."""
    import diffusers

    with Path("estimator/data/layers.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("network", "kind", "module", "inputs", "outputs", "count", "source"))
        for name, net in NETS.items():
            if name.endswith("one attention"):  # a part of the network before it, traced on its own
                continue
            sizes = dict(net.sizes) | dict(zip(net.depths, _REAL.get(name, ()), strict=False))
            with torch.device("meta"):
                model = getattr(diffusers, net.cls)(**sizes)
            source = f"diffusers {diffusers.__version__} {net.cls}"
            for (kind, module, read, made), count in _found(model).items():
                writer.writerow((name.partition(",")[0], kind, module, read, made, count, source))


def _found(model: Any) -> Counter[tuple[str, str, int, int]]:
    """Layers by kind, name and width. Numbers that tell layers apart are ``*``; others (``to_out.0``) stay."""
    alike: dict[tuple[str, str, int, int], list[list[str]]] = {}
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d, torch.nn.Conv3d)):
            kind = "linear" if isinstance(module, torch.nn.Linear) else "convolution"
            read = prod(module.weight.shape[1:])  # peft's first matrix has the kernel's size, its second is 1x1
            key = (kind, re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name), read, module.weight.shape[0])
            alike.setdefault(key, []).append(name.split("."))
    found: Counter[tuple[str, str, int, int]] = Counter()
    for (kind, _, read, made), names in alike.items():
        parts = (set(values) for values in zip(*names, strict=True))
        found[kind, ".".join(values.pop() if len(values) == 1 else "*" for values in parts), read, made] = len(names)
    return found


def main(names: Sequence[str]) -> None:
    """Print the counts of the networks named, or of all; or write their layers."""
    if list(names) == ["layers"]:
        layers()
        return
    for name in names or NETS:
        for regime in ("trained", "frozen", "mixed", "frozen mixed", "fp32"):
            lines = _blocks(NETS[name], regime) if NETS[name].depths else _whole(NETS[name], regime)
            print(name, regime, *lines, sep="\n  ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
