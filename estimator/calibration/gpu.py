"""The second harness: real models trained for a few steps on a real GPU, each in a process of its own.

    python -m estimator.calibration measure [--records FILE] [--batch N ...] [--seq N ...] [WORD ...]

Without a CUDA device it refuses. Each run appends lines in the form of the measured rows: what the allocator handed
out, what it reserved, and what the card had in use. `python -m benchmarks.accuracy --records FILE` scores them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from analyzer.errors import InputError
from estimator.calibration.variants import RANK, STEPS, VARIANTS, Variant
from estimator.models.known import find_model
from estimator.units import GIB

RECORDS = Path("measurements.jsonl")
_LIMIT = 900
"""Seconds that one run may take, the building of its model included."""
_ROUNDS = 3
"""The first makes the optimizer's state, the second runs beside it, the third finds the allocator settled."""
_KINDS = {"max_allocated": "allocated", "max_reserved": "reserved", "nvidia_smi": "used"}
"""What a row calls it, and which of a run's numbers it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training: a model of `cases.toml`, how it is trained, and of which size its batch is."""

    model: str
    variant: str
    step: str
    batch: int
    seq: int
    layers: int

    @property
    def how(self) -> Variant:
        """The variant by its name."""
        return next(variant for variant in VARIANTS if variant.name == self.variant)


class Meter(Protocol):
    """A device's memory in bytes: `read` after `reset`."""

    def reset(self) -> None:
        """Forget the peaks."""

    def read(self) -> dict[str, int]:
        """`allocated` and `reserved` at their peak, `used` of the card now, its `total`."""


class CudaMeter:
    """torch's own counters, and the driver's of the whole card: nothing else should run on it."""

    def reset(self) -> None:
        """Forget the peaks; what was cached before goes back to the driver."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def read(self) -> dict[str, int]:
        """The peaks since, and what the driver says is in use: reserved memory is not given back, so it is the most."""
        import torch

        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return {
            "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
            "used": total - free, "total": torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory,
        }  # fmt: skip


def runs(
    cases: Sequence[Mapping[str, Any]], deep: Sequence[Mapping[str, Any]], words: Sequence[str],
    batches: Sequence[int] = (), seqs: Sequence[int] = (),
) -> Iterator[Run]:  # fmt: skip
    """Every model of full depth under every variant and optimizer whose names hold all words; `batches` and `seqs` take
    the place of the sizes in the file."""
    attention = {case["id"]: case.get("attention") for case in cases}
    models = dict.fromkeys(each["id"] for each in deep) if batches or seqs else {}
    sizes = [(each["id"], int(each["batch"]), int(each["seq"])) for each in deep]
    if models:
        first = {each["id"]: each for each in reversed(deep)}
        sizes = [
            (name, batch, seq)
            for name in models for batch in batches or [int(first[name]["batch"])]
            for seq in seqs or [int(first[name]["seq"])]
        ]  # fmt: skip
    for name, batch, seq in sizes:
        facts = find_model(name)
        assert facts is not None
        for variant in VARIANTS:
            is_fitting = attention[name] in (None, variant.attention)
            is_fitting &= variant.method == "full" or facts.kind == "decoder"
            for step in STEPS:
                if is_fitting and all(word in f"{name} {variant.name} {step}" for word in words):
                    yield Run(model=name, variant=variant.name, step=step, batch=batch, seq=seq, layers=facts.layers)


def train(run: Run, case: Mapping[str, Any], meter: Meter, device: str) -> dict[str, int]:
    """Bytes of the whole run, from an empty device on. Raises what torch raises where the memory does not suffice."""
    import torch

    from estimator.calibration.traced import DTYPES, built

    meter.reset()
    with torch.device(device):
        model = built(case, run.how, run.layers, has_dropout=True)
        tokens = torch.zeros(run.batch, run.seq, dtype=torch.long)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=run.step == STEPS[1])
    labels = tokens[:, 0].clone() if case["classes"][1].endswith("Classification") else tokens
    for _ in range(_ROUNDS):
        with _autocast(device, DTYPES.get(run.how.mixed)):
            loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()
    return meter.read()


def _autocast(device: str, dtype: Any) -> AbstractContextManager[Any]:
    import torch

    return torch.autocast(device, dtype) if dtype is not None else nullcontext()


def rows(run: Run, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of one run: one for each way to measure, or one for a run that died."""
    facts = find_model(run.model)
    assert facts is not None
    how = run.how
    common = {
        "source": "estimator.calibration measure", "src_key": "own-gpu", "quality": "A", "model": run.model,
        "params_b": round(facts.params / 1e9, 6), "task": "train", "method": how.method, "micro_batch": run.batch,
        "seq_len": run.seq, "precision": how.precision, "optimizer": "adamw",
        "optimizer_impl": "foreach" if run.step == STEPS[1] else "loop", "attention": how.attention,
        "grad_checkpointing": "full" if how.is_checkpointed else "none", "sharding": "none", "num_gpus": 1,
        "lora_rank": RANK if how.method == "lora" else None,
        "lora_targets": ["all-linear"] if how.method == "lora" else None,
        "gpu": found["gpu"], "gpu_mem_gib": round(found["total"] / GIB, 3), "suspect": None, "ran_only": False,
        "extra": {"torch": found["torch"], "optimizer_step": run.step, "variant": how.name},
    }  # fmt: skip
    name = f"gpu-{found['at']}-{run.model.rpartition('/')[2]}-b{run.batch}-s{run.seq}"
    if found["oom"]:
        return [{"id": name, **common, "measured_kind": "max_reserved", "measured_gib": None, "oom": True}]
    return [
        {
            "id": f"{name}-{kind}",
            **common,
            "measured_kind": kind,
            "measured_gib": round(found[of] / GIB, 4),
            "oom": False,
        }
        for kind, of in _KINDS.items()
    ]


def one(run: Run, case: Mapping[str, Any]) -> dict[str, Any]:
    """What a child process says of its run. Raises `InputError` without a CUDA device."""
    device_or_refuse()
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    about = {
        "gpu": properties.name,
        "total": properties.total_memory,
        "torch": torch.__version__,
        "at": int(time.time()),
    }
    try:
        return {**about, **train(run, case, CudaMeter(), "cuda"), "oom": False}
    except torch.cuda.OutOfMemoryError:
        return {**about, "oom": True}


def device_or_refuse() -> None:
    """Raises `InputError` where there is no torch or no CUDA device."""
    try:
        import torch
    except ImportError as error:
        raise InputError(f"measuring needs torch, transformers and a GPU: {error}") from None
    if not torch.cuda.is_available():
        raise InputError("measuring needs a CUDA device, and torch sees none")


def measure(wanted: Sequence[Run], records: Path) -> int:
    """Run each in a process of its own, so that none finds another's cache; append its rows. The number of failures."""
    device_or_refuse()
    failures = 0
    for run in wanted:
        words = [sys.executable, "-m", "estimator.calibration", "measure-one", json.dumps(asdict(run))]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT, check=False)
            found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            found = None
        if found is None:
            failures += 1
            print(f"failed: {run}", file=sys.stderr, flush=True)
            continue
        lines = rows(run, found)
        with records.open("a", encoding="utf-8") as handle:
            handle.writelines(json.dumps(line) + "\n" for line in lines)
        print(*(f"{line['id']}: {line['measured_gib'] or 'out of memory'}" for line in lines), sep="\n", flush=True)
    return failures
