"""Schedule rules for kernels on a CPU: how loops are ordered, tiled, vectorised and shared among cores.

A rule takes a schedule of one kernel, in which chains of elementwise blocks have been inlined, and says whether it
applies and with which decisions. :func:`schedule_kernels` tries them in order.
"""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ..._tvm import unchecked_schedule
from ...kernels.vector_math import with_vector_math
from ...kernels.vector_math.division import with_float_divisions
from ...relay.lower.repeated_kernels import Tell
from ...target.processor import processor_of
from ..blocks import is_empty, kernel_blocks
from ..inlining import inline_cheap_blocks
from ..rule import BY_RULE, CHOSEN, Choose, D, Rule, defaults
from . import (
    column_reduction,
    concatenation,
    contraction,
    dense,
    dot,
    elementwise,
    filled,
    full_reduction,
    implicit_gemm,
    leading_reduction,
    line_window,
    packed,
    peeled_window,
    piecewise,
    product,
    row_reduction,
    short_rows,
    transpose,
    window,
)
from .boundary_peeling import with_peeled_boundaries
from .byte_table import with_byte_table
from .chunks import with_chunks
from .concatenation import with_split_loops
from .contiguous_copy import with_contiguous_copies
from .exponents import with_exponents_below_maxima
from .line_parts import with_line_parts
from .overlap import with_overlaps
from .packed_products import with_packed_product
from .prefetch import with_prefetches
from .registers import with_registers
from .scalars import with_scalars_first
from .shared_versions import is_shared, shared_by_size
from .short_lines import with_short_lines
from .squares import with_squares
from .versions import by_size
from .wide_angles import with_wide_angles
from .widened_blocks import with_widened_blocks

__all__ = ["RULES", "prepared", "schedule_kernels", "scheduled"]

logger = logging.getLogger(__name__)

# The float32 of a vector from which floats are divided faster than integers one by one, and those than ones of 64 bits.
_DIVIDING, _DIVIDING_WIDE = 8, 16

# The most special first.
RULES: tuple[Rule[Any], ...] = (
    filled.RULE,
    dense.RULE,
    packed.RULE,
    product.RULE,
    implicit_gemm.RULE,
    leading_reduction.RULE,
    line_window.RULE,
    peeled_window.RULE,
    window.RULE,
    contraction.RULE,
    short_rows.RULE,
    dot.RULE,
    row_reduction.RULE,
    column_reduction.RULE,
    full_reduction.RULE,
    transpose.RULE,
    concatenation.RULE,
    piecewise.RULE,
    elementwise.RULE,
)


def schedule_kernels(
    mod: tvm.IRModule, target: Target, choose: Choose = defaults, is_short: bool = False, tell: Tell | None = None
) -> tvm.IRModule:
    """Return a module in which every kernel that is not scheduled yet is scheduled for a CPU.

    If `is_short`, kernels that can be written in less code, which runs for longer, are. `tell` is called with the name
    of each kernel and the kernel as soon as it is scheduled.
    """
    made = {}
    for gvar, function in mod.functions.items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        kernel = function
        if not function.attrs.get("tirx.is_scheduled", False):
            kernel = made[gvar] = _scheduled(gvar.name_hint, function, target, choose, is_short)
        if tell is not None:
            tell(gvar.name_hint, kernel)
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update(tvm.IRModule(made))
    return result


def prepared(function: tirx.PrimFunc) -> s_tir.Schedule | None:
    """Return the schedule of a kernel that rules decide on; None for loops that stay as they were written."""
    schedule = unchecked_schedule(with_exponents_below_maxima(function))
    if not kernel_blocks(schedule):
        return None
    inline_cheap_blocks(schedule)
    return schedule


