"""Operands whose sizes PyTorch knows to be equal, and Relax cannot prove to be.

Half of a size that was rounded up is another formula on each way to it, and a number that is read from a tensor is none
at all. PyTorch notes where it took two sizes for equal; the operands are cast to what it says the result is, which is
checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer, ConstIntBound

from ...relax.rewrite import variables_in
from .arguments import Importing, arguments_of
from .formulas import sizes_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["are_equal", "with_alike_sizes"]

_ELEMENTWISE = {
    "add", "addcdiv", "addcmul", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "cat", "copysign", "div", "eq",
    "fmod", "ge", "gt", "hypot", "le", "lerp", "logical_and", "logical_or", "logical_xor", "lt", "maximum", "minimum",
    "mul", "ne", "pow", "remainder", "rsub", "sub", "where",
}  # fmt: skip


def are_equal(own: list[Any], shape: list[Any]) -> bool:
    """Say whether two shapes are certainly equal, sizes being 0 or more."""
    analyzer = Analyzer()
    for size in {*shape}:
        if isinstance(size, tvm.ir.Var):
            analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    return len(own) == len(shape) and all(
        a is b or analyzer.can_prove_equal(a, b) for a, b in zip(own, shape, strict=True)
    )


@contextmanager
def with_alike_sizes(importer: Importing, node: fx.Node) -> Iterator[None]:
    """Let the operands of an elementwise operator, or of a concatenation, have the sizes of its result meanwhile."""
    name = str(node.target).split(".")[1] if "aten." in str(node.target) else ""
    value = node.meta.get("val")
    given = dict[Any, Any]()
    if name in _ELEMENTWISE and hasattr(value, "shape"):
        sizes = sizes_of(importer, cast("Any", value).shape)
        axis = arguments_of(node)[1] % max(len(sizes), 1) if name == "cat" else None
        for each in node.all_input_nodes:
            made = _cast(importer, each, sizes, axis)
            if made is not None:
                given[each] = importer.env[each]
                importer.env[each] = made
    try:
        yield
    finally:
        importer.env.update(given)


def _cast(importer: Importing, node: fx.Node, sizes: list[tirx.Expr | None], axis: int | None) -> relax.Expr | None:
    """Return an operand cast to the sizes of a result, but along an axis; None where it has them."""
    value = importer.env.get(node)
    if not isinstance(value, relax.Expr) or not isinstance(value.ty, relax.TensorType) or value.ty.shape is None:
        return None
    own = list(value.ty.shape)
    first = len(sizes) - len(own)
    if first < 0 or (axis is not None and first):
        return None
    known = importer.symbols.of(importer.env)
    wanted = list[tirx.Expr]()
    for at, size in enumerate(own):
        other = sizes[first + at]
        if at == axis or isinstance(size, tirx.IntImm) or other is None or are_equal([size], [other]):
            wanted.append(size)
            continue
        symbols = [var.name for var in variables_in(other) if isinstance(var, tvm.ir.Var)]
        is_known = all(name in known for name in symbols)
        wanted.append(tirx.Max(other, tirx.IntImm("int64", 0)) if is_known else size)
    if all(a is b for a, b in zip(own, wanted, strict=True)):
        return None
    return importer.block_builder.match_cast(value, relax.TensorType(wanted, value.ty.dtype))
