"""Nodes whose sizes, indices or trip counts the graph computes of its data and its sizes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .graph import Graph, Value, template

__all__: list[str] = []


def _size(g: Graph, x: Value, axis: int) -> Value:
    """Return the size of an axis as a vector of one number."""
    (shape,) = g.add("Shape", [x], exact=True)
    (size,) = g.add("Gather", [shape, g.constant([axis], "int64")], exact=True, axis=0)
    return size


@template
def slice_to_a_computed_end(g: Graph) -> None:
    x = g.pick(lambda v: v.rank > 0)
    axis = g.integer(0, x.rank - 1)
    size = _size(g, x, axis)
    (end,) = g.add(g.choice(["Sub", "Div"]), [size, g.constant([g.integer(1, 2)], "int64")], exact=True)
    g.add("Slice", [x, g.constant([0], "int64"), end, g.constant([axis], "int64")], exact=True)


@template
def filled(g: Graph) -> None:
    """A tensor of one number in another's shape, added to it."""
    x = g.floats()
    (shape,) = g.add("Shape", [x], exact=True)
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [g.choice([0.0, 1.5])])
    (made,) = g.add("ConstantOfShape", [shape], exact=True, value=value)
    g.add("Add", [x, made])


@template
def positions(g: Graph) -> None:
    """The numbers of an axis, as embeddings of positions and masks are made of."""
    x = g.floats(2, 3)
    (size,) = g.add("Squeeze", [_size(g, x, 1), g.constant([0], "int64")], exact=True)
    zero, one = g.constant(0, "int64"), g.constant(1, "int64")
    (numbers,) = g.add("Range", [zero, size, one], exact=True)
    if g.chance():
        (rows,) = g.add("Unsqueeze", [numbers, g.constant([1], "int64")], exact=True)
        (mask,) = g.add("GreaterOrEqual", [rows, numbers], exact=True)
        g.add("Cast", [mask], exact=True, to=TensorProto.FLOAT)
    else:
        (few,) = g.add("Mod", [numbers, g.constant(5, "int64")], exact=True)
        g.add("Gather", [g.weight(5, 4), few], exact=True)


@template
def masked(g: Graph) -> None:
    x = g.floats(2, 3, exact=True)
    (mask,) = g.add("Greater", [x, g.constant(np.float32(0))], exact=True)
    (count,) = g.add("Cast", [mask], exact=True, to=TensorProto.INT64)
    g.add("ReduceSum", [count, g.constant([-1], "int64")], exact=True, keepdims=g.integer(0, 1))


@template
def expanded_like(g: Graph) -> None:
    x, like = g.floats(), g.floats()
    (shape,) = g.add("Shape", [like], exact=True)
    g.add("Expand", [x, shape], exact=True)


@template
def resized_like(g: Graph) -> None:
    x, like = g.floats(4), g.floats(4)
    (shape,) = g.add("Shape", [x], exact=True, start=0, end=2)
    (wanted,) = g.add("Shape", [like], exact=True, start=2, end=4)
    (sizes,) = g.add("Concat", [shape, wanted], exact=True, axis=0)
    if g.chance():
        g.add("Resize", [x, "", "", sizes], exact=True, mode="nearest", coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")  # fmt: skip
    else:
        g.add("Resize", [x, "", "", sizes], mode="linear", coordinate_transformation_mode="half_pixel")


@template
def places(g: Graph) -> None:
    """Where numbers are, of which there are as many as the data have."""
    x = g.floats(1, 2, 3, exact=True)
    (mask,) = g.add("Greater", [x, g.constant(np.float32(0.2))], exact=True)
    if g.chance():
        (found,) = g.add("NonZero", [mask], exact=True)
        (rows,) = g.add("Transpose", [found], exact=True, perm=[1, 0])
        g.add("GatherND", [x, rows], exact=True)
    else:
        (flat,) = g.add("Reshape", [mask, g.constant([-1], "int64")], exact=True)
        g.add("Compress", [x, flat], exact=True)


@template
def gathered_elements(g: Graph) -> None:
    x = g.floats(2, 3, exact=True)
    axis = x.rank - 1
    (indices,) = g.add("ArgMax", [x], exact=True, axis=axis, keepdims=1)
    if g.chance():
        g.add("GatherElements", [x, indices], exact=True, axis=axis)
    else:
        (updates,) = g.add("ReduceMin", [x, g.constant([axis], "int64")], exact=True, keepdims=1)
        g.add("ScatterElements", [x, indices, updates], exact=True, axis=axis)


@template
def one_of_several(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype == "int64")
    (few,) = g.add("Mod", [x, g.constant(4, "int64")], exact=True)
    g.add("OneHot", [few, g.constant(4, "int64"), g.constant([0, 1], "float32")], exact=True, axis=g.choice([-1, 0]))


@template
def rolled(g: Graph) -> None:
    """The first of an axis moved to its end."""
    x = g.floats(2, 3, 4)
    axis = g.integer(0, x.rank - 1)
    first, rest = (
        g.add("Slice", [x, *(g.constant([n], "int64") for n in (start, end, axis))], exact=True)[0]
        for start, end in ((0, 1), (1, 2**31))
    )
    g.add("Concat", [rest, first], exact=True, axis=axis)


@template
def scan(g: Graph) -> None:
    """Running products with a curve along the first axis, the state of the rank below."""
    x = g.floats(3)
    prefix = f"s{len(g.nodes)}"
    (start,) = g.add("ReduceMean", [x, g.constant([0], "int64")], keepdims=0)
    state, row, total, new, out = (f"{prefix}_{part}" for part in ("state", "row", "total", "new", "out"))
    of_any = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (state, row, new, out)]
    body = helper.make_graph(
        [
            helper.make_node("Add", [state, row], [total]),
            helper.make_node("Tanh", [total], [new]),
            helper.make_node("Identity", [new], [out]),
        ],
        prefix,
        of_any[:2],
        of_any[2:],
    )
    g.add("Scan", [start, x], 2, num_scan_inputs=1, body=body)


@template
def padded_to_even(g: Graph) -> None:
    """Zeros behind an axis until its size is even, as networks that halve pictures are fed."""
    x = g.floats(4)
    (odd,) = g.add("Mod", [_size(g, x, 3), g.constant([2], "int64")], exact=True)
    zeros = g.constant([0] * 7, "int64")
    (pads,) = g.add("Concat", [zeros, odd], exact=True, axis=0)
    g.add("Pad", [x, pads], exact=True)
