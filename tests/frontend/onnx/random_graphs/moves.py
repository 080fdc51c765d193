"""Nodes that move, choose and compare elements: exact where their inputs are."""

from __future__ import annotations

import numpy as np

from .graph import Graph, Value, template, window_fits

__all__: list[str] = []


@template
def transpose(g: Graph) -> None:
    x = g.pick(lambda v: v.rank > 0)
    g.add("Transpose", [x], exact=True, perm=[int(a) for a in g.random.permutation(x.rank)])


@template
def swap_last(g: Graph) -> None:
    x = g.floats(3, 4)
    perm = list(range(x.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    g.add("Transpose", [x], exact=True, perm=perm)


@template
def slices(g: Graph) -> None:
    x = g.pick(lambda v: v.rank > 0)
    axis = g.integer(0, x.rank - 1)
    step = g.choice([1, 1, 1, 2, -1, 3])
    least = min(a.shape[axis] for a in x.arrays)
    if step > 0:
        start, end = g.integer(-1, max(0, least - 1)), g.choice([2**31, -1, least])
    else:
        start, end = g.choice([-1, least - 1]), g.choice([-(2**31), 0])
    given = [g.constant([number], "int64") for number in (start, end, axis, step)]
    g.add("Slice", [x, *given], exact=True)


@template
def pad(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    mode = g.choice(["constant", "constant", "reflect", "edge", "wrap"])
    pads = np.zeros(2 * x.rank, int)
    for axis in range(x.rank):
        if g.chance(0.4):
            pads[axis], pads[axis + x.rank] = g.integer(0, 2), g.integer(0, 2)
    if mode == "constant" and g.chance(0.2):
        pads[g.integer(0, 2 * x.rank - 1)] = -1
    extra = [g.constant(np.float32(g.choice([0, 1.5, -2])))] if mode == "constant" and g.chance() else []
    g.add("Pad", [x, g.constant(pads, "int64"), *extra], exact=True, mode=mode)


@template
def concatenate(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4, 5)
    axis = g.integer(0, x.rank - 1)

    def fits(v: Value) -> bool:
        return (
            v.dtype == x.dtype
            and v.rank == x.rank
            and all(
                a.shape[:axis] + a.shape[axis + 1 :] == b.shape[:axis] + b.shape[axis + 1 :]
                for a, b in zip(v.arrays, x.arrays, strict=True)
            )
        )

    parts = [x] + [g.pick(fits) for _ in range(g.integer(1, 3))]
    g.add("Concat", parts, exact=True, axis=axis)


@template
def split(g: Graph) -> None:
    x = g.pick(lambda v: v.rank > 0 and any(v.shape[a] > 1 for a in v.fixed()))
    axis = g.choice([a for a in x.fixed() if x.shape[a] > 1])
    at = g.integer(1, x.shape[axis] - 1)
    g.add("Split", [x, g.constant([at, x.shape[axis] - at], "int64")], 2, exact=True, axis=axis)


@template
def flatten_or_merge(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    at = g.integer(0, x.rank - 2)
    target = [0] * x.rank
    target[at : at + 2] = [-1]
    target[at + 1 :] = [x.shape[a + 1] if x.is_fixed(a + 1) else -1 for a in range(at + 1, x.rank - 1)]
    g.add("Reshape", [x, g.constant(target, "int64")], exact=True)


@template
def split_axis(g: Graph) -> None:
    x = g.pick(lambda v: 0 < v.rank < 5)
    axis = g.choice([a for a in x.fixed() if x.shape[a] % 2 == 0 and x.shape[a]])
    target = [0] * axis + [2, x.shape[axis] // 2]
    rest = [x.shape[a] if x.is_fixed(a) else -1 for a in range(axis + 1, x.rank)]
    if axis == 0 and g.chance():
        target[0] = -1
    g.add("Reshape", [x, g.constant(target + rest, "int64")], exact=True)


@template
def reshape_by_shape(g: Graph) -> None:
    """A reshape to a shape that the graph computes of another value's sizes, as exporters write it."""
    x = g.floats(3, 4)
    (shape,) = g.add("Shape", [x], exact=True)
    (first,) = g.add("Gather", [shape, g.constant([0], "int64")], exact=True, axis=0)
    (target,) = g.add("Concat", [first, g.constant([-1], "int64")], exact=True, axis=0)
    g.add("Reshape", [x, target], exact=True)


@template
def unsqueeze(g: Graph) -> None:
    x = g.pick(lambda v: v.rank < 5)
    g.add("Unsqueeze", [x, g.constant([g.integer(0, x.rank)], "int64")], exact=True)


@template
def squeeze(g: Graph) -> None:
    x = g.pick(lambda v: any(v.shape[a] == 1 for a in v.fixed()))
    g.add("Squeeze", [x, g.constant([g.choice([a for a in x.fixed() if x.shape[a] == 1])], "int64")], exact=True)


@template
def expand(g: Graph) -> None:
    x = g.pick(lambda v: 1 in v.shape)
    target = [g.integer(2, 4) if x.shape[a] == 1 and x.is_fixed(a) and g.chance() else 1 for a in range(x.rank)]
    g.add("Expand", [x, g.constant(target, "int64")], exact=True)


@template
def tile(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4)
    g.add("Tile", [x, g.constant([g.choice([1, 1, 1, 2, 3]) for _ in range(x.rank)], "int64")], exact=True)


@template
def gather(g: Graph) -> None:
    x = g.pick(lambda v: v.rank > 0 and bool(v.fixed()))
    axis = g.choice(x.fixed())
    size = x.shape[axis]
    indices = g.choice([g.integer(-size, size - 1), [0, size - 1, 0], [[0, -1], [-1, 0]]])
    g.add("Gather", [x, g.constant(indices, "int64")], exact=True, axis=axis)


@template
def depth_to_space(g: Graph) -> None:
    x = g.floats(4)
    if g.chance() and x.shape[1] % 4 == 0:
        g.add("DepthToSpace", [x], exact=True, blocksize=2, mode=g.choice(["DCR", "CRD"]))
    else:
        g.add("SpaceToDepth", [x], exact=True, blocksize=2)


@template
def nearest(g: Graph) -> None:
    x = g.floats(4)
    scales = g.constant([1, 1, g.choice([2, 0.5, 3]), g.choice([2, 0.5, 1])], "float32")
    g.add(
        "Resize",
        [x, "", scales],
        exact=True,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@template
def one_operand(g: Graph) -> None:
    g.add(g.choice(["Relu", "Neg", "Abs", "Identity", "Sign"]), [g.floats()], exact=True)


@template
def clip(g: Graph) -> None:
    low, high = g.constant(np.float32(-0.7)), g.constant(np.float32(0.9))
    g.add("Clip", [g.floats(), *g.choice([(low, high), (low,), ("", high)])], exact=True)


@template
def rounded(g: Graph) -> None:
    g.add(g.choice(["Floor", "Ceil", "Round"]), [g.floats(exact=True)], exact=True)


@template
def largest(g: Graph) -> None:
    x = g.floats()
    g.add(g.choice(["Max", "Min"]), [x, g.choice([g.constant(np.float32(0.3)), g.floats()])], exact=True)


@template
def extreme_of_axes(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    axes = sorted({g.integer(0, x.rank - 1) for _ in range(g.integer(1, 2))})
    g.add(g.choice(["ReduceMax", "ReduceMin"]), [x, g.constant(axes, "int64")], exact=True, keepdims=g.integer(0, 1))


@template
def index_of_extreme(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4, exact=True)
    g.add(
        g.choice(["ArgMax", "ArgMin"]),
        [x],
        exact=True,
        axis=g.integer(0, x.rank - 1),
        keepdims=g.integer(0, 1),
        select_last_index=g.integer(0, 1),
    )


@template
def largest_few(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4, exact=True)
    axis = g.choice([a for a in range(x.rank) if min(v.shape[a] for v in x.arrays) > 1])
    g.add("TopK", [x, g.constant([g.integer(1, 2)], "int64")], 2, exact=True, axis=axis, largest=g.integer(0, 1))


@template
def maximum_pool(g: Graph) -> None:
    x = g.floats(4)
    window = g.choice([[2, 2], [3, 3], [3, 2], [1, 3]])
    pads = g.choice([[0, 0, 0, 0], [int(n > 1) for n in (*window, *window)], [0, 0, int(window[0] > 1), 1]])
    if not window_fits(x, window, pads):
        return
    strides = g.choice([[1, 1], [2, 2], [2, 1]])
    g.add("MaxPool", [x], exact=True, kernel_shape=window, strides=strides, pads=pads, ceil_mode=g.integer(0, 1))


@template
def compared(g: Graph) -> None:
    x = g.floats(exact=True)
    (mask,) = g.add(g.choice(["Greater", "Less", "LessOrEqual"]), [x, g.constant(np.float32(0.1))], exact=True)
    if g.chance():
        (mask,) = g.add("Not", [mask], exact=True)
    g.add("Where", [mask, x, g.choice([g.constant(np.float32(-1.5)), g.floats()])], exact=True)


@template
def whole_numbers(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype == "int64" and v.rank > 0)
    if g.chance():
        g.add(g.choice(["Add", "Mul", "Sub"]), [x, g.constant(g.integer(1, 3), "int64")], exact=True)
    else:
        g.add("Mod", [x, g.constant(g.integer(2, 5), "int64")], exact=True)


@template
def to_float(g: Graph) -> None:
    g.add("Cast", [g.pick(lambda v: v.dtype in ("int64", "bool"))], exact=True, to=1)


@template
def rows_of_ids(g: Graph) -> None:
    """An embedding: rows of a table by numbers that the model is given or computes."""
    (ids,) = g.add("Mod", [g.pick(lambda v: v.dtype == "int64"), g.constant(7, "int64")], exact=True)
    g.add("Gather", [g.weight(7, g.choice([4, 16, 6])), ids], exact=True)


@template
def upper_triangle(g: Graph) -> None:
    g.add("Trilu", [g.floats(2, 3, 4)], exact=True, upper=g.integer(0, 1))


@template
def scattered(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    least = min(a.shape[0] for a in x.arrays)
    if not all(x.is_fixed(a) for a in range(1, x.rank)):
        return
    indices = g.constant([[g.integer(0, least - 1)]], "int64")
    updates = g.constant(g.random.normal(size=(1, *x.shape[1:])), "float32")
    g.add("ScatterND", [x, indices, updates], exact=True)