def scheduled(
    plain: s_tir.Schedule, rule: Rule[D], target: Target, decisions: D, is_for_all_sizes: bool = False
) -> tirx.PrimFunc:
    """Return a prepared kernel as a rule schedules it with some decisions.

    If `is_for_all_sizes`, one whose sizes are known at run time only has versions that make it faster at some of them:
    it shares its work among cores where it is large.

    Raises
    ------
    ScheduleError
        If a primitive refuses the kernel's shape.
    """
    of_rule = rule.versions or (rule.spare_versions if is_for_all_sizes else None)
    versions = of_rule(plain, target, decisions) if of_rule is not None else None
    if versions is None:
        function = _applied(plain, rule, target, decisions)
        twice = shared_by_size(plain, target, decisions) if is_for_all_sizes else None
        if twice is not None:
            size, least, together = twice
            large = _applied(plain, rule, target, together)
            if is_shared(large) and not is_shared(function):
                function = by_size(plain.mod["main"], size, [(least, large), (0, function)])
    else:
        size, of_sizes = versions
        above = [None, *(least for least, _ in of_sizes)]
        made = [
            (least, _applied(plain, rule, target, each, _Sizes(size, least, stop)))
            for (least, each), stop in zip(of_sizes, above, strict=False)
        ]
        many = rule.largest(plain, target) if rule.largest is not None else None
        if many is not None:
            made = [many, *((least, version) for least, version in made if least < many[0])]
        function = by_size(plain.mod["main"], size, made)
    lanes = processor_of(target).vectors.lanes
    if lanes >= _DIVIDING:
        function = with_wide_angles(with_float_divisions(function, lanes >= _DIVIDING_WIDE))
    return with_vector_math(with_scalars_first(function)).with_attrs({"tirx.is_scheduled": True, BY_RULE: True})


@dataclass(frozen=True)
class _Sizes:
    """What a version of a kernel is for: a size that is known at run time only, from `least` on, and below `stop`."""

    size: tirx.Expr
    least: int
    stop: int | None

    def facts(self) -> Analyzer:
        """Return what is known where the version runs."""
        known = Analyzer()
        if isinstance(self.size, tirx.Var) and self.stop is not None:
            known.bind(self.size, tvm.ir.Range(self.least, self.stop))
        return known


def _applied(
    plain: s_tir.Schedule, rule: Rule[D], target: Target, decisions: D, sizes: _Sizes | None = None
) -> tirx.PrimFunc:
    schedule = plain.copy()
    schedule = rule.apply(schedule, target, decisions) or schedule
    whole = with_overlaps(schedule.mod["main"], *((sizes.size, sizes.least) if sizes is not None else ()))
    function = with_line_parts(with_short_lines(with_split_loops(with_squares(whole))))
    peeled = with_peeled_boundaries(function, None if sizes is None else sizes.facts())
    return with_registers(with_prefetches(with_widened_blocks(with_chunks(peeled))))


def _written_out(plain: s_tir.Schedule, target: Target, is_short: bool) -> tirx.PrimFunc | None:
    """Return a kernel that has loops and instructions of its own; None for one that rules schedule."""
    return (
        with_packed_product(plain.mod["main"], target, is_short)
        or with_byte_table(plain, target)
        or with_contiguous_copies(plain, target)
    )


def _scheduled(name: str, function: tirx.PrimFunc, target: Target, choose: Choose, is_short: bool) -> tirx.PrimFunc:
    plain = prepared(function)
    if plain is None:
        return function
    # A result without elements, and a sum of none, have nothing to be fast at: they keep their loops.
    nothing = is_empty(plain)
    written = None if nothing else _written_out(plain, target, is_short)
    if written is not None:
        return with_vector_math(written).with_attrs({"tirx.is_scheduled": True, BY_RULE: True, CHOSEN: "default"})
    for rule in (elementwise.RULE,) if nothing else RULES:
        default = rule.decide(plain, target)
        for how, decisions in choose(plain, rule, target, default) if default is not None else ():
            try:
                is_for_all_sizes = how == "default" and not is_short
                return scheduled(plain, rule, target, decisions, is_for_all_sizes).with_attr(CHOSEN, how)
            except s_tir.ScheduleError as error:
                # A primitive refused this kernel's shape; the loops as they are stay right, only slower.
                logger.debug("kernel %s: %s does not apply with %s: %s", name, rule.name, decisions, error)
    return function
