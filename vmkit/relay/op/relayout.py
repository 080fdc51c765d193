"""Tensors rearranged from one layout to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.types import TensorType, Type
from .attrs import Attrs, Str, attrs_node
from .elementwise import require_tensor
from .kernel import indexed
from .nn.layout import Layout
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.LayoutTransformAttrs")
class LayoutTransformAttrs(Attrs):
    """Attributes of layout_transform."""

    src_layout: Str
    dst_layout: Str


@operator(
    "layout_transform",
    "data",
    attrs=LayoutTransformAttrs,
    level=5,
    pattern=OpPattern.INJECTIVE,
    layout="layout_transform",
    moves=True,
)
class LayoutTransform:
    """The input rearranged from one layout to another, such as NCHW to NCHW16c; zeros fill up a last block."""

    @staticmethod
    def relation(attrs: LayoutTransformAttrs, data: Type) -> Type:
        value, source, target = require_tensor(data), Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
        if sorted(source.letters) != sorted(target.letters):
            raise TypeCheckError(f"{source.text!r} cannot become {target.text!r}: their axes differ")
        source.require(value, "data")
        return TensorType(target.shape(source.whole(value.shape), padded=True), value.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: LayoutTransformAttrs, data: relax.Expr) -> relax.Expr:
        source, target = Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
        source.require_at_run_time(context, context.shape(data), "data")
        have = source.whole(context.shape(data))
        shape = target.shape(have, padded=True)
        made = target.whole(shape)
        # Where the blocks of the target reach past the source, they hold zeros.
        filled = [letter for letter in source.letters if not dims.equal(have[letter], made[letter])]

        def element(index: tuple[tirx.Expr, ...], data: te.Tensor, sizes: list[tirx.Expr]) -> tirx.Expr:
            whole = target.position(index)
            value = data(*source.index(whole))
            if not filled:
                return value
            inside = [whole[letter] < size for letter, size in zip(filled, sizes, strict=True)]
            return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, str(data.dtype)))

        return indexed(context, shape, element, data, [dims.as_expr(have[letter]) for letter in filled])

    @staticmethod
    def on_arrays(attrs: LayoutTransformAttrs, data: np.ndarray) -> np.ndarray:
        source, target = Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
        have = source.whole(data.shape)
        made = target.whole(target.shape(have, padded=True))
        whole = data.transpose(source.by_letter()).reshape([have[letter] for letter in source.letters])
        if have != made:
            whole = np.pad(whole, [(0, made[letter] - have[letter]) for letter in source.letters])
        whole = whole.transpose([source.letters.index(letter) for letter in target.letters])
        order = target.by_letter()
        apart = whole.reshape([target.shape(made)[axis] for axis in order])
        return apart.transpose(np.argsort(order))
