"""What one core of this machine can do at most: multiply-adds in registers, and bytes read and copied.

Each is a kernel made by TVM that does that and nothing else, so that kernels can be measured against it in the same
run, when the machine is in the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import tvm
from tvm import tirx
from tvm.script import tirx as T

from vmkit.target import canonical_target
from vmkit.target.vectors import vector_unit

__all__ = ["copy", "multiply_adds", "read"]

_TARGET = canonical_target("native").primary
_LANES = vector_unit(_TARGET).lanes
# Enough chains of multiply-adds that one never waits for itself: a latency of at most 6 cycles, 2 units.
_CHAINS = 12


def multiply_adds(flops: float) -> Callable[[], None]:
    """Return a call that does about so many floating-point operations, all in registers, two a multiply-add.

    Chains that do not depend on each other keep the units busy: ``a[i] = a[i] * x + y`` for all i, again and again.
    """
    rounds = max(1, round(flops / (2 * _CHAINS * _LANES)))
    kernel, given = _fused_multiply_adds(), tvm.runtime.tensor(np.full(2 * _LANES, 0.5, "float32"))
    out = tvm.runtime.tensor(np.zeros(_CHAINS * _LANES, "float32"))
    return lambda: kernel(given, out, rounds)


def copy(size: float) -> Callable[[], None]:
    """Return a call that copies so many bytes, half of them read and half written."""
    count = _whole(size / 2)
    source, to = (tvm.runtime.tensor(np.ones(count, "float32")) for _ in range(2))
    kernel = _copy()
    return lambda: kernel(source, to)


def read(size: float) -> Callable[[], None]:
    """Return a call that reads so many bytes, and adds them up."""
    source = tvm.runtime.tensor(np.ones(_whole(size), "float32"))
    out = tvm.runtime.tensor(np.zeros(_CHAINS * _LANES, "float32"))
    kernel = _sum()
    return lambda: kernel(source, out)


def _whole(size: float) -> int:
    """Return how many numbers there are in so many bytes, a multiple of what one step of a kernel takes."""
    step = _CHAINS * _LANES
    return max(1, round(size / 4 / step)) * step


def _built(function: tirx.PrimFunc) -> Callable[..., None]:
    function = function.with_attrs({"global_symbol": "main", "tirx.noalias": True})
    mod = tvm.IRModule({"main": function})
    compiled: Callable[..., None] = tvm.compile(mod, _TARGET)["main"]
    return compiled


@cache
def _fused_multiply_adds() -> Callable[..., None]:
    chains, lanes = _CHAINS, _LANES

    @T.prim_func(private=True)
    def kernel(x: T.handle, o: T.handle, rounds: T.int64) -> None:
        given = T.match_buffer(x, (2 * lanes,), "float32")
        out = T.match_buffer(o, (chains * lanes,), "float32")
        total = T.alloc_buffer((chains * lanes,), "float32", scope="local", layout=None)
        for c in T.unroll(chains):
            for i in T.vectorized(lanes):
                total[c * lanes + i] = T.float32(0)
        for _ in T.serial(rounds):
            for c in T.unroll(chains):
                for i in T.vectorized(lanes):
                    total[c * lanes + i] = total[c * lanes + i] * given[i] + given[lanes + i]
        for c in T.unroll(chains):
            for i in T.vectorized(lanes):
                out[c * lanes + i] = total[c * lanes + i]

    return _built(kernel)


@cache
def _sum() -> Callable[..., None]:
    chains, lanes = _CHAINS, _LANES

    @T.prim_func(private=True)
    def kernel(x: T.handle, o: T.handle) -> None:
        n = T.int64()
        given = T.match_buffer(x, (n,), "float32")
        out = T.match_buffer(o, (chains * lanes,), "float32")
        total = T.alloc_buffer((chains * lanes,), "float32", scope="local", layout=None)
        for c in T.unroll(chains):
            for i in T.vectorized(lanes):
                total[c * lanes + i] = T.float32(0)
        for step in T.serial(n // (chains * lanes)):
            for c in T.unroll(chains):
                for i in T.vectorized(lanes):
                    total[c * lanes + i] = total[c * lanes + i] + given[step * (chains * lanes) + c * lanes + i]
        for c in T.unroll(chains):
            for i in T.vectorized(lanes):
                out[c * lanes + i] = total[c * lanes + i]

    return _built(kernel)


@cache
def _copy() -> Callable[..., None]:
    chains, lanes = _CHAINS, _LANES

    @T.prim_func(private=True)
    def kernel(x: T.handle, o: T.handle) -> None:
        n = T.int64()
        given = T.match_buffer(x, (n,), "float32")
        out = T.match_buffer(o, (n,), "float32")
        for step in T.serial(n // (chains * lanes)):
            for c in T.unroll(chains):
                for i in T.vectorized(lanes):
                    out[step * (chains * lanes) + c * lanes + i] = given[step * (chains * lanes) + c * lanes + i]

    return _built(kernel)
