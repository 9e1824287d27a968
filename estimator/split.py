"""One process that splits each batch over its GPUs (``torch.nn.DataParallel``): the micro-batch of one of them."""

from __future__ import annotations

from dataclasses import replace

from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Sourced, Unknown

_MOST_GPUS = 8
"""GPUs of one node, where nothing says how many the process sees."""


def per_gpu(run: RunConfig) -> RunConfig:
    """The same run with the samples that each GPU gets in `micro_batch`."""
    batch = run.micro_batch.value
    is_sharded = run.sharding.is_known and run.sharding.value != "none"
    if run.splits_batch.value is not True or is_sharded or isinstance(batch, Unknown):
        return run
    origin, gpus = run.micro_batch.origin, run.num_gpus.value
    share: int | Unknown
    if isinstance(gpus, Unknown):
        reason = f"DataParallel splits {batch} over the GPUs that it sees: say how many"
        share = Unknown(reason, tuple(dict.fromkeys((batch, -(-batch // _MOST_GPUS)))))
    else:
        share = -(-batch // gpus)
        if gpus > 1:
            origin = replace(origin, text=f"{origin.text}: DataParallel splits {batch} over {gpus}")
    return replace(run, micro_batch=Sourced(share, origin), splits_batch=UNSET)
