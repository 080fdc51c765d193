"""What a tuning record is of: a kernel as its schedule rule sees it, whatever it is called."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, Var

from .._dataclasses import dataclass
from ..kernels.vector_math import is_up_to_one
from ..schedule.blocks import is_reduction, kernel_blocks
from ..schedule.expressions import known
from ..schedule.rule import Rule
from ..values.halves import HALVES

__all__ = ["Axis", "Workload", "workload_of"]

Axis = tuple[str, int | None]
"""Its kind, ``spatial`` or ``reduction``, and its size, None where that is known only at run time."""

_SPATIAL = "spatial"
# What rules were called in records of vmkit 0.1.
_RENAMED = {
    "edges": "peeled_window",
    "joined": "concatenation",
    "pieces": "piecewise",
    "rows": "row_reduction",
    "total": "full_reduction",
}
_UNKNOWN = 1.0  # how far a number of images that is known at run time only is from any other


@dataclass(frozen=True)
class Workload:
    """A kernel's key. Kernels of equal keys take the same decisions.

    Attributes
    ----------
    rule : str
        The name of the schedule rule.
    dtype : str
        What the main block computes: the reduction, or the last block where there are several or none.
    axes : tuple of Axis
        Its axes, outermost first.
    reads : tuple of str
        How its operands are read, by axes ``i0``, ``i1`` and so on: strides, dilations and packed blocks stand there,
        and the type of floats that are widened as they are read.
    fused : tuple of str
        The operations in the other blocks, sorted.
    stages : int
        How many blocks there are.
    """

    rule: str
    dtype: str
    axes: tuple[Axis, ...]
    reads: tuple[str, ...]
    fused: tuple[str, ...]
    stages: int

    def to_json(self) -> dict[str, Any]:
        """Return the workload as a JSON object."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Workload:
        """Return the workload of a JSON object; KeyError, TypeError or ValueError where it is none."""
        axes = tuple((str(kind), None if size is None else int(size)) for kind, size in data["axes"])
        reads, fused = (tuple(map(str, data[name])) for name in ("reads", "fused"))
        rule = str(data["rule"])
        return cls(_RENAMED.get(rule, rule), str(data["dtype"]), axes, reads, fused, int(data["stages"]))

    def distance(self, other: Workload) -> float | None:
        """Return how far the sizes of two kernels of one form are apart, in powers of two added up over the axes.

        None where the forms differ: another rule, dtype, kind of axis or way of reading, or a size that one knows and
        the other does not, unless it is this one's number of images: decisions are about the positions within one, and
        unknown counts as far as twice as many. What is fused does not matter.
        """
        if (self.rule, self.dtype, self.reads) != (other.rule, other.dtype, other.reads):
            return None
        if [kind for kind, _ in self.axes] != [kind for kind, _ in other.axes]:
            return None
        total, axes = 0.0, list(zip(self.axes, other.axes, strict=True))
        if self._is_of_any_images and other.axes[0][1] is not None:
            total, axes = _UNKNOWN, axes[1:]
        for (_, mine), (_, theirs) in axes:
            if (mine is None) != (theirs is None):
                return None
            if mine is not None and theirs is not None and mine != theirs:
                if not (mine and theirs):
                    return None
                total += abs(math.log2(mine / theirs))
        return total

    @property
    def _is_of_any_images(self) -> bool:
        """Whether the first axis has an unknown size and, as others of many positions follow, is not cut in tiles."""
        spatial = [size for kind, size in self.axes if kind == _SPATIAL]
        return self.axes[:1] == ((_SPATIAL, None),) and any(size is not None and size > 1 for size in spatial[1:-1])


def workload_of(sch: s_tir.Schedule, rule: Rule[Any]) -> Workload:
    """Return the key of a kernel that a rule applies to and has not scheduled yet."""
    blocks = kernel_blocks(sch)
    reductions = [block for block in blocks if is_reduction(sch, block)]
    main = reductions[0] if len(reductions) == 1 else blocks[-1]
    node = sch.get(main)
    others = [sch.get(block).body for block in blocks if not sch.get(block).same_as(node)]
    axes = tuple((_kind(v), known(v.dom.extent)) for v in node.iter_vars)
    dtype = str(node.writes[0].source.ty.dtype) if node.writes else ""  # loops of other code do not say what they write
    return Workload(rule.name, dtype, axes, _reads(node), _operations(others), len(blocks))


def _kind(var: tirx.IterVar) -> str:
    return "reduction" if var.iter_type == tirx.IterVar.CommReduce else _SPATIAL


def _reads(node: s_tir.SBlock) -> tuple[str, ...]:
    """Return the indices of each operand as text, in which axes are numbered and unknown sizes are ``?``."""
    names = {v.var.name: (v.var, f"i{at}") for at, v in enumerate(node.iter_vars)}

    def renamed(var: Var) -> Var:
        axis, name = names.get(var.name, (None, "?"))
        return tirx.Var(name if axis is not None and var.same_as(axis) else "unknown", var.ty)

    texts = []
    for region in node.reads:
        indices = [tvm_ffi.structural_map(r.min, (Var, renamed)) for r in region.region]
        text = ", ".join(re.sub(r"T\.int64\((-?\d+)\)", r"\1", " ".join(str(i).split())) for i in indices)
        dtype = str(region.source.ty.dtype)
        is_widened = dtype in HALVES and dtype != str(node.writes[0].source.ty.dtype)
        texts.append(f"{text}: {dtype}" if is_widened else text)
    return tuple(texts)


def _operations(bodies: list[tirx.Stmt]) -> tuple[str, ...]:
    found: set[str] = set()

    def operator(call: Call) -> None:
        # What is known of the argument of an exponential makes no other kernel of it.
        name = "exp" if is_up_to_one(call) else str(getattr(call.op, "name", "call"))
        found.add(name.removeprefix("tirx."))

    def arithmetic(expr: tirx.Expr) -> None:
        found.add(type(expr).__name__.lower())

    for body in bodies:
        value = getattr(body, "value", body)
        tvm_ffi.structural_walk(value, (Call, operator))
        for kind in (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tirx.Select):
            tvm_ffi.structural_walk(value, (kind, arithmetic))
    return tuple(sorted(found))
