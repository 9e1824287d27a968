"""What state-space models, delta rules and short convolutions keep of one token, where their kernels are installed.

Counted from ``save_for_backward`` of mamba-ssm (`MambaInnerFn`, checkpoint_lvl 1; `SelectiveScanFn`;
`MambaSplitConv1dScanCombinedFn`), causal-conv1d and flash-linear-attention (`ChunkGatedDeltaRuleFunction`) and from the
layer code of transformers around them; ``docs/calibration.md`` has the traces. Without kernels transformers scans in
plain operations, which keep a multiple of it and are too slow to train with: that is not counted.
"""

from __future__ import annotations

from estimator.models.facts import ModelFacts, Recurrence

SOURCE = "mamba-ssm selective_scan_interface.py and ssd_combined.py, fla chunk_gated_delta_rule: save_for_backward"
_BLOCK = 2048  # positions of a chunk of selective_scan.cpp, which keeps its state in fp32
_CHUNK = 64  # positions of a chunk of the delta rule
_SSD_CHUNK = 256


def saved(facts: ModelFacts, length: int, c: int) -> float:
    """Bytes per token of one recurrent part, without its norm and the input of its first matmul."""
    one = facts.recurrence
    assert one is not None
    if one.kind in ("mamba1", "jamba"):
        return _selective(one, length, c)
    if one.kind == "mamba2":  # the projection, what the scan gave before its gate, a gated norm's deviation
        return c * (_projection(one) + one.inner) + 4.0 * one.groups
    if one.kind == "deltanet":
        return _delta_rule(one, c)
    return (
        6.0 * c * facts.hidden
    )  # a short convolution: its three projections, its input, its output, and their product


def _selective(one: Recurrence, length: int, c: int) -> float:
    """Mamba's scan. The kernel that does all of a layer computes the convolution and the time steps again; Jamba's has
    norms on the way, so that every step keeps its own."""
    states = 8.0 * one.state * one.inner * -(-length // _BLOCK) / length
    if one.kind == "mamba1":
        return c * (3 * one.inner + one.rank + 4 * one.state) + states
    small = one.rank + 2 * one.state
    return c * (7 * one.inner + 2 * small + one.rank) + 4.0 * small + states


def _projection(one: Recurrence) -> int:
    """Gate, values, B, C and time steps of one token."""
    return 2 * one.inner + 2 * one.groups * one.state + one.heads


def _delta_rule(one: Recurrence, c: int) -> float:
    """Projection with gate, the convolution's input and output, normalised queries and keys, decays and a chunk's
    triangle per head; and the gated norm behind, which is written out in fp32."""
    mixed = 2 * one.keys + one.inner
    kernel = c * (2 * one.keys + one.heads * (_CHUNK + 1)) + 4.0 * one.heads + 8.0 * one.keys / 128
    return c * (2 * mixed + one.inner) + kernel + one.inner * (12.0 + 2 * c)


def transient(facts: ModelFacts, c: int) -> float:
    """Bytes per token alive only while the part runs: gradients of its projection, and of Mamba-2 the convolution and
    the chunks' states in fp32, which backward makes again."""
    one = facts.recurrence
    assert one is not None
    if one.kind == "mamba2":
        again = c * (one.inner + 2 * one.groups * one.state) + 8.0 * one.inner * one.state / _SSD_CHUNK
        return 2 * c * _projection(one) + again
    return c * 4.0 * (one.inner or facts.hidden)


def state_bytes(facts: ModelFacts, c: int) -> float:
    """Bytes of one sequence and recurrent part while it generates."""
    one = facts.recurrence
    assert one is not None
    if one.kind == "deltanet":
        return 4.0 * one.inner * (one.keys // max(one.keys // 128, 1))  # keys of 128 per head, in fp32
    return float(c) * one.inner * (one.state or 1)
