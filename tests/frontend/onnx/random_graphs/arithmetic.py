"""Nodes that compute element by element and along axes."""

from __future__ import annotations

import numpy as np

from .graph import Graph, template

__all__: list[str] = []


@template
def two_operands(g: Graph) -> None:
    x, y = g.floats(), g.floats()
    g.add(g.choice(["Add", "Sub", "Mul", "Add"]), [x, y])


@template
def with_channels(g: Graph) -> None:
    """A sum or product with a constant of one number for each channel, of axis 1 or of the last."""
    x = g.floats(2, 3, 4)
    axis = g.choice([a for a in x.fixed() if a > 0])
    shape = [x.shape[axis]] + [1] * (x.rank - 1 - axis)
    g.add(g.choice(["Add", "Mul", "Sub"]), [x, g.constant(g.random.normal(size=shape), "float32")])


@template
def with_number(g: Graph) -> None:
    order = [g.floats(), g.constant(np.float32(g.choice([0.5, 2, -1, 0.1])))]
    g.add(g.choice(["Add", "Mul", "Sub", "Div"]), order if g.chance(0.7) else [order[1], order[0]])


@template
def divided(g: Graph) -> None:
    x, y = g.floats(), g.floats()
    (size,) = g.add("Abs", [y])
    (positive,) = g.add("Add", [size, g.constant(np.float32(0.5))])
    g.add("Div", [x, positive])


@template
def root(g: Graph) -> None:
    (size,) = g.add("Abs", [g.floats()])
    (root,) = g.add("Sqrt", [size])
    if g.chance():
        (more,) = g.add("Add", [root, g.constant(np.float32(0.3))])
        g.add("Reciprocal", [more])


@template
def curve(g: Graph) -> None:
    name = g.choice(
        [
            "Sigmoid",
            "Tanh",
            "Erf",
            "Softplus",
            "Softsign",
            "HardSwish",
            "Mish",
            "Gelu",
            "Sin",
            "Cos",
            "Elu",
            "Selu",
            "HardSigmoid",
            "LeakyRelu",
            "Celu",
        ]
    )
    g.add(name, [g.floats()])


@template
def power(g: Graph) -> None:
    g.add("Pow", [g.floats(), g.constant(np.float32(g.choice([2, 3])))])


@template
def exponential(g: Graph) -> None:
    (bounded,) = g.add("Tanh", [g.floats()])
    g.add("Exp", [bounded])


@template
def swish(g: Graph) -> None:
    x = g.floats()
    (gate,) = g.add("Sigmoid", [x])
    g.add("Mul", [x, gate] if g.chance() else [gate, x])


@template
def gelu_of_parts(g: Graph) -> None:
    x = g.floats()
    (scaled,) = g.add("Mul", [x, g.constant(np.float32(2**-0.5))])
    (erf,) = g.add("Erf", [scaled])
    (more,) = g.add("Add", [erf, g.constant(np.float32(1))])
    (gated,) = g.add("Mul", [x, more])
    g.add("Mul", [gated, g.constant(np.float32(0.5))])


@template
def normalised_exponentials(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4)
    g.add(g.choice(["Softmax", "LogSoftmax"]), [x], axis=g.integer(-x.rank, x.rank - 1))


@template
def sums_of_axes(g: Graph) -> None:
    x = g.floats(1, 2, 3, 4)
    axes = sorted({g.integer(0, x.rank - 1) for _ in range(g.integer(1, 2))})
    name = g.choice(["ReduceMean", "ReduceSum", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceL1"])
    g.add(name, [x, g.constant(axes, "int64")], keepdims=g.integer(0, 1))


@template
def layer_norm(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    if not x.is_fixed(x.rank - 1):
        return
    size = x.shape[-1]
    given = [x, g.constant(g.random.normal(size=size), "float32"), g.constant(g.random.normal(size=size), "float32")]
    g.add("LayerNormalization", given[: g.integer(2, 3)], axis=-1, epsilon=1e-2)


@template
def layer_norm_of_parts(g: Graph) -> None:
    x = g.floats(2, 3)
    axes = g.constant([-1], "int64")
    (mean,) = g.add("ReduceMean", [x, axes], keepdims=1)
    (centred,) = g.add("Sub", [x, mean])
    (squares,) = g.add("Pow", [centred, g.constant(np.float32(2))])
    (variance,) = g.add("ReduceMean", [squares, axes], keepdims=1)
    (more,) = g.add("Add", [variance, g.constant(np.float32(1e-2))])
    (deviation,) = g.add("Sqrt", [more])
    g.add("Div", [centred, deviation])


@template
def batch_norm(g: Graph) -> None:
    x = g.floats(2, 3, 4)
    if not x.is_fixed(1):
        return
    c = x.shape[1]
    given = [g.constant(g.random.normal(size=c), "float32") for _ in range(3)]
    variance = g.constant(g.random.uniform(0.5, 2, size=c), "float32")
    g.add("BatchNormalization", [x, *given, variance])


@template
def instance_norm(g: Graph) -> None:
    x = g.floats(3, 4)
    if not x.is_fixed(1):
        return
    given = [g.constant(g.random.normal(size=x.shape[1]), "float32") for _ in range(2)]
    g.add("InstanceNormalization", [x, *given], epsilon=1e-1)


@template
def group_norm(g: Graph) -> None:
    x = g.floats(3, 4)
    if not x.is_fixed(1) or x.shape[1] % 2:
        return
    given = [g.constant(g.random.normal(size=x.shape[1]), "float32") for _ in range(2)]
    g.add("GroupNormalization", [x, *given], epsilon=1e-1, num_groups=2)


@template
def slopes(g: Graph) -> None:
    x = g.floats(3, 4)
    if not x.is_fixed(1):
        return
    g.add("PRelu", [x, g.constant(g.random.normal(size=[x.shape[1]] + [1] * (x.rank - 2)), "float32")])


@template
def running_sum(g: Graph) -> None:
    x = g.floats(1, 2, 3)
    axis = g.constant(g.integer(0, x.rank - 1), "int64")
    g.add("CumSum", [x, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


@template
def neighbours(g: Graph) -> None:
    g.add("LRN", [g.floats(4)], size=g.choice([3, 5]))


@template
def quantised(g: Graph) -> None:
    """To integers and back, of what has no roundings: a half may go up in one and down in the other otherwise."""
    x = g.floats(exact=True)
    dtype = g.choice(["int8", "uint8"])
    given = [g.constant(np.float32(0.03125)), g.constant(g.integer(0, 100), dtype)]
    (numbers,) = g.add("QuantizeLinear", [x, *given], exact=True)
    g.add("DequantizeLinear", [numbers, *given], exact=True)
