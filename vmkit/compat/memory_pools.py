"""``tvm.ir.memory_pools``: memory of boards, as scripts describe it. ``relay.build`` refuses it: vmkit plans memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tvm.target import Target

from .._dataclasses import dataclass

__all__ = [
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "PoolInfo",
    "PoolInfoProperties",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
]


@dataclass(frozen=True)
class PoolInfoProperties:
    """What memory is like: its size in bytes, clock in Hz, bytes and latencies in cycles; -1 for what is not known."""

    size_hint_bytes: int = -1
    clock_frequency_hz: int = -1
    read_bandwidth_bytes_per_cycle: int = -1
    write_bandwidth_bytes_per_cycle: int = -1
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: dict[Target, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PoolInfo:
    """Memory by its name, the targets that reach it, and what it is like."""

    pool_name: str
    targets: Sequence[Target] = ()
    pool_info_properties: PoolInfoProperties = field(default_factory=PoolInfoProperties)


@dataclass(frozen=True)
class WorkspacePoolInfo(PoolInfo):
    """Memory for what is computed on the way."""


@dataclass(frozen=True)
class ConstantPoolInfo(PoolInfo):
    """Memory for constants."""


@dataclass(frozen=True)
class WorkspaceMemoryPools:
    """All memory for what is computed on the way."""

    pools: Sequence[WorkspacePoolInfo] = ()


@dataclass(frozen=True)
class ConstantMemoryPools:
    """All memory for constants."""

    pools: Sequence[ConstantPoolInfo] = ()
