"""A call of every operator that has a gradient, to compare it with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vmkit import relay

__all__ = ["CASES", "Case", "V"]

op = relay.op
INT = np.array([[2, 0], [1, 2]], "int32")


def indices(*shape: int) -> relay.Constant:
    return relay.const(np.resize(INT, shape))


class Case:
    """A call of an operator on random numbers between two bounds."""

    def __init__(self, build: Callable[..., Any], *shapes: tuple[int, ...], low: float = 0.2, high: float = 0.9):
        self.build, self.shapes, self.low, self.high = build, shapes, low, high

    def function(self) -> relay.Function:
        params = [relay.var(f"x{i}", shape=shape, dtype="float64") for i, shape in enumerate(self.shapes)]
        result = self.build(*params)
        weights = np.random.default_rng(3)
        typed = relay.transform.infer_expr(relay.Function(params, result)).ret_type
        # Weighted, so that a gradient that is spread wrongly is seen.
        scale = relay.const(weights.uniform(0.5, 1.5, [int(d) for d in typed.shape]))
        return relay.Function(params, result * scale)

    def inputs(self) -> list[np.ndarray]:
        generator = np.random.default_rng(7)
        return [generator.uniform(self.low, self.high, shape) for shape in self.shapes]


V = (3, 4)
SLICE = ([1, 0], [3, 4], [1, 2])
SMOOTH = (
    *("abs", "acos", "asin", "asinh", "atan", "atanh", "copy", "cos", "cosh", "erf", "exp", "log", "log10", "log2"),
    *("negative", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
STEPS = ("ceil", "floor", "ones_like", "round", "sign", "trunc", "zeros_like")
IMAGE = (2, 4, 6, 5)
CASES: dict[str, list[Case]] = {
    **{name: [Case(getattr(op, name), V)] for name in (*SMOOTH, *STEPS)},
    "acosh": [Case(op.acosh, V, low=1.2, high=2.0)],
    **{
        name: [Case(getattr(op, name), V, V), Case(getattr(op, name), (3, 1), (4,)), Case(getattr(op, name), (), V)]
        for name in ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]
    },
    **{
        name: [Case(getattr(op, name), V, (4,), low=0.3, high=3.7)]
        for name in ["floor_divide", "trunc_divide", "floor_mod", "mod", "trunc_mod"]
    },
    "where": [Case(lambda a, b: op.where(op.greater(a, b), a * a, b), V, (4,))],
    "clip": [Case(lambda x: op.clip(x, 0.4, 0.6), V)],
    "cast": [Case(lambda x: op.cast(op.cast(x * x, "float64"), "float64"), V)],
    "cast_like": [Case(lambda x, y: op.cast_like(x * x, y), V, V)],
    "full_like": [Case(lambda x, v: op.full_like(x, v * v), V, ())],
    "annotation.checkpoint": [Case(relay.annotation.checkpoint, V)],
    "annotation.stop_fusion": [Case(relay.annotation.stop_fusion, V)],
    "nn.relu": [Case(lambda x: relay.nn.relu(x - relay.const(0.5, "float64")), V)],
    "nn.leaky_relu": [Case(lambda x: relay.nn.leaky_relu(x - relay.const(0.5, "float64"), 0.3), V)],
    "nn.prelu": [
        Case(lambda x, a: relay.nn.prelu(x - relay.const(0.5, "float64"), a), (2, 3, 4), (3,)),
        Case(lambda x, a: relay.nn.prelu(x - relay.const(0.5, "float64"), a, axis=-1), (2, 3, 4), (4,)),
    ],
    **{
        name: [
            Case(getattr(op, name), V),
            Case(partial(getattr(op, name), axis=1), (2, 3, 4)),
            Case(partial(getattr(op, name), axis=[-1, 0], keepdims=True), (2, 3, 4)),
            Case(partial(getattr(op, name), axis=1, exclude=True), (2, 3, 4)),
        ]
        for name in ("sum", "mean", "max", "min", "prod")
    },
    "variance": [
        Case(lambda x: op.variance(x, axis=1), V),
        Case(lambda x: op.variance(x, axis=0, keepdims=True, unbiased=True), V),
        Case(lambda x: op.std(x, axis=[0, 1]), V),
    ],
    "cumsum": [
        Case(lambda x: op.cumsum(x * x), V),
        Case(lambda x: op.cumsum(x, axis=1, exclusive=True), V),
    ],
    "reshape": [Case(lambda x: op.reshape(x * x, (2, -1)), V)],
    "reshape_like": [Case(lambda x, y: op.reshape_like(x, y) * y, V, (2, 6))],
    "dyn.reshape": [Case(lambda x, y: op.reshape(x * x, op.shape_of(y)) * y, V, (2, 6))],
    "contrib_reverse_reshape": [Case(lambda x: relay.reverse_reshape(x * x, (2, -1)), V)],
    "expand_dims": [Case(lambda x: op.expand_dims(x * x, 1, 2), V)],
    "squeeze": [Case(lambda x: op.squeeze(x * x, axis=[1]), (3, 1, 4))],
    "nn.batch_flatten": [Case(lambda x: relay.nn.batch_flatten(x * x), (2, 3, 4))],
    "broadcast_to": [Case(lambda x: op.broadcast_to(x * x, (2, 3, 4)), (3, 1))],
    "broadcast_to_like": [Case(lambda x, y: op.broadcast_to_like(x, y) * y, (3, 1), (2, 3, 4))],
    "collapse_sum_like": [Case(lambda x, y: op.collapse_sum_like(x, y) * y, (2, 3, 4), (3, 1))],
    "collapse_sum_to": [Case(lambda x: op.collapse_sum_to(x * x, (3, 1)), (2, 3, 4))],
    "transpose": [
        Case(lambda x: op.transpose(x * x), (2, 3, 4)),
        Case(lambda x: op.transpose(x, (1, -1, 0)), (2, 3, 4)),
    ],
    "reverse": [Case(lambda x: op.reverse(x * x, axis=1), V)],
    "layout_transform": [Case(lambda x: op.layout_transform(x * x, "NCHW", "NCHW2c"), IMAGE)],
    "tile": [Case(lambda x: op.tile(x * x, (2, 1, 3)), V), Case(lambda x: op.tile(x, (2,)), V)],
    "repeat": [Case(lambda x: op.repeat(x * x, 2, 1), V), Case(lambda x: op.repeat(x, 3, -2), V)],
    "concatenate": [Case(lambda a, b: op.concatenate([a * a, b, a], axis=-1), V, (3, 2))],
    "stack": [Case(lambda a, b: op.stack([a * a, b, a], axis=-1), V, V)],
    "split": [
        Case(lambda x: (lambda parts: parts[0] * parts[1])(op.split(x, 2, axis=1)), V),
        Case(lambda x: op.split(x, [1, 3], axis=1)[1], V),
    ],
    "strided_slice": [
        Case(lambda x: op.strided_slice(x * x, [1, 0], [3, 4], [1, 2]), V),
        Case(lambda x: op.strided_slice(x, [-1], [-5], [-2], axes=[1]), V),
        Case(lambda x: op.strided_slice(x, [1, 1], [-1, 2], slice_mode="size"), V),
    ],
    "slice_like": [
        Case(lambda x, y: op.slice_like(x * x, y), V, (2, 3)),
        Case(lambda x, y: op.slice_like(x, y, [0]), V, (2, 3)),
    ],
    "nn.pad": [Case(lambda x, v: relay.nn.pad(x * x, ((1, 0), (0, 2)), v), V, ())],
    "take": [
        Case(lambda x: op.take(x * x, indices(2, 2)), V),
        Case(lambda x: op.take(x * x, indices(2, 2), axis=1), (2, 3, 4)),
        Case(lambda x: op.take(x, indices(5) + relay.const(2), axis=0, mode="clip"), V),
        Case(lambda x: op.take(x, indices(5) - relay.const(2), axis=-1, mode="wrap"), V),
    ],
    "gather": [Case(lambda x: op.gather(x * x, 1, indices(3, 6)), V)],
    "gather_nd": [
        Case(lambda x: op.gather_nd(x * x, indices(2, 5)), V),
        Case(lambda x: op.gather_nd(x, indices(1, 4)), V),
    ],
    "strided_set": [Case(lambda x, v: op.strided_set(x * x, v * v, *map(relay.const, SLICE)), V, (2, 2))],
    "scatter_nd": [Case(lambda x, v: op.scatter_nd(x * x, indices(2, 5), v * v, mode="add"), V, (5,))],
    "scatter_elements": [Case(lambda x, v: op.scatter_elements(x * x, indices(2, 4), v * v, 0, "add"), V, (2, 4))],
    "nn.bias_add": [Case(relay.nn.bias_add, (2, 3, 4), (3,)), Case(lambda x, b: relay.nn.bias_add(x, b, -1), V, (4,))],
    "nn.softmax": [Case(relay.nn.softmax, V), Case(lambda x: relay.nn.softmax(x, axis=0), V)],
    "nn.log_softmax": [Case(relay.nn.log_softmax, V), Case(lambda x: relay.nn.log_softmax(x, axis=0), V)],
    "nn.dropout": [Case(lambda x: relay.nn.dropout(x * x, 0.5), V)],
    "nn.dense": [Case(relay.nn.dense, V, (5, 4)), Case(relay.nn.dense, (2, 3, 4), (5, 4))],
    "nn.matmul": [
        Case(partial(relay.nn.matmul, transpose_a=u, transpose_b=v), (4, 3) if u else V, (5, 4) if v else (4, 5))
        for u in (False, True)
        for v in (False, True)
    ],
    "nn.batch_matmul": [
        *(
            Case(
                partial(relay.nn.batch_matmul, transpose_a=u, transpose_b=v),
                (2, 4, 3) if u else (2, 3, 4),
                (2, 5, 4) if v else (2, 4, 5),
            )
            for u in (False, True)
            for v in (False, True)
        ),
        Case(relay.nn.batch_matmul, (1, 3, 4), (2, 5, 4)),
    ],
    "nn.conv2d": [
        Case(relay.nn.conv2d, (1, 2, 5, 4), (3, 2, 3, 2)),
        Case(lambda x, w: relay.nn.conv2d(x, w, strides=(2, 3), padding=(1, 0, 2, 1)), (1, 2, 7, 6), (3, 2, 3, 2)),
        Case(lambda x, w: relay.nn.conv2d(x, w, dilation=(2, 1), padding=(1, 1)), (1, 2, 6, 4), (2, 2, 2, 3)),
        Case(lambda x, w: relay.nn.conv2d(x, w, groups=2, padding=1), (2, 4, 4, 4), (2, 2, 3, 3)),
        Case(
            lambda x, w: relay.nn.conv2d(x, w, kernel_size=(3, 2), data_layout="NHWC", kernel_layout="HWIO"),
            (1, 5, 4, 2),
            (3, 2, 2, 3),
        ),
    ],
    "nn.max_pool2d": [
        Case(lambda x: relay.nn.max_pool2d(x, (2, 3), strides=(1, 2), padding=(1, 1)), IMAGE),
        Case(lambda x: relay.nn.max_pool2d(x, (2, 2), strides=(2, 2), ceil_mode=True), IMAGE),
    ],
    "nn.avg_pool2d": [
        Case(lambda x: relay.nn.avg_pool2d(x, (2, 3), strides=(1, 2), padding=(1, 1)), IMAGE),
        Case(lambda x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=True), IMAGE),
    ],
    "nn.global_avg_pool2d": [Case(lambda x: relay.nn.global_avg_pool2d(x * x), IMAGE)],
    "nn.global_max_pool2d": [Case(lambda x: relay.nn.global_max_pool2d(x * x), IMAGE)],
    "nn.cross_entropy": [Case(relay.nn.cross_entropy, V, V)],
    "nn.cross_entropy_with_logits": [Case(relay.nn.cross_entropy_with_logits, V, V)],
}
