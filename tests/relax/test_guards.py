"""Kernels that TVM makes of operators: what they are given neither ends the process nor reaches memory of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te

import vmkit
from vmkit.relax.guards import with_guards

DATA = np.arange(24, dtype="float32").reshape(4, 6)
FAR = 1 << 40
AT = np.array([1, 0, 99, FAR, -FAR])
NEAREST = [1, 0, 3, 3, 0]


def ran(make: Callable[..., relax.Expr], *arrays: np.ndarray, sizes: int = 0) -> list[np.ndarray]:
    """Return what an operator of Relax gives, the first `sizes` inputs having rows as many as the run says."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(
            f"p{at}",
            relax.TensorType(
                [tvm.tirx.Var("rows", "int64"), *array.shape[1:]] if at < sizes else array.shape, str(array.dtype)
            ),
        )
        for at, array in enumerate(arrays)
    ]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    found = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu").run(*arrays)
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["divide", "floor_divide", "mod", "floor_mod"])
def test_a_division_by_zero_gives_zero(name: str, dtype: str) -> None:
    least = np.iinfo(dtype).min
    dividend = np.array([5, least, 7, 100, 0] * 4, dtype)
    divisor = np.array([0, -1 if least else 1, 2, 7, 0] * 4, dtype)
    (found,) = ran(getattr(relax.op, name), dividend, divisor)
    wanted = [0, least, 3, 14, 0] if "divide" in name else [0, 0, 1, 2, 0]
    np.testing.assert_array_equal(found, np.array(wanted * 4, dtype))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["divide", "floor_divide", "mod", "floor_mod"])
def test_a_division_by_the_number_zero_is_that_by_an_element(name: str, dtype: str) -> None:
    operator, given, zeros = getattr(relax.op, name), np.array([5, 0, 7], dtype), np.zeros(3, dtype)
    (found,) = ran(lambda x: operator(x, relax.const(0, dtype)), given, sizes=1)
    (wanted,) = ran(operator, given, zeros)
    np.testing.assert_array_equal(found, wanted)
    assert not np.isfinite(found).any() if dtype == "float32" else not found.any()


def test_a_step_of_zero_takes_nothing() -> None:
    first, last, step = np.array([0, 1]), np.array([3, FAR]), np.array([0, 2])
    (found,) = ran(relax.op.dynamic_strided_slice, DATA, first, last, step)
    assert found.shape == (0, 3)


def test_losses_of_classes_that_there_are_not_are_those_of_the_nearest() -> None:
    scores, weights = np.log(DATA[:, :5] + 1).reshape(5, 4), np.float32([1, 2, 3, 4])
    (found,) = ran(lambda p, t, w: relax.op.nn.nll_loss(p, t, w, "none"), scores, AT, weights)
    np.testing.assert_allclose(found, -scores[np.arange(5), NEAREST] * weights[NEAREST], rtol=1e-6)


def test_gradients_are_added_inside_alone() -> None:
    gradient = np.arange(30, dtype="float32").reshape(5, 6)
    (found,) = ran(lambda g, x, i: relax.op.grad.take_backward(g, x, i, 0), gradient, DATA, AT)
    wanted = np.zeros_like(DATA)
    wanted[1], wanted[0] = gradient[0], gradient[1]
    np.testing.assert_array_equal(found, wanted)


def test_windows_of_images_that_there_are_not_are_those_of_the_nearest() -> None:
    image = np.random.default_rng(0).random((2, 3, 8, 8), "float32")
    windows = np.float32([[1, 0, 0, 4, 4], [9e9, 0, 0, 4, 4], [0, 0, 0, 4, 4], [-9e9, 0, 0, 4, 4]])
    for pool in (relax.op.vision.roi_align, relax.op.vision.roi_pool):
        (found,) = ran(lambda x, r, pool=pool: pool(x, r, (2, 2), 1.0), image, windows)
        np.testing.assert_array_equal(found[[1, 3]], found[[0, 2]])
        assert not np.array_equal(found[0], found[2])


def test_draws_of_rows_that_there_are_not_are_those_of_the_nearest() -> None:
    chances = np.eye(4, dtype="float32")[[2, 0, 1, 3]]
    drawn = np.full((5, 1), 0.5, "float32")
    (found,) = ran(relax.op.multinomial_from_uniform, chances, drawn, AT[:, None])
    np.testing.assert_array_equal(found.ravel(), np.array([2, 0, 1, 3])[NEAREST])


def test_more_boxes_than_there_are_are_those_that_there_are() -> None:
    boxes = np.random.default_rng(1).random((2, 5, 6), "float32")
    ids = np.tile(np.arange(5, dtype="int32"), (2, 1))

    def kept(count: list[int]) -> list[np.ndarray]:
        made = lambda d, c, i: relax.op.vision.non_max_suppression(d, c, i)  # noqa: E731 - as short as it is
        return ran(made, boxes, np.array(count, "int32"), ids)

    for far, inside in zip(kept([99999, -5]), kept([5, 0]), strict=True):
        np.testing.assert_array_equal(far, inside)


def test_an_element_of_nothing_is_zero() -> None:
    none = np.zeros((0, 6), "float32")
    (found,) = ran(lambda x, i: relax.op.take(x, i, 0), none, AT, sizes=1)
    np.testing.assert_array_equal(found, np.zeros((5, 6)))


def test_kernels_of_the_module_itself_are_left_alone() -> None:
    rows = te.placeholder((4,), "float32")
    at = te.placeholder((2,), "int64")
    own = te.create_prim_func([rows, at, te.compute((2,), lambda i: rows[at[i]])])
    module = tvm.IRModule({"own": own})
    nothing = tvm.transform.module_pass(lambda mod, _: mod, opt_level=0, name="Nothing")
    assert with_guards(nothing)(module)["own"].same_as(own)
