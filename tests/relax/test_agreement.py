"""Sizes that a kernel takes for granted: where only a run knows them, the program says which one is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, tirx

import vmkit
from vmkit.errors import CompileError, VMError

Shape = tuple[int | str, ...]
Make = Callable[..., relax.Expr]
OP = relax.op


def machine(make: Make, *shapes: Shape, dtypes: dict[int, str] | None = None) -> vmkit.VirtualMachine:
    """Return an operator of Relax compiled for operands whose sizes have names."""
    names: dict[str, tirx.Var] = {}
    params = [
        relax.Var(
            f"p{at}",
            relax.TensorType(
                [d if isinstance(d, int) else names.setdefault(d, tirx.Var(d, "int64")) for d in shape],
                (dtypes or {}).get(at, "float32"),
            ),
        )
        for at, shape in enumerate(shapes)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    return vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def ints(*shape: int) -> np.ndarray:
    return np.zeros(shape, "int64")


def along(name: str, size: int) -> Make:
    """Return an operator on data that has the one size of a shape that another operand has."""

    def make(data: relax.Expr, other: relax.Expr) -> relax.Expr:
        return getattr(OP, name)(data, relax.ShapeExpr([*other.ty.shape][:size]))

    return make


CASES = [
    ("matmul", OP.matmul, [(3, "n"), ("m", 2)], [(3, 4), (4, 2)], [(3, 4), (1, 2)], "second operand is 1, expected 4"),
    ("vector", OP.matmul, [(3, "n"), ("m",)], [(3, 4), (4,)], [(3, 4), (5,)], "second operand is 5, expected 4"),
    (
        "einsum",
        lambda a, b: OP.einsum((a, b), "ij,jk->ik"),
        [(3, "n"), ("m", 2)],
        [(3, 4), (4, 2)],
        [(3, 4), (1, 2)],
        "dimension 0 of operand 1 is 1, expected 4",
    ),
    (
        "conv2d",
        lambda a, w: OP.nn.conv2d(a, w, groups=2),
        [(1, "n", 4, 4), (4, "m", 3, 3)],
        [(1, 6, 4, 4), (4, 3, 3, 3)],
        [(1, 3, 4, 4), (4, 3, 3, 3)],
        "dimension 1 of the data is 3, expected 6",
    ),
    (
        "transposed",
        lambda a, w: OP.nn.conv1d_transpose(a, w),
        [(1, "n", 4), ("m", 4, 3)],
        [(1, 3, 4), (3, 4, 3)],
        [(1, 3, 4), (5, 4, 3)],
        "dimension 1 of the data is 3, expected 5",
    ),
    (
        "group norm",
        lambda a, g, b: OP.nn.group_norm(a, g, b, 1, 1, [2]),
        [(2, "n", 4), ("m",), ("k",)],
        [(2, 3, 4), (3,), (3,)],
        [(2, 3, 4), (3,), (2,)],
        "the size of beta is 2, expected 3",
    ),
    (
        "instance norm",
        lambda a, g, b: OP.nn.instance_norm(a, g, b, 1, [2]),
        [(2, "n", 4), ("m",), ("k",)],
        [(2, 3, 4), (3,), (3,)],
        [(2, 3, 4), (2,), (3,)],
        "the size of gamma is 2, expected 3",
    ),
    (
        "cross entropy",
        OP.nn.cross_entropy_with_logits,
        [("n", 3), ("m", 3)],
        [(4, 3), (4, 3)],
        [(4, 3), (3, 3)],
        "the labels is 3, expected 4",
    ),
    (
        "attention",
        OP.nn.attention,
        [(1, "q", 2, 4), (1, "k", 2, 4), (1, "v", 2, 4)],
        [(1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4)],
        [(1, 3, 2, 4), (1, 5, 2, 4), (1, 3, 2, 4)],
        "dimension 1 of the value is 3, expected 5",
    ),
    ("broadcast_to", along("broadcast_to", 1), [("n",), ("m",)], [(4,), (4,)], [(1,), (4,)], "data is 1, expected 4"),
    ("reshape", along("reshape", 1), [("n", 2), ("m",)], [(2, 2), (4,)], [(1, 2), (4,)], "shape is 4, expected 2"),
    ("split", lambda a: OP.split(a, [3], 0)[0], [("n",)], [(3,)], [(2,)], "the last part begins is too large by 1"),
    ("sections", lambda a: OP.split(a, 4, 0)[1], [("n",)], [(7,)], [(5,)], "the last part begins is too large by 1"),
    ("topk", lambda a: OP.topk(a, 3, ret_type="values"), [(2, "n")], [(2, 3)], [(2, 1)], "k is too large by 2"),
    (
        "grid",
        OP.image.grid_sample,
        [("n", 2, 4, 4), ("m", 3, 3, 2)],
        [(2, 2, 4, 4), (2, 3, 3, 2)],
        [(2, 2, 4, 4), (4, 3, 3, 2)],
        "dimension 0 of the grid is 4, expected 2",
    ),
]


@pytest.mark.parametrize(
    ("make", "types", "sound", "wrong", "message"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_sizes_that_have_to_agree(
    make: Make, types: list[Shape], sound: list[tuple[int, ...]], wrong: list[tuple[int, ...]], message: str
) -> None:
    run = machine(make, *types)
    arrays = [values(*shape) for shape in sound]
    fixed = machine(make, *sound).run(*arrays)
    np.testing.assert_allclose(run.run(*arrays).numpy(), fixed.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(VMError, match=message):
        run.run(*(values(*shape) for shape in wrong))


def test_sizes_of_tensors_of_positions() -> None:
    data = values(3, 2)
    gather = machine(lambda a, i: OP.gather_elements(a, i, 0), (3, "n"), (2, "m"), dtypes={1: "int64"})
    np.testing.assert_array_equal(gather.run(data, ints(2, 2)).numpy(), data[[0, 0]])
    np.testing.assert_array_equal(gather.run(data, ints(2, 1)).numpy(), data[[0, 0], :1])
    with pytest.raises(VMError, match="dimension 1 of the indices is too large by 3"):
        gather.run(data, ints(2, 5))
    slices = machine(lambda a, i: OP.gather_nd(a, i, 1), ("n", 2), ("m", 1), dtypes={1: "int64"})
    np.testing.assert_array_equal(slices.run(data, ints(3, 1)).numpy(), data[:, 0])
    with pytest.raises(VMError, match="dimension 0 of the indices is 4, expected 3"):
        slices.run(data, ints(4, 1))


def test_sizes_of_what_is_written() -> None:
    data, three = np.float32([1, 2, 3]), np.array([2, 0, 1])
    scatter = machine(lambda a, i, u: OP.scatter_elements(a, i, u, 0), ("n",), ("m",), ("k",), dtypes={1: "int64"})
    np.testing.assert_array_equal(scatter.run(data, three, data).numpy(), [2, 3, 1])
    with pytest.raises(VMError, match="dimension 0 of the updates is 2, expected 3"):
        scatter.run(data, three, data[:2])
    put = machine(lambda a, i, v: OP.index_put(a, (i,), v), ("n",), ("m",), ("k",), dtypes={1: "int64"})
    np.testing.assert_array_equal(put.run(data, three, data).numpy(), [2, 3, 1])
    with pytest.raises(VMError, match="dimension 0 of the values is 2, expected 3"):
        put.run(data, three, data[:2])


def test_losses_of_as_many_targets_as_predictions() -> None:
    scores, targets, weights = values(4, 3), np.array([2, 0, 1, 1]), np.float32([1, 2, 3])
    run = machine(lambda p, t, w: OP.nn.nll_loss(p, t, w, "none"), ("n", "c"), ("m",), ("k",), dtypes={1: "int64"})
    wanted = -scores[np.arange(4), targets] * weights[targets]
    np.testing.assert_allclose(run.run(scores, targets, weights).numpy(), wanted, rtol=1e-6)
    with pytest.raises(VMError, match="dimension 0 of the targets is 3, expected 4"):
        run.run(scores, targets[:3], weights)
    with pytest.raises(VMError, match="the size of the weights is 2, expected 3"):
        run.run(scores, targets, weights[:2])


def test_heads_that_attention_shares() -> None:
    query, key, value = values(1, 3, 4, 8), values(1, 5, 1, 8), values(1, 5, 1, 6)
    made = machine(OP.nn.attention, query.shape, key.shape, value.shape).run(query, key, value)
    whole = [np.repeat(each, 4, axis=2) for each in (key, value)]
    wanted = machine(OP.nn.attention, *(each.shape for each in (query, *whole))).run(query, *whole)
    np.testing.assert_allclose(made.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    for batch, heads in ((1, 2), (2, 1)):
        shared = (batch, 5, heads, 8)
        with pytest.raises(CompileError, match=f"dimension 2 of the key is {heads}, expected 4"):
            machine(OP.nn.attention, (batch, 3, 4, 8), shared, shared)


def test_what_is_known_is_not_checked() -> None:
    builder = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    given = relax.Var("x", relax.TensorType([n, 4], "float32"))
    with builder.function("main", [given]):
        flat = builder.emit(OP.reshape(given, relax.ShapeExpr([n * 4])))
        back = builder.emit(OP.reshape(flat, relax.ShapeExpr([n, 2, 2])))
        builder.emit_func_output(builder.emit(OP.matmul(back, back)))
    assert not vmkit.compile(builder.get()).info.checks
