"""Memory that no tensor of the model explains: driver context, library workspaces, allocator rounding."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.memory.setup import Setup
from estimator.report import Term
from estimator.tables import number, rows
from estimator.units import GIB, MIB

_NCCL_BYTES = 300 * MIB  # channels and buffers of one communicator on NVLink machines; outside the allocator
_REQUIRED = ("architecture", "context_floor_gib", "context_gib", "workspace_mib")


@dataclass(frozen=True, slots=True)
class Context:
    """Bytes the driver and NCCL hold outside PyTorch's allocator: at least, and as expected."""

    floor: int
    point: int


def _row(architecture: str) -> dict[str, str]:
    table = {row["architecture"]: row for row in rows("runtime", _REQUIRED)}
    return table.get(architecture) or table[""]


def context(setup: Setup) -> Context:
    """The part of the peak that nvidia-smi sees and the allocator does not."""
    floor, point = overhead(setup.architecture)
    nccl = _NCCL_BYTES if has_communicator(setup) else 0
    return Context(floor, point + nccl)


def has_communicator(setup: Setup) -> bool:
    """Whether ranks talk to each other."""
    return setup.replicas * setup.tp * setup.pp * setup.cp > 1


def key_of(card: str, architecture: str) -> str:
    """Under what the table knows a card: a row of its own where somebody measured it, else its architecture's."""
    return card if any(row["architecture"] == card for row in rows("runtime", _REQUIRED)) else architecture


def overhead(architecture: str) -> tuple[int, int]:
    """What the driver holds for one process on a card of this architecture: at least, and as expected."""
    row = _row(architecture)
    floor, point = number(row, "context_floor_gib") or 0.0, number(row, "context_gib") or 0.0
    return int(floor * GIB), int(point * GIB)


def workspace(setup: Setup) -> Term:
    """cuBLAS workspaces, which PyTorch takes from its allocator."""
    total = int((number(_row(setup.architecture), "workspace_mib") or 0) * MIB)
    return Term("library workspaces", total, 0, "cuBLAS default workspace per handle", "torch CUDA notes")
