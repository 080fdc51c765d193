"""Products of two matrices that are known at run time only: every order of axes, and sizes around those of tiles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx

import vmkit
from tests.kernels.products import TARGET, built
from vmkit import relay
from vmkit.relay import nn
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import product

SYMBOLS = {name: tirx.Var(name, "int64") for name in "bmnk"}

FORMS = [(a, b) for a in (False, True) for b in (False, True)]
SIZES = [(2, 33, 45, 19), (1, 1, 37, 5), (3, 7, 100, 64), (1, 64, 70, 33), (2, 5, 4, 1), (1, 9, 12, 24)]
SIZES += [(3, 70, 3, 33), (2, 5, 2, 9), (1, 64, 3, 64)]  # fewer columns than are worth vectors
FROM_MEMORY = (1, 1, 2068, 131)  # a matrix that is read in whole rows


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def operands(form: tuple[bool, bool], sizes: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two operands in an order of axes, and their product."""
    b, m, n, k = sizes
    x, y = random(b, m, k), random(b, k, n)
    stored = (v.swapaxes(1, 2) if is_swapped else v for v, is_swapped in zip((x, y), form, strict=True))
    left, right = (np.ascontiguousarray(v) for v in stored)
    return left, right, np.matmul(x.astype("float64"), y.astype("float64"))


def kernel(form: tuple[bool, bool], sizes: tuple[Any, ...], is_fused: bool, dtype: str = "float32") -> tirx.PrimFunc:
    """Return a plain product, or half of it with a bias and an activation."""
    b, m, n, k = sizes
    x = te.placeholder((b, k, m) if form[0] else (b, m, k), name="x", dtype=dtype)
    y = te.placeholder((b, n, k) if form[1] else (b, k, n), name="y", dtype=dtype)
    along = te.reduce_axis((0, k), name="along")

    def element(at: Any, i: Any, j: Any) -> Any:
        left = x[at, along, i] if form[0] else x[at, i, along]
        return te.sum(left * (y[at, j, along] if form[1] else y[at, along, j]), axis=along)

    made = te.compute((b, m, n), element)
    if not is_fused:
        return te.create_prim_func([x, y, made])
    bias, half, zero = te.placeholder((n,), name="bias", dtype=dtype), tirx.const(0.5, dtype), tirx.const(0, dtype)
    done = te.compute((b, m, n), lambda at, i, j: tirx.Max(made[at, i, j] * half + bias[j], zero))
    return te.create_prim_func([x, y, bias, done])


def check(
    run: Any, form: tuple[bool, bool], sizes: tuple[int, int, int, int], is_fused: bool, dtype: str = "float32"
) -> None:
    x, y, expected = operands(form, sizes)
    bias = [random(sizes[2])] if is_fused else []
    if is_fused:
        expected = np.maximum(expected * 0.5 + bias[0], 0)
    out = tvm.runtime.tensor(np.full(expected.shape, np.nan, dtype))
    run["main"](*(tvm.runtime.tensor(v.astype(dtype)) for v in (x, y, *bias)), out)
    within = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(out.numpy(), expected, rtol=within, atol=within, err_msg=str(sizes))


@pytest.mark.parametrize("form", FORMS)
def test_sizes_that_tiles_do_not_divide_are_whole(form: tuple[bool, bool]) -> None:
    for sizes, is_fused in itertools.product(SIZES, (False, True)):
        check(built(kernel(form, sizes, is_fused)), form, sizes, is_fused)


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unknown", ["m", "n", "k", "bmnk"])
def test_sizes_known_at_run_time_only_are_any(form: tuple[bool, bool], unknown: str) -> None:
    """From none on, around the sizes of tiles and vectors, and so few that there is no whole vector."""
    sizes = {"b": [2], "m": [0, 1, 3, 4, 7, 8, 13, 14, 29], "n": [0, 1, 3, 4, 15, 16, 33, 50], "k": [0, 1, 15, 16, 37]}
    named = {"b": 1, "m": 9, "n": 36, "k": 21}
    axes = tuple(SYMBOLS[name] if name in unknown else size for name, size in named.items())
    run = built(kernel(form, axes, is_fused=True))
    for each in itertools.product(*(sizes[name] if name in unknown else [size] for name, size in named.items())):
        check(run, form, each, is_fused=True)


