"""What a GPU has: how much a block of threads may take, and how much a multiprocessor holds of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm.target import Target

__all__ = ["Limits", "limits_of"]


@dataclass(frozen=True)
class Limits:
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
    vector: int = 16
    has_tensor_cores: bool = False


# By compute capability: the table of technical specifications in NVIDIA's CUDA programming guide; multiprocessors are
# those of the largest product (V100, T4, A100, A10, Orin, L40, H100).
_BY_CAPABILITY = {
    70: Limits(resident_shared=96 * 1024, has_tensor_cores=True),
    75: Limits(
        multiprocessors=40, resident_threads=1024, resident_blocks=16, resident_shared=64 * 1024, has_tensor_cores=True
    ),
    80: Limits(multiprocessors=108, resident_shared=164 * 1024, has_tensor_cores=True),
    86: Limits(
        multiprocessors=72,
        resident_threads=1536,
        resident_blocks=16,
        resident_shared=100 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    87: Limits(
        multiprocessors=16,
        resident_threads=1536,
        resident_blocks=16,
        resident_shared=164 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    89: Limits(
        multiprocessors=142,
        resident_threads=1536,
        resident_blocks=24,
        resident_shared=100 * 1024,
        lanes=128,
        has_tensor_cores=True,
    ),
    90: Limits(multiprocessors=132, resident_shared=228 * 1024, lanes=128, has_tensor_cores=True),
}


def limits_of(target: Target) -> Limits:
    """Return what a target has: by its ``arch``, and for kinds other than CUDA little more than what it says itself."""
    found = Limits(vector=4)
    if target.kind.name == "cuda":
        digits = "".join(c for c in str(target.attrs.get("arch", "")) if c.isdigit())
        capability = int(digits or 0)
        known = [each for each in _BY_CAPABILITY if each <= capability]
        found = _BY_CAPABILITY[max(known)] if known else Limits()
    return replace(
        found,
        threads=int(target.attrs.get("max_num_threads", found.threads)),
        shared=int(target.attrs.get("max_shared_memory_per_block", found.shared)),
    )
