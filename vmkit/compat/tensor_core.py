"""``topi.nn.conv2d_legalize`` and its like: products padded to the sizes that CUDA's tensor cores take.

Scripts attach them to operators as ``FTVMLegalize``. As in TVM 0.14 they say nothing for other targets, where the
product is as large already, and where more than twice the work would be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from vmkit.relay.ir import Call, Expr, TensorType
from vmkit.relay.op import build
from vmkit.relay.op.attrs import Attrs
from vmkit.relay.op.nn.layout import Layout

__all__ = ["batch_matmul_legalize", "conv2d_legalize", "dense_legalize"]

Sizes = tuple[int, int, int]

# Rows, inner elements and columns of the product of two fragments, by data type.
_HALF = ((16, 16, 16), (32, 16, 8), (8, 16, 32))
_NIBBLE = ((8, 32, 8),)
_FRAGMENTS = {**dict.fromkeys(("float16", "int8", "uint8"), _HALF), **dict.fromkeys(("int4", "uint4"), _NIBBLE)}
# A convolution's rows are images; of some layouts and data types there is one kernel alone, or another.
_CONVOLUTION: dict[tuple[str, str], dict[str, tuple[Sizes, ...]]] = {
    ("NHWC", "HWIO"): dict.fromkeys(("float16", "int8", "uint8", "int4", "uint4"), _HALF),
    ("HWNC", "HWOI"): {
        **dict.fromkeys(("int8", "uint8"), ((8, 16, 32),)),
        **dict.fromkeys(("int4", "uint4"), _NIBBLE),
    },
}
_MOST_WORK = 2  # as much as the product itself, twice, may be added


def conv2d_legalize(attrs: Attrs, inputs: Sequence[Expr], arg_types: Sequence[TensorType]) -> Call | None:
    """Return a convolution with images, channels, or both padded, or None."""
    data, kernel = (_static(ty) for ty in arg_types[:2])
    values = _values(attrs)
    if not _is_cuda() or data is None or kernel is None or list(attrs.dilation) != [1, 1] or attrs.groups != 1:
        return None
    source, filters = Layout.of(attrs.data_layout), Layout.of(attrs.kernel_layout)
    dtype = arg_types[0].dtype
    if (source.text, filters.text) == ("NCHW", "OIHW") and dtype in ("int8", "uint8"):
        added = (0, -data[1] % 4, -kernel[0] % 4)
    else:
        fragments = _CONVOLUTION.get((source.text, filters.text), {}).get(dtype, ())
        sizes = data[source.text.index("N")], data[source.text.index("C")], kernel[filters.text.index("O")]
        added = _added(sizes, fragments)
    if not any(added):
        return None
    images, inner, outer = added
    padded = _padded(inputs[0], source.text, {"N": images, "C": inner})
    weight = _padded(inputs[1], filters.text, {"I": inner, "O": outer})
    if outer:
        values["channels"] = kernel[filters.text.index("O")] + outer
    made = build("nn.conv2d", padded, weight, **values)
    return _cut(made, arg_types[-1]) if images or outer else made


def dense_legalize(attrs: Attrs, inputs: Sequence[Expr], arg_types: Sequence[TensorType]) -> Call | None:
    """Return a product of two matrices with rows, inner elements and columns padded, or None."""
    data, weight = (_static(ty) for ty in arg_types[:2])
    if not _is_cuda() or data is None or weight is None or len(data) != 2:
        return None
    rows, inner, columns = added = _added((data[0], data[1], weight[0]), _FRAGMENTS.get(arg_types[0].dtype, ()))
    if not any(added):
        return None
    values = _values(attrs)
    if values["units"] is not None:
        values["units"] = weight[0] + columns
    x, w = _padded(inputs[0], "MK", {"M": rows, "K": inner}), _padded(inputs[1], "NK", {"N": columns, "K": inner})
    made = build("nn.dense", x, w, **values)
    return _cut(made, arg_types[-1]) if rows or columns else made


def batch_matmul_legalize(attrs: Attrs, inputs: Sequence[Expr], arg_types: Sequence[TensorType]) -> Call | None:
    """Return products of matrices with rows, inner elements and columns padded, or None."""
    a, b = (_static(ty) for ty in arg_types[:2])
    if not _is_cuda() or a is None or b is None:
        return None
    left, right = "BKM" if attrs.transpose_a else "BMK", "BNK" if attrs.transpose_b else "BKN"
    sizes = a[left.index("M")], a[left.index("K")], b[right.index("N")]
    rows, inner, columns = added = _added(sizes, _FRAGMENTS.get(arg_types[0].dtype, ()))
    if not any(added):
        return None
    x, y = _padded(inputs[0], left, {"M": rows, "K": inner}), _padded(inputs[1], right, {"N": columns, "K": inner})
    made = build("nn.batch_matmul", x, y, **_values(attrs))
    return _cut(made, arg_types[-1]) if rows or columns else made


def _is_cuda() -> bool:
    target = tvm.target.Target.current(allow_none=True)
    return target is not None and target.kind.name == "cuda"


def _values(attrs: Attrs) -> dict[str, Any]:
    return {f.name: getattr(attrs, f.name) for f in attrs.declared}


def _static(ty: TensorType) -> list[int] | None:
    shape = [int(d) for d in ty.shape if isinstance(d, int)]
    return shape if len(shape) == len(ty.shape) else None


def _added(sizes: Sizes, fragments: Sequence[Sizes]) -> Sizes:
    """Return how much is added to each size of a product so that fragments fill it with the least work."""
    if any(all(n % f == 0 for n, f in zip(sizes, each, strict=True)) for each in fragments):
        return 0, 0, 0
    rows, inner, columns = sizes
    best: tuple[float, Sizes] = (_MOST_WORK, (0, 0, 0))
    for m, k, n in fragments:
        more = -rows % m, -inner % k, -columns % n
        work = (rows + more[0]) * (inner + more[1]) * (columns + more[2]) / (rows * inner * columns) - 1
        if work < best[0] or (work == _MOST_WORK and not any(best[1])):
            best = work, more
    return best[1]


def _padded(tensor: Expr, axes: str, added: dict[str, int]) -> Expr:
    widths = [(0, added.get(axis, 0)) for axis in axes]
    return build("nn.pad", tensor, pad_width=widths) if any(w for _, w in widths) else tensor


def _cut(made: Call, ty: TensorType) -> Call:
    shape = [int(d) for d in ty.shape]
    return build("strided_slice", made, begin=[0] * len(shape), end=shape)
