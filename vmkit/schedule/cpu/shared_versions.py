"""Kernels of sizes that are known at run time only: cores share their work in calls that have enough of it.

Where the known axes alone are not worth sharing, as those of rows of a batch of any size, a call of few rows would wait
for the other cores, and one of many leaves them idle. So such a kernel is there twice, and its elements decide.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce
from operator import mul

import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from ...kernels.builder import PARALLEL_SIZE
from ...target.processor import processor_of
from ..blocks import extent, kernel_blocks
from ..rule import D

__all__ = ["is_shared", "shared_by_size"]

_ALONE = {"parallel": (False, True), "parallel_size": (PARALLEL_SIZE, 1)}
"""By the field of decisions that says it: what it is where a core works alone, and where all share the work."""


def shared_by_size(sch: s_tir.Schedule, target: Target, decisions: D) -> tuple[tirx.Expr, int, D] | None:
    """Return how many elements a kernel has, from how many on cores are to share them, and the decisions for that.

    None where decisions share the work already, where all sizes are known, and where there is one core.
    """
    names = [f.name for f in fields(decisions) if f.name in _ALONE]
    if processor_of(target).cores == 1 or not names or getattr(decisions, names[0]) != _ALONE[names[0]][0]:
        return None
    elements = _elements(sch)
    if elements is None:
        return None
    together: D = replace(decisions, **{names[0]: _ALONE[names[0]][1]})
    return elements, PARALLEL_SIZE, together


def is_shared(function: tirx.PrimFunc) -> bool:
    """Say whether cores share a loop of a scheduled kernel."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append))
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in found)


def _elements(sch: s_tir.Schedule) -> tirx.Expr | None:
    """Return how often the body of the largest block of a kernel runs; None where that is known, or reads data."""
    found: list[tuple[int, int, list[tirx.Expr]]] = []
    for block in kernel_blocks(sch):
        loops = sch.get_loops(block)
        sizes = [extent(sch, loop) for loop in loops]
        known = reduce(mul, [size for size in sizes if size is not None], 1)
        found.append((sizes.count(None), known, [sch.get(loop).extent for loop in loops]))
    unknown, _, extents = max(found, key=lambda each: each[:2])
    if not unknown:
        return None
    return reduce(mul, [size.astype("int64") for size in extents])
