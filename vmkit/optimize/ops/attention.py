"""Attention as one operator: what FuseAttention makes of two products of batches with a softmax between them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...relay.ir import dims
from ...relay.ir.types import Dim, TensorType, Type
from ...relay.op.attrs import Attrs, Float, Int, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from ...relay.op.registry import OpPattern, operator
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.AttentionAttrs")
class AttentionAttrs(Attrs):
    """Attributes of nn.contrib_attention.

    heads is how many matrices share an element of the mask's first axis, lanes how many float32 a vector has, nothing
    what a row gives whose columns are all left out: ``"nan"``, ``"zero"``, ``"zero if masked"`` for zeros where it is
    the mask that leaves them out, or ``"zero or nan"`` for zeros wherever the weights are NaN.
    """

    scale: Float = 1.0
    heads: Int = 1
    lanes: Int = 16
    nothing: Str = "nan"


@operator(
    "nn.contrib_attention",
    "query",
    "key",
    "value",
    "mask",
    attrs=AttentionAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class Attention:
    """``softmax(query @ key^T * scale + mask) @ value`` for each of a batch of matrices, on a CPU in float32.

    query is (count, rows, inner), key (count, columns, inner), value (count, columns, width); mask has the axes count /
    heads, heads, rows and columns, any of them 1. inner and width are multiples of lanes.
    """

    @staticmethod
    def relation(attrs: AttentionAttrs, query: Type, key: Type, value: Type, mask: Type) -> Type:
        named = {"query": query, "key": key, "value": value, "mask": mask}
        tensors = {name: require_tensor(ty, name) for name, ty in named.items()}
        for name, tensor in tensors.items():
            require_rank(tensor, 4 if name == "mask" else 3, name)
            if tensor.dtype != "float32":
                raise TypeCheckError(f"{name} must be float32, not {tensor.dtype}")
        q, k, v = (list(tensors[name].shape) for name in ("query", "key", "value"))
        for what, a, b in (("inner", q[2], k[2]), ("batch", q[0], k[0]), ("batch", k[0], v[0]), ("key", k[1], v[1])):
            if dims.equal(a, b) is False:
                raise TypeCheckError(f"the {what} dimensions differ: {a} and {b}")
        for size in (k[2], v[2]):
            if not isinstance(size, int) or size < 1 or size % attrs.lanes:
                raise TypeCheckError(f"keys and values must have known multiples of {attrs.lanes} elements, not {size}")
        return TensorType([q[0], q[1], v[2]], "float32")

    @staticmethod
    def lower(
        context: LowerContext,
        attrs: AttentionAttrs,
        query: relax.Expr,
        key: relax.Expr,
        value: relax.Expr,
        mask: relax.Expr,
    ) -> relax.Expr:
        from ...kernels.attention import AttentionShape, attention

        q, k, v, m = (context.shape(each) for each in (query, key, value, mask))
        for a, b in ((k[0], q[0]), (v[0], q[0]), (k[2], q[2]), (v[1], k[1])):
            context.require_equal(
                a, b, "nn.contrib_attention: a dimension is {actual} in one input and {expected} in another"
            )
        whole = _mask_axes(context, attrs, m, [dims.floordiv(q[0], attrs.heads), attrs.heads, q[1], k[1]])
        shape = AttentionShape(
            inner=int(k[2]),
            width=int(v[2]),
            heads=attrs.heads,
            scale=attrs.scale,
            mask=whole,
            is_one_row=dims.equal(q[1], 1) is True,
            lanes=attrs.lanes,
            nothing=attrs.nothing,
        )
        return call_kernel(
            context, partial(attention, shape), "attention", [query, key, value, mask], [q[0], q[1], v[2]]
        )


def _mask_axes(
    context: LowerContext, attrs: AttentionAttrs, have: list[Dim], want: list[Dim]
) -> tuple[bool, bool, bool, bool]:
    """Return which axes of the mask are as large as the scores, checked when run where they may be 1."""
    for size, full in zip(have, want, strict=True):
        if dims.equal(size, 1) is not True:
            context.require_equal(
                size, full, "nn.contrib_attention: the mask has {actual} where the scores have {expected}"
            )
    first, second, third, fourth = (dims.equal(size, 1) is not True for size in have)
    return first, second, third, fourth
