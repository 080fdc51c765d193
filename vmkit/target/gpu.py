"""What a GPU has: how much a block of threads may take, how much a multiprocessor holds of them, how fast it is."""

from __future__ import annotations

from dataclasses import replace

from tvm.target import Target

from .._dataclasses import dataclass

__all__ = ["WARP", "WIDEST_LOAD", "Gpu", "gpu_of"]

WARP = 32
"""Threads that do the same at a time."""

WIDEST_LOAD = 16
"""Bytes that one thread reads at once at most."""


@dataclass(frozen=True)
class Gpu:
    """What a GPU has. Sizes are in bytes and registers have four.

    Attributes
    ----------
    threads, shared : int
        The most that a block may have.
    registers : int
        The most that a thread may have.
    multiprocessors : int
        How many there are.
    resident_threads, resident_blocks, resident_shared, resident_registers : int
        The most that one of them holds at a time.
    lanes : int
        How many multiply-adds of float32 one of them starts at a time.
    vector : int
        The widest load of a thread.
    has_tensor_cores : bool
        Whether it multiplies matrices of float16 by itself.
    tensor_rate : float
        How many multiply-adds of float16 it does there for one of float32.
    clock : float
        Cycles in a second.
    banks : int
        Of shared memory, four bytes each in a cycle.
    cache_rate : int
        Bytes in a cycle from the cache that all multiprocessors share, of one of them.
    memory_rate : float
        Bytes in a second.
    latency : int
        Cycles until what is fetched from there is there.
    barrier : int
        Cycles of a step that all threads of a block wait for each other.
    busy_warps : int
        Warps that keep the lanes of a multiprocessor busy.
    launch : float
        Seconds from one launch to the next.
    """

    threads: int = 1024
    shared: int = 48 * 1024
    registers: int = 255
    multiprocessors: int = 80
    resident_threads: int = 2048
    resident_blocks: int = 32
    resident_shared: int = 96 * 1024
    resident_registers: int = 65_536
    lanes: int = 64
    vector: int = WIDEST_LOAD
    has_tensor_cores: bool = False
    tensor_rate: float = 8.0
    clock: float = 1.4e9
    banks: int = 32
    cache_rate: int = 32
    memory_rate: float = 1.2e12
    latency: int = 500
    barrier: int = 40
    busy_warps: int = 12
    launch: float = 2.5e-6


# By compute capability: the table of technical specifications in NVIDIA's CUDA programming guide; multiprocessors are
# those of the largest product (V100, T4, A100, A10, Orin, L40, H100).
_BY_CAPABILITY = {
    70: Gpu(resident_shared=96 * 1024, has_tensor_cores=True),
    75: Gpu(
        multiprocessors=40, resident_threads=1024, resident_blocks=16, resident_shared=64 * 1024, has_tensor_cores=True
    ),
    80: Gpu(multiprocessors=108, resident_shared=164 * 1024, has_tensor_cores=True),
    86: Gpu(
        multiprocessors=72,
        resident_threads=1536,
        resident_blocks=16,
        resident_shared=100 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    87: Gpu(
        multiprocessors=16,
        resident_threads=1536,
        resident_blocks=16,
        resident_shared=164 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    89: Gpu(
        multiprocessors=142,
        resident_threads=1536,
        resident_blocks=24,
        resident_shared=100 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    90: Gpu(multiprocessors=132, resident_shared=228 * 1024, lanes=128, has_tensor_cores=True),
}


def gpu_of(target: Target) -> Gpu:
    """Return what a target has: by its ``arch``, and for kinds other than CUDA little more than what it says itself."""
    found = Gpu(vector=4)
    if target.kind.name == "cuda":
        digits = "".join(c for c in str(target.attrs.get("arch", "")) if c.isdigit())
        capability = int(digits or 0)
        known = [each for each in _BY_CAPABILITY if each <= capability]
        found = _BY_CAPABILITY[max(known)] if known else Gpu()
    return replace(
        found,
        threads=int(target.attrs.get("max_num_threads", found.threads)),
        shared=int(target.attrs.get("max_shared_memory_per_block", found.shared)),
    )
