"""Parallel products of batches of matrices with the same left side become one with all their columns."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Call, Expr, Tuple
from ..op.registry import build
from .known_type import type_of
from .parallel_branches import Combination, combined, same_but_axis, slices
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CombineParallelBatchMatmul"]


@relay_pass(opt_level=4)
def CombineParallelBatchMatmul(min_num_branches: int = 3) -> ModuleTransform:
    """Return the pass that combines ``nn.batch_matmul`` on the same data, and elementwise operators after them.

    Parameters
    ----------
    min_num_branches : int
        From how many branches on.
    """
    return per_function(lambda function: combined(function, _Products(), min_num_branches))


class _Products(Combination):
    name = "nn.batch_matmul"

    def may_begin(self, call: Call) -> bool:
        attrs = call.attrs
        return not attrs.transpose_a and bool(attrs.transpose_b) and isinstance(type_of(call.args[1]).shape[1], int)

    def may_join(self, one: Call, other: Call) -> bool:
        return one.attrs.out_dtype == other.attrs.out_dtype and same_but_axis(one.args[1], other.args[1], 1)

    def begun(self, firsts: Sequence[Call]) -> Expr:
        one = firsts[0]
        weight = build("concatenate", Tuple([c.args[1] for c in firsts]), axis=1)
        return build("nn.batch_matmul", one.args[0], weight, out_dtype=one.attrs.out_dtype)

    def operand(self, operands: Sequence[Expr], calls: Sequence[Call]) -> Expr | None:
        for operand, call in zip(operands, calls, strict=True):
            shape = list(type_of(operand).shape)
            if call.op.name == "expand_dims" or not shape or shape[-1] != type_of(call).shape[-1]:
                return None
            if len(type_of(call).shape) != 3 or not same_but_axis(operands[0], operand, -1):
                return None
        return build("concatenate", Tuple(list(operands)), axis=-1)

    def parts(self, whole: Expr, calls: Sequence[Call]) -> list[Expr]:
        return slices(whole, calls, all_axes=True)
