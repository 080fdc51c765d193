"""Each operator of Relax that becomes Relay's gives what Relax's gives, of any batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from tests.compiler.relay_parts.programs import OP, Emit, agrees, convolved, normalized, numbers, program
from vmkit.compiler.relay_parts.table import CONVERTERS

Make = Callable[[Emit, relax.Expr], relax.Expr]


def const(*shape: int, seed: int = 5) -> relax.Expr:
    return relax.const(numbers(*shape, seed=seed))


def chosen(emit: Emit, condition: relax.Expr, x: relax.Expr) -> relax.Expr:
    return OP.where(emit(condition), x, relax.const(np.float32(-3)))


def compared(compare: Callable[..., relax.Expr]) -> Make:
    """Return what elements become of which some are equal to a number."""
    half = relax.const(np.float32(0.5))
    return lambda emit, x: chosen(
        emit, compare(emit(OP.maximum(emit(OP.minimum(x, half)), OP.negative(half))), half), x
    )


def of_truths(combine: Callable[..., relax.Expr]) -> Make:
    zero = relax.const(np.float32(0))
    return lambda emit, x: chosen(emit, combine(*(emit(OP.less(each, zero)) for each in (x, const(16, 12, 12)))), x)


def cast(emit: Emit, x: relax.Expr) -> relax.Expr:
    truths = emit(OP.greater(x, relax.const(np.float32(0))))
    wide = emit(OP.astype(emit(OP.astype(truths, "int32")), "int64"))
    return OP.multiply(emit(OP.astype(wide, "float32")), emit(OP.astype(truths, "float32")))


def parts(emit: Emit, x: relax.Expr, sections: Any) -> relax.Expr:
    made = emit(OP.split(x, sections, 1))
    return OP.concat([emit(relax.TupleGetItem(made, at)) for at in (1, 0)], 1)


def positive(make: Callable[[relax.Expr], relax.Expr]) -> Make:
    return lambda emit, x: make(emit(OP.add(emit(OP.abs(x)), relax.const(np.float32(0.1)))))


def plain(make: Callable[[relax.Expr], relax.Expr]) -> Make:
    return lambda emit, x: make(x)


def applied(operator: Callable[..., relax.Expr], *args: Any, **attributes: Any) -> Make:
    return lambda emit, x: operator(x, *args, **attributes)


def in_rows(make: Callable[[relax.Expr], relax.Expr]) -> Make:
    """Return what is made of a tensor of one spatial axis."""
    return lambda emit, x: make(emit(OP.reshape(x, (x.ty.shape[0], 16, 144))))


def in_cubes(make: Callable[[relax.Expr], relax.Expr]) -> Make:
    """Return what is made of a tensor of three spatial axes."""
    return lambda emit, x: make(emit(OP.reshape(x, (x.ty.shape[0], 4, 4, 12, 12))))


SAME = ("sigmoid", "tanh", "exp", "negative", "abs", "erf", "sin", "cos", "square")
ACTIVATIONS = ("relu", "silu", "gelu", "gelu_tanh")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
CASES: dict[str, list[Make]] = {
    **{f"relax.{name}": [plain(getattr(OP, name))] for name in SAME},
    **{f"relax.nn.{name}": [plain(getattr(OP.nn, name))] for name in ACTIVATIONS},
    **{f"relax.{name}": [positive(getattr(OP, name))] for name in ("sqrt", "rsqrt", "log")},
    **{f"relax.{name}": [compared(getattr(OP, name))] for name in COMPARISONS},
    **{f"relax.{name}": [applied(getattr(OP, name), const(16, 1, 12))] for name in BINARY},
    **{f"relax.{name}": [of_truths(getattr(OP, name))] for name in ("logical_and", "logical_or")},
    "relax.logical_not": [of_truths(lambda one, _: OP.logical_not(one))],
    "relax.where": [compared(OP.less)],
    "relax.astype": [cast],
    "relax.power": [
        *(plain(partial(lambda to, x: OP.power(x, relax.const(np.float32(to))), to)) for to in (2, 3)),
        positive(lambda x: OP.power(x, relax.const(np.float32(1.7)))),
        positive(lambda x: OP.power(x, const(16, 1, 1))),
    ],
    "relax.clip": [plain(lambda x: OP.clip(x, -0.5, 0.25))],
    "relax.nn.leakyrelu": [plain(lambda x: OP.nn.leakyrelu(x, 0.2))],
    "relax.nn.prelu": [plain(lambda x: OP.nn.prelu(x, const(16), 1))],
    # What moves.
    "relax.permute_dims": [plain(lambda x: OP.permute_dims(x, [0, 2, 3, 1])), plain(OP.permute_dims)],
    "relax.reshape": [
        plain(lambda x: OP.reshape(x, (x.ty.shape[0], 16 * 12, 12))),
        plain(lambda x: OP.reshape(x, (x.ty.shape[0] * 4, 4, x.ty.shape[0] * 0 + 144))),
        plain(lambda x: OP.reshape(x, (2, -1, 12))),
        # A constant whose new size the run knows.
        lambda emit, x: OP.add(x, emit(OP.reshape(const(3, 16, 12), (x.ty.shape[0], 16, 12, 1)))),
    ],
    "relax.flatten": [plain(OP.flatten)],
    "relax.concat": [plain(lambda x: OP.concat([x, x], axis=1))],
    "relax.stack": [plain(partial(lambda axis, x: OP.stack([x, x], axis=axis), axis)) for axis in (0, 2, -1)],
    "relax.expand_dims": [plain(lambda x: OP.expand_dims(x, [0, -1])), plain(lambda x: OP.expand_dims(x, [1, 2]))],
    "relax.squeeze": [lambda emit, x: OP.squeeze(emit(OP.mean(x, [1, 3], keepdims=True)), [-1, 1])],
    "relax.strided_slice": [
        plain(lambda x: OP.strided_slice(x, [1, 3], [-9, 1], [100, 11], [2, 3])),
        plain(lambda x: OP.strided_slice(x, [2], [3], [-2])),
        plain(lambda x: OP.strided_slice(x, [2], [9], [1], [-2])),
    ],
    "relax.split": [partial(parts, sections=sections) for sections in (2, [3])],
    "relax.broadcast_to": [
        lambda emit, x: OP.broadcast_to(emit(OP.mean(x, [1], keepdims=True)), (x.ty.shape[0], 5, 12, 12)),
    ],
    "relax.tile": [plain(lambda x: OP.tile(x, (1, 2, 1, 3)))],
    "relax.nn.pad": [plain(lambda x: OP.nn.pad(x, (0, 0, 1, 2, 0, 3, 4, 0), pad_value=2.5))],
    # Reductions and what is made with them.
    **{
        f"relax.{name}": [
            applied(getattr(OP, name), [1, -1]),
            applied(getattr(OP, name), 2, keepdims=True),
            applied(getattr(OP, name)),
        ]
        for name in ("mean", "sum", "max", "min", "variance")
    },
    **{
        f"relax.nn.{name}": [applied(getattr(OP.nn, name), axis) for axis in (-1, 1)]
        for name in ("softmax", "log_softmax")
    },
    "relax.nn.batch_norm": [lambda emit, x: normalized(emit, x, 16)],
    "relax.nn.layer_norm": [
        plain(lambda x: OP.nn.layer_norm(x, const(12), const(12, seed=6), [-1], epsilon=1e-3)),
        plain(lambda x: OP.nn.layer_norm(x, const(16), const(16, seed=6), [1])),
        plain(lambda x: OP.nn.layer_norm(x, const(12, 12), const(12, 12, seed=6), [-2, -1])),
    ],
    "relax.nn.rms_norm": [
        plain(lambda x: OP.nn.rms_norm(x, const(12), [-1], 1e-3)),
        plain(lambda x: OP.nn.rms_norm(x, const(12, 12), [-2, -1])),
    ],
    "relax.nn.group_norm": [plain(lambda x: OP.nn.group_norm(x, const(16), const(16, seed=6), 4, 1, [2, 3]))],
    "relax.nn.instance_norm": [plain(lambda x: OP.nn.instance_norm(x, const(16), const(16, seed=6), 1, [2, 3]))],
    # Windows.
    "relax.nn.max_pool1d": [in_rows(lambda x: OP.nn.max_pool1d(x, 3, 2, padding=(1, 0), ceil_mode=True))],
    "relax.nn.max_pool2d": [plain(lambda x: OP.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 0, 1, 0), ceil_mode=True))],
    "relax.nn.max_pool3d": [in_cubes(lambda x: OP.nn.max_pool3d(x, (2, 3, 3), (1, 2, 2)))],
    "relax.nn.avg_pool1d": [in_rows(lambda x: OP.nn.avg_pool1d(x, 3, 2, padding=(1, 1)))],
    "relax.nn.avg_pool2d": [
        applied(OP.nn.avg_pool2d, (3, 3), (2, 2), padding=(1, 1), count_include_pad=flag) for flag in (True, False)
    ],
    "relax.round": [plain(lambda x: OP.round(OP.multiply(x, relax.const(np.float32(2)))))],
    "relax.nn.avg_pool3d": [in_cubes(lambda x: OP.nn.avg_pool3d(x, (2, 3, 3), (1, 2, 2)))],
    "relax.nn.adaptive_avg_pool1d": [in_rows(lambda x: OP.nn.adaptive_avg_pool1d(x, 5))],
    "relax.nn.adaptive_avg_pool2d": [plain(lambda x: OP.nn.adaptive_avg_pool2d(x, (5, 3)))],
    "relax.nn.adaptive_avg_pool3d": [in_cubes(lambda x: OP.nn.adaptive_avg_pool3d(x, (3, 5, 1)))],
    "relax.nn.conv1d": [in_rows(lambda x: OP.nn.conv1d(x, const(24, 8, 3), strides=2, padding=(0, 2), groups=2))],
    "relax.nn.conv1d_transpose": [
        in_rows(lambda x: OP.nn.conv1d_transpose(x, const(16, 6, 3), strides=2, padding=(1, 0), output_padding=1))
    ],
    "relax.nn.conv2d": [
        plain(
            lambda x: OP.nn.conv2d(
                x, const(16, 1, 3, 3), strides=(2, 1), padding=(0, 1, 2, 1), dilation=(1, 2), groups=16
            )
        )
    ],
    "relax.nn.conv2d_transpose": [
        plain(
            lambda x: OP.nn.conv2d_transpose(
                x, const(16, 6, 3, 2), strides=(2, 3), padding=(1, 0, 0, 1), output_padding=(1, 0), groups=2
            )
        )
    ],
    "relax.nn.conv3d": [in_cubes(lambda x: OP.nn.conv3d(x, const(8, 4, 3, 1, 3), padding=(1, 0, 1)))],
    "relax.image.resize2d": [
        plain(
            lambda x: OP.image.resize2d(x, (17, 30), method="linear", coordinate_transformation_mode="align_corners")
        ),
        plain(
            lambda x: OP.image.resize2d(
                x,
                (24, 24),
                method="nearest_neighbor",
                rounding_method="floor",
                coordinate_transformation_mode="asymmetric",
            )
        ),
        plain(lambda x: OP.image.resize2d(x, (7, 20), method="cubic")),
    ],
    "relax.matmul": [
        plain(lambda x: OP.matmul(x, const(12, 7))),
        plain(lambda x: OP.matmul(x, const(1, 12, 7))),
        plain(lambda x: OP.matmul(x, const(16, 12, 7))),
        plain(lambda x: OP.matmul(x, const(2, 1, 1, 12, 7))),
        lambda emit, x: OP.matmul(x, emit(OP.permute_dims(x, [0, 1, 3, 2]))),
        lambda emit, x: OP.matmul(x, emit(OP.mean(x, [1], keepdims=True))),
        lambda emit, x: OP.matmul(emit(OP.mean(x, [1, 2])), const(12, 3)),
        lambda emit, x: OP.matmul(x, emit(OP.mean(x, [0, 1, 2]))),
    ],
}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, cases in CASES.items() for at in range(len(cases))])
def test_each_operator_gives_what_relaxs_gives(name: str, at: int) -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        return emit(CASES[name][at](emit, convolved(emit, x, 4, 16)))

    n = tirx.Var("n", "int64")
    names = agrees(program(network, (n, 4, 12, 12)), numbers(3, 4, 12, 12))
    assert not any("conv2d_reshape_tensor_add" in name for name in names)  # as Relax has the first layer


def test_every_operator_has_a_test() -> None:
    assert set(CASES) == set(CONVERTERS)
