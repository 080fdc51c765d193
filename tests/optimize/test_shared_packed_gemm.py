"""Which convolutions share the kernels of products at level 1, and that those of groups are among them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op import build
from vmkit.relay.transform import InferType

TARGET = "llvm -mattr=+avx2,+fma -num-cores=2"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def at_level_1(function: relay.Function) -> vmkit.Executable:
    with vmkit.PassContext(opt_level=1):
        return vmkit.compile(tvm.IRModule({"main": function}), TARGET)


def products(executable: vmkit.Executable) -> list[str]:
    """Return the kernels of products that an executable calls, each once."""
    (group,) = executable.info["kernel_groups"].values()
    return sorted({name for name in group if "packed_gemm" in name})


def pointwise(x: relay.Expr, weight: np.ndarray, groups: int = 1) -> relay.Expr:
    return relay.nn.conv2d(x, relay.const(weight), groups=groups, data_layout="NHWC", kernel_layout="HWIO")


def grouped(data: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    parts = zip(np.split(data, groups, axis=3), np.split(weight[0, 0], groups, axis=1), strict=True)
    return np.concatenate([part @ own for part, own in parts], axis=3)


@pytest.mark.parametrize("has_residual", [True, False])
def test_layers_of_other_groups_and_sizes_share_a_kernel(has_residual: bool) -> None:
    layers = ((4, 24, 112), (2, 112, 40), (4, 40, 36), (3, 36, 96))  # 28, 20, 9 and 32 units of a group
    x, data = relay.var("x", shape=(2, 3, 5, 24)), numbers(2, 3, 5, 24)
    params, given, expected = [x], [data], data.astype("float64")
    y: relay.Expr = x
    for number, (groups, inner, units) in enumerate(layers):
        weight = numbers(1, 1, inner // groups, units, seed=number) / 4
        y, expected = pointwise(y, weight, groups), grouped(expected, weight, groups)
        if has_residual:
            other, array = relay.var(f"other{number}", shape=expected.shape), numbers(*expected.shape, seed=9 + number)
            params.append(other)
            given.append(array)
            y, expected = relay.nn.relu(relay.add(y, other)), np.maximum(expected + array, 0)
    executable = at_level_1(relay.Function(params, y))
    result = vmkit.VirtualMachine(executable, "cpu").run(*given).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    # One vector to a block where a group has fewer units than two vectors.
    assert len(products(executable)) == 2


def test_few_units_of_a_group_stay_with_the_convolution() -> None:
    x, data, weight = relay.var("x", shape=(1, 3, 5, 24)), numbers(1, 3, 5, 24), numbers(1, 1, 3, 40)
    executable = at_level_1(relay.Function([x], relay.nn.relu(pointwise(relay.nn.relu(x), weight, 8))))
    assert not products(executable)
    result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
    np.testing.assert_allclose(result, np.maximum(grouped(np.maximum(data, 0), weight, 8), 0), rtol=1e-4, atol=1e-4)


def test_a_layer_that_is_alone_of_its_kind_has_a_kernel_of_its_own_sizes() -> None:
    x, data, weights = (
        relay.var("x", shape=(1, 4, 6, 24)),
        numbers(1, 4, 6, 24),
        [numbers(1, 1, 24, 24), numbers(1, 1, 24, 40)],
    )
    executable = at_level_1(relay.Function([x], pointwise(relay.nn.relu(pointwise(x, weights[0])), weights[1])))
    expected = np.maximum(data.astype("float64") @ weights[0][0, 0], 0) @ weights[1][0, 0]
    result = vmkit.VirtualMachine(executable, "cpu").run(data).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
    assert executable.profiling is not None
    functions = {name: executable.profiling.functions()[name] for name in products(executable)}
    assert len(functions) == 2
    for function in functions.values():
        assert all(isinstance(size, tvm.tirx.IntImm) for param in function.params for size in param.ty.shape)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 32, "groups": 3}, "32 units without windows are no 3 groups of blocks that overlap"),
        ({"units": 32, "groups": 2, "overlaps": False}, "are no 2 groups of blocks that overlap"),
        ({"units": 32, "groups": 2, "kernel_size": [1, 1]}, "are no 2 groups of blocks that overlap"),
        ({"units": 48, "groups": 2}, "is not of 48 units"),
        ({"units": 24, "groups": 2}, "blocks of 16 units cannot overlap, of which there are 12"),
        ({"units": 32, "groups": 0}, "are no 0 groups of blocks that overlap"),
    ],
)
def test_groups_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    data, weight = relay.var("data", shape=(1, 5, 7, 40)), relay.const(numbers(2, 20, 16))
    call = build("nn.contrib_packed_gemm", data, weight, lanes=8, **{"overlaps": True, **options})
    with pytest.raises(TypeCheckError, match=message):
        InferType()(tvm.IRModule({"main": relay.Function([data], call)}))
