"""Products padded to the sizes of tensor cores."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.attaching import attached_to
from tests.relay.transform.passes import after, assert_becomes
from vmkit import relay
from vmkit.compat.tensor_core import batch_matmul_legalize, conv2d_legalize, dense_legalize
from vmkit.relay.transform import Legalize


@pytest.fixture
def cuda():
    with tvm.target.Target("cuda"):
        yield


def v(name, *shape, dtype="float16"):
    return relay.var(name, shape=shape, dtype=dtype)


def legalized(name, function, expr, *params):
    with attached_to(name, "FTVMLegalize", function):
        return after(Legalize(), expr, *params)


@pytest.mark.usefixtures("cuda")
def test_a_product_gets_the_padding_of_least_work():
    x, w = v("x", 7, 15), v("w", 31, 15)
    padded = relay.nn.dense(relay.nn.pad(x, ((0, 1), (0, 1))), relay.nn.pad(w, ((0, 1), (0, 1))), units=32)
    expected = relay.strided_slice(padded, [0, 0], [7, 31])
    with attached_to("nn.dense", "FTVMLegalize", dense_legalize):
        assert_becomes(Legalize(), relay.nn.dense(x, w, units=31), expected, x, w)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("rows", "inner", "columns", "dtype"),
    [(8, 16, 32, "float16"), (1, 16, 32, "float16"), (7, 15, 31, "float32"), (8, 32, 8, "float64")],
)
def test_what_fits_or_costs_too_much_or_has_no_fragments_stays(rows, inner, columns, dtype):
    x, w = v("x", rows, inner, dtype=dtype), v("w", columns, inner, dtype=dtype)
    before = relay.nn.dense(x, w)
    with attached_to("nn.dense", "FTVMLegalize", dense_legalize):
        assert_becomes(Legalize(), before, before, x, w)


def test_other_targets_get_nothing():
    x, w = v("x", 7, 15), v("w", 31, 15)
    before = relay.nn.dense(x, w)
    with attached_to("nn.dense", "FTVMLegalize", dense_legalize), tvm.target.Target("llvm"):
        assert_becomes(Legalize(), before, before, x, w)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("transposed", [(False, True), (True, False)])
def test_batches_of_products_compute_the_same(transposed):
    a, b = ((2, 15, 7) if transposed[0] else (2, 7, 15)), ((2, 31, 15) if transposed[1] else (2, 15, 31))
    x, y = v("x", *a, dtype="int8"), v("y", *b, dtype="int8")
    body = relay.nn.batch_matmul(x, y, "int32", transpose_a=transposed[0], transpose_b=transposed[1])
    got = legalized("nn.batch_matmul", batch_matmul_legalize, body, x, y)
    assert "(2, 8, 32)" in str(got)
    values = [np.random.default_rng(0).integers(-9, 9, s).astype("int8") for s in (a, b)]
    assert_same(compiled(list(got.params), got.body)(*values), compiled([x, y], body)(*values))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("data", "kernel", "shapes", "made"),
    [
        ("NHWC", "HWIO", ((7, 4, 4, 15), (3, 3, 15, 31)), "(8, 2, 2, 32)"),
        ("HWNC", "HWOI", ((4, 4, 7, 15), (3, 3, 31, 15)), "(2, 2, 8, 32)"),
        ("NCHW", "OIHW", ((1, 3, 4, 4), (5, 3, 3, 3)), "(1, 8, 2, 2)"),
    ],
)
def test_convolutions_compute_the_same(data, kernel, shapes, made):
    x, w = v("x", *shapes[0], dtype="int8"), v("w", *shapes[1], dtype="int8")
    channels = shapes[1][kernel.index("O")]
    body = relay.nn.conv2d(
        x, w, channels=channels, kernel_size=(3, 3), data_layout=data, kernel_layout=kernel, out_dtype="int32"
    )
    got = legalized("nn.conv2d", conv2d_legalize, body, x, w)
    assert made in str(got)
    values = [np.random.default_rng(0).integers(-9, 9, s).astype("int8") for s in shapes]
    with tvm.target.Target("llvm"):
        assert_same(compiled(list(got.params), got.body)(*values), compiled([x, w], body)(*values))
