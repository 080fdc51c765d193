"""Parallel dense layers of the same data become one product of batches, or one wider layer."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Call, Dim, Expr, Tuple, TupleGetItem
from ..op.registry import build
from .known_type import type_of
from .parallel_branches import Combination, combined, same_but_axis, slices
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CombineParallelDense"]


@relay_pass(opt_level=4)
def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> ModuleTransform:
    """Return the pass that combines dense layers of the same data, and elementwise operators after them.

    Parameters
    ----------
    min_num_branches : int
        From how many branches on.
    to_batch : bool
        Whether layers of the same size become one ``nn.batch_matmul``; otherwise layers of any sizes become one
        ``nn.dense`` with all their units.
    """
    combination = _ToBatch() if to_batch else _Flat()
    return per_function(lambda function: combined(function, combination, min_num_branches))


def _is_dense(call: Call, rank: int | None) -> bool:
    data, weight = (type_of(a) for a in call.args)
    return isinstance(weight.shape[0], int) and (rank is None or len(data.shape) == rank)


class _Flat(Combination):
    name = "nn.dense"

    def may_begin(self, call: Call) -> bool:
        return _is_dense(call, None)

    def may_join(self, one: Call, other: Call) -> bool:
        return one.attrs.out_dtype == other.attrs.out_dtype and same_but_axis(one.args[1], other.args[1], 0)

    def begun(self, firsts: Sequence[Call]) -> Expr:
        one = firsts[0]
        weight = build("concatenate", Tuple([c.args[1] for c in firsts]), axis=0)
        units = sum(type_of(c.args[1]).shape[0] for c in firsts)
        return build("nn.dense", one.args[0], weight, units=units, out_dtype=one.attrs.out_dtype)

    def operand(self, operands: Sequence[Expr], calls: Sequence[Call]) -> Expr | None:
        if not all(_ends_with_units(call) and same_but_axis(operands[0], o, -1) for call, o in _pairs(calls, operands)):
            return None
        pairs = _pairs(calls, operands)
        widened = [w for c, o in pairs if (w := _widened(o, type_of(c).shape[-1])) is not None]
        if len(widened) != len(pairs):
            return None
        return build("concatenate", Tuple(widened), axis=max(0, len(type_of(operands[0]).shape) - 1))

    def parts(self, whole: Expr, calls: Sequence[Call]) -> list[Expr]:
        return slices(whole, calls, all_axes=True)


def _pairs(calls: Sequence[Call], operands: Sequence[Expr]) -> list[tuple[Call, Expr]]:
    return list(zip(calls, operands, strict=True))


def _ends_with_units(call: Call) -> bool:
    """Say whether the units are still the last axis: no axis was added after a layer."""
    while call.op.name != "nn.dense":
        if call.op.name == "expand_dims":
            return False
        call = next(a for a in call.args if isinstance(a, Call) and a.checked_type_ is not None)
    return True


def _widened(operand: Expr, units: Dim) -> Expr | None:
    """Return an operand whose last axis is as long as the units of its layer."""
    shape = list(type_of(operand).shape)
    if not shape:
        return build("repeat", build("expand_dims", operand, axis=-1), repeats=units, axis=0)
    if shape[-1] == units:
        return operand
    return build("repeat", operand, repeats=units, axis=len(shape) - 1) if shape[-1] == 1 else None


class _ToBatch(Combination):
    name = "nn.dense"

    def may_begin(self, call: Call) -> bool:
        return _is_dense(call, 2)

    def may_join(self, one: Call, other: Call) -> bool:
        a, b = type_of(one.args[1]), type_of(other.args[1])
        return (
            one.attrs.out_dtype == other.attrs.out_dtype
            and same_but_axis(one.args[1], other.args[1], 0)
            and (a.shape[0] == b.shape[0])
        )

    def begun(self, firsts: Sequence[Call]) -> Expr:
        data = build("stack", Tuple([c.args[0] for c in firsts]), axis=0)
        weight = build("stack", Tuple([c.args[1] for c in firsts]), axis=0)
        return build("nn.batch_matmul", data, weight, out_dtype=firsts[0].attrs.out_dtype)

    def operand(self, operands: Sequence[Expr], calls: Sequence[Call]) -> Expr | None:
        shapes = [list(type_of(o).shape) for o in operands]
        if len(shapes[0]) > 2 or any(type_of(c).shape[0] is None or len(type_of(c).shape) != 2 for c in calls):
            return None
        if any(s != shapes[0] or not all(isinstance(d, int) for d in s) for s in shapes):
            return None
        if any(type_of(o).dtype != type_of(operands[0]).dtype for o in operands):
            return None
        missing = 2 - len(shapes[0])
        matrices = [build("expand_dims", o, axis=0, num_newaxis=missing) if missing else o for o in operands]
        return build("stack", Tuple(matrices), axis=0)

    def parts(self, whole: Expr, calls: Sequence[Call]) -> list[Expr]:
        split = build("split", whole, len(calls)).astuple()
        return [build("squeeze", TupleGetItem(split, i), axis=[0]) for i in range(len(calls))]
