"""Stand-ins for kernels that a CPU does not have: functions that keep what the real ones keep, and compute nothing.

The lists are those of ``save_for_backward`` in mamba-ssm (`MambaInnerFn` with its default checkpoint_lvl 1,
`SelectiveScanFn`, `MambaSplitConv1dScanCombinedFn`), causal-conv1d (`CausalConv1dFn`) and flash-linear-attention
(`ChunkGatedDeltaRuleFunction` with its l2 norm inside). Without them transformers scans in plain torch operations.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

_BLOCK = 2048  # positions of a chunk of selective_scan.cpp
_CHUNK = 64  # of chunk_gated_delta_rule


class _Kept(torch.autograd.Function):  # type: ignore[misc] # torch is not installed where types are checked
    """Keeps `extra` sizes beside some of its inputs, and gives something of the shape that is asked for."""

    @staticmethod
    def forward(ctx: Any, shape: tuple[int, ...], kept: tuple[int, ...], extra: Any, *inputs: Any) -> Any:
        made = [torch.empty(size, dtype=dtype) for size, dtype in extra]
        ctx.save_for_backward(*(inputs[index] for index in kept), *made)
        ctx.like = [(each.shape, each.dtype, each.requires_grad) for each in inputs]
        return torch.empty(shape, dtype=inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        made = [torch.empty(shape, dtype=dtype) if is_trained else None for shape, dtype, is_trained in ctx.like]
        return (None, None, None, *made)


def _tensors(*values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _cast(*weights: Any) -> list[Any]:
    """Under autocast these functions cast their weights themselves, and keep the copies."""
    if not torch.is_autocast_enabled("cpu"):
        return []
    return [(tuple(each.shape), torch.get_autocast_dtype("cpu")) for each in weights if each.dtype == torch.float32]


def _inner(xz: Any, conv: Any, bias: Any, x_proj: Any, dt_proj: Any, out_proj: Any, *rest: Any, **named: Any) -> Any:
    batch, both, length = xz.shape
    state = rest[1].shape[1]
    narrow = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else xz.dtype
    inner, chunks = both // 2, -(-length // _BLOCK)
    extra = [
        ((batch * length, x_proj.shape[0]), narrow),
        ((batch, 1, state, length), narrow),
        ((batch, 1, state, length), narrow),
        ((batch, inner, chunks, 2 * state), torch.float32),
        ((batch, inner, length), xz.dtype),
    ]
    extra += _cast(x_proj, dt_proj, out_proj)
    inputs = _tensors(xz, conv, bias, x_proj, dt_proj, out_proj)
    return _Kept.apply((batch, length, out_proj.shape[0]), tuple(range(len(inputs))), extra, *inputs)


def _convolved(x: Any, weight: Any, bias: Any = None, **_: Any) -> Any:
    return _Kept.apply(tuple(x.shape), (0,), [], *_tensors(x, weight, bias))


def _scan(u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, **named: Any) -> Any:  # noqa: N803
    batch, inner, length = u.shape
    chunks = -(-length // _BLOCK)
    extra = [((batch, inner, chunks, 2 * A.shape[1]), torch.float32), ((batch, inner, length), u.dtype)]
    inputs = [u.contiguous(), delta.contiguous(), B.contiguous(), C.contiguous(), z, A]
    return _Kept.apply(tuple(u.shape), (0, 1, 2, 3, 4), extra, *inputs)


def _combined(zxbcdt: Any, conv: Any, bias: Any, dt_bias: Any, A: Any, D: Any, **named: Any) -> Any:  # noqa: N803
    batch, length, _ = zxbcdt.shape
    inner = D.shape[0] * named["headdim"]
    extra: list[Any] = [((batch, length, inner), zxbcdt.dtype)]
    if named.get("rmsnorm_weight") is not None:
        extra.append(((batch * length * named["ngroups"],), torch.float32))
    out = named.get("outproj_weight")
    extra += _cast(*_tensors(out))
    width = inner if out is None else out.shape[0]
    return _Kept.apply((batch, length, width), (0,), extra, *_tensors(zxbcdt, conv, bias, dt_bias, D, out))


def _delta_rule(query: Any, key: Any, value: Any, g: Any, beta: Any, **named: Any) -> Any:
    batch, length, heads, _ = value.shape
    extra = [(tuple(query.shape), query.dtype), (tuple(key.shape), key.dtype)]
    extra += [(tuple(query.shape[:3]), torch.float32), (tuple(key.shape[:3]), torch.float32)]
    extra += [((batch, length, heads), torch.float32), ((batch, length, heads, _CHUNK), value.dtype)]
    return _Kept.apply(tuple(value.shape), (2, 4), extra, query, key, value, g, beta), None


_STAND_INS = {
    "mamba_inner_fn": _inner,
    "causal_conv1d_fn": _convolved,
    "mamba_selective_scan": _scan,
    "mamba2_split_conv1d_scan_combined": _combined,
    "torch_chunk_gated_delta_rule": _delta_rule,
}


def install(module: str) -> None:
    """Put the stand-ins where a module of transformers looks for its kernels."""
    found = importlib.import_module(module)
    for name, function in _STAND_INS.items():
        if hasattr(found, name):
            setattr(found, name, function)