@pytest.mark.parametrize("form", FORMS)
def test_vectors_go_along_rows_where_columns_are_few(form: tuple[bool, bool]) -> None:
    run = built(kernel(form, (SYMBOLS["b"], 50, 3, SYMBOLS["k"]), is_fused=True))
    for b, k in itertools.product([0, 2], [0, 1, 16, 37]):
        check(run, form, (b, 50, 3, k), is_fused=True)


@pytest.mark.parametrize("form", FORMS)
def test_doubles_have_vectors_of_half_as_many(form: tuple[bool, bool]) -> None:
    for sizes in SIZES:
        check(built(kernel(form, sizes, True, "float64")), form, sizes, True, "float64")
    run = built(kernel(form, tuple(SYMBOLS.values()), True, "float64"))
    for m, n, k in itertools.product([0, 1, 3, 4, 13], [0, 1, 3, 4, 16, 33], [0, 1, 15, 16]):
        check(run, form, (2, m, n, k), True, "float64")


def test_what_is_not_finite_stays_in_its_own_column() -> None:
    """What is read twice at the end of a sum is not added twice, nor multiplied by nothing."""
    x, y = np.ones((1, 2, 37), "float32"), np.ones((1, 20, 37), "float32")
    y[0, 3, 30], y[0, 5, 36] = np.inf, np.nan
    out = tvm.runtime.tensor(np.zeros((1, 2, 20), "float32"))
    run = built(kernel((False, True), (1, 2, 20, 37), is_fused=False))
    run["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y), out)
    expected = np.full((1, 2, 20), 37.0)
    expected[..., 3], expected[..., 5] = np.inf, np.nan
    np.testing.assert_array_equal(out.numpy(), expected)


n = relay.Any()
OPERATORS = {
    "matmul": (lambda x, y: nn.matmul(x, y), [(n, 24), (24, n)], [(5, 24), (24, 50)], "ij,jk"),
    "dense": (lambda x, y: nn.dense(x, y), [(n, 24), (n, 24)], [(3, 24), (50, 24)], "ij,kj"),
    "dense of rows of unknown size": (nn.dense, [(n, n), (n, n)], [(40, 70), (50, 70)], "ij,kj"),
    "dense of three axes": (nn.dense, [(2, 9, n), (18, n)], [(2, 9, 21), (18, 21)], "aij,kj->aik"),
    "one column": (nn.dense, [(n, 40), (1, 40)], [(37, 40), (1, 40)], "ij,kj"),
    "one matrix for all": (
        lambda x, y: nn.batch_matmul(x, y, transpose_b=False),
        [(n, 17, 30), (1, 30, 20)],
        [(3, 17, 30), (1, 30, 20)],
        "aij,bjk->aik",
    ),
    "batch known at run time": (nn.batch_matmul, [(n, 9, 30), (n, 20, 30)], [(1, 9, 30), (4, 20, 30)], "aij,bkj->bik"),
    "einsum of heads": (
        lambda x, y: relay.einsum([x, y], "bihd,bjhd->bhij"),
        [(2, n, 3, 16), (2, n, 3, 16)],
        [(2, 19, 3, 16), (2, 21, 3, 16)],
        "bihd,bjhd->bhij",
    ),
    "einsum, columns first": (
        lambda x, y: relay.einsum([x, y], "jk,ij->ki"),
        [(20, 18), (33, 20)],
        [(20, 18), (33, 20)],
        "jk,ij->ki",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_their_sums(name: str) -> None:
    build, types, shapes, equation = OPERATORS[name]
    variables = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(types)]
    executable = vmkit.compile(relay.Function(variables, build(*variables)))
    values = [random(*shape) for shape in shapes]
    wide = [v.astype("float64") for v in values]
    expected = (
        np.einsum(equation, *wide) if name != "batch known at run time" else np.matmul(wide[0], wide[1].swapaxes(1, 2))
    )
    out = vmkit.VirtualMachine(executable).run(*values)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_follows_may_read_what_is_computed_beside_the_sum() -> None:
    rows = SYMBOLS["m"]
    x, y, scale = (te.placeholder(shape, name=name) for shape, name in (((rows, 20), "x"), ((6, 20), "y"), ((), "s")))
    along = te.reduce_axis((0, 20), name="along")
    made = te.compute((rows, 6), lambda i, j: te.sum(x[i, along] * y[j, along], axis=along))
    square = te.compute((), lambda: scale() * scale())
    half = te.compute((rows, 6), lambda i, j: made[i, j] * square())
    run = built(te.create_prim_func([x, y, scale, half]))
    left, right = random(3, 20), random(6, 20)
    out = tvm.runtime.tensor(np.zeros((3, 6), "float32"))
    run["main"](*map(tvm.runtime.tensor, (left, right, np.array(0.5, "float32"))), out)
    np.testing.assert_allclose(out.numpy(), left @ right.T / 4, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_one_row_by_large_matrix_is_whole(form: tuple[bool, bool]) -> None:
    for is_fused in (False, True):
        check(built(kernel(form, FROM_MEMORY, is_fused)), form, FROM_MEMORY, is_fused)
    b, _, columns, inner = FROM_MEMORY
    run = built(kernel(form, (b, SYMBOLS["m"], columns, inner), is_fused=True))
    for rows in (0, 1, 2, 5):
        check(run, form, (b, rows, columns, inner), is_fused=True)


def test_candidates_keep_values() -> None:
    """Decisions that a tuner may try, a few of each kind."""
    for form, sizes in (((False, False), (1, 9, 40, 12)), ((False, True), (1, 9, 40, 12))):
        plain = rules.prepared(kernel(form, sizes, is_fused=True))
        assert plain is not None
        legal = list(product.RULE.candidates(plain, TARGET))
        default = product.RULE.decide(plain, TARGET)
        assert legal[0] == default and len(set(legal)) == len(legal)
        for decisions in legal[:: max(1, len(legal) // 8)]:
            made = rules.scheduled(plain, product.RULE, TARGET, decisions).with_attr("global_symbol", "main")
            check(tvm.compile(tvm.IRModule({"main": made}), target=TARGET), form, sizes, is_fused=True)


def test_narrow_vectors_take_products_of_few_columns() -> None:
    """On a machine with wide ones, sizes from 4 on have vectors that fit in them."""
    for columns in (4, 6, 10, 15):
        sizes = (1, 6, columns, 9)
        check(built(kernel((False, False), sizes, is_fused=True)), (False, False), sizes, is_fused=True)


def test_a_product_whose_rows_are_those_of_a_symbol_and_what_reads_them_out_of_another_tensor() -> None:
    """In a branch for few rows TVM proves that no rows are left, by which work was divided."""
    b, n = (tirx.Var(name, "int64") for name in "bn")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([b, n, 8], "float32"))
    y = relax.Var("y", relax.TensorType([b, 1, 8], "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, builder.emit(relax.op.permute_dims(x, [0, 2, 1]))))
            first = builder.emit(relax.op.strided_slice(y, [2], [0], [1], [1]))
            hidden = builder.emit(relax.op.greater(first, relax.const(0.0, "float32")))
            out = builder.emit_output(relax.op.where(hidden, relax.const(-1e9, "float32"), product))
        builder.emit_func_output(out)
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get(), "native"), "cpu")
    rng = np.random.default_rng(0)
    for batch, rows in ((2, 7), (1, 1), (3, 40), (2, 0)):
        given = [rng.standard_normal((batch, k, 8)).astype("float32") for k in (rows, 1)]
        expected = np.where(given[1][:, :, :1] > 0, np.float32(-1e9), given[0] @ given[0].transpose(0, 2, 1))
        np.testing.assert_allclose(machine.run(*given).numpy(), expected, rtol=1e-4, atol=1e-5)
