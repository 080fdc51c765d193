"""How operators that a written kernel computes are lowered: to its call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax, tirx

from ...relay.ir import dims
from ...relay.ir.types import Dim
from ...relay.op.registry import OpPattern

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["call_kernel"]


def call_kernel(
    context: LowerContext,
    write: partial[tirx.PrimFunc],
    name: str,
    args: Sequence[relax.Expr],
    *results: Sequence[Dim],
    dtype: str = "float32",
) -> relax.Expr:
    """Return the call of a kernel that is fused with nothing.

    It gives numbers of a data type in a shape, or a tuple of such tensors for several.

    Parameters
    ----------
    write
        A function of numbers, of what holds numbers alone, and of encodings, that writes the kernel.
    """
    function = context.kernels.written(write, name, int(OpPattern.OPAQUE))
    types = [relax.TensorType([dims.as_expr(d) for d in result], dtype) for result in results]
    return context.emit(relax.call_tir(function, list(args), types if len(types) > 1 else types[0]))
