"""Tensors of types that are stored as others: in and out of a program, and saved with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

import vmkit
from vmkit import relay
from vmkit.backend import run_model
from vmkit.errors import InputError, TypeCheckError
from vmkit.relay.op import build
from vmkit.relay.op.storage import array_constant
from vmkit.values.conversion import StoredTensor, to_numpy
from vmkit.values.element_types import STORED, from_stored, numpy_dtype, to_stored

TYPES = sorted(set(STORED) - {"string"})


def all_values(dtype: str) -> np.ndarray:
    """Return every value of a type: in the order of their bits."""
    if dtype.endswith(("int2", "int4")):
        return np.arange(1 << int(dtype[-1]), dtype="uint8").view(numpy_dtype(dtype))
    return np.arange(1 << int(dtype[5]), dtype="uint8").view(numpy_dtype(dtype))


def bits(array: Any) -> np.ndarray:
    return np.asarray(array).view("uint8")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_value_of_a_type_comes_back_from_how_it_is_stored(dtype: str) -> None:
    values = all_values(dtype)
    stored = to_stored(values)
    assert str(stored.dtype) == STORED[dtype]
    np.testing.assert_array_equal(bits(from_stored(stored, dtype)), bits(values))


def test_what_lies_above_the_bits_of_a_small_float_is_not_stored() -> None:
    array = np.array([0xF9, 0x12], "uint8").view(ml_dtypes.float4_e2m1fn)
    assert to_stored(array).tolist() == [9, 2]


def moved(dtype: str) -> relay.Function:
    """Return a function that moves its input and a constant, with a size that is unknown."""
    x = relay.var("x", shape=(relay.Any(), 2), dtype=dtype)
    constant = array_constant(all_values(dtype)[:2].reshape(2, 1))
    return relay.Function([x], relay.Tuple([relay.concatenate([relay.transpose(x), constant], 1), x]))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_program_moves_elements_of_every_type_and_is_saved_with_them(dtype: str, tmp_path: Path) -> None:
    exe = vmkit.compile(moved(dtype), "llvm")
    assert [spec.dtype for spec in (*exe.inputs, *exe.outputs)] == [dtype] * 3
    exe.export(tmp_path / "moved.vmx")
    machine = vmkit.VirtualMachine(vmkit.load(tmp_path / "moved.vmx"))
    x = all_values(dtype).reshape(-1, 2)
    first, second = machine.run(x)
    assert isinstance(first, StoredTensor)
    assert first.numpy().dtype == x.dtype
    expected = np.concatenate([bits(x).T, bits(all_values(dtype))[:2].reshape(2, 1)], 1)
    np.testing.assert_array_equal(bits(first), expected)
    again = machine.run(second)
    np.testing.assert_array_equal(bits(to_numpy(again)[1]), bits(x))


def test_an_array_of_the_stored_type_is_no_input_of_the_type() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(moved("int4"), "llvm"))
    with pytest.raises(InputError, match="x: dtype int8, expected int4"):
        machine.run(np.zeros((1, 2), "int8"))


def test_numbers_become_elements_of_a_small_type_if_they_fit() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(moved("int4"), "llvm"))
    assert to_numpy(machine.run([[7, -8]]))[1].tolist() == [[7, -8]]
    with pytest.raises(InputError, match="does not fit int4"):
        machine.run([[8, 0]])


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        *((dtype, name) for dtype in ("int4", "float8_e5m2", "string") for name in ("add", "sum", "exp")),
        *((dtype, "nn.dense") for dtype in ("float8_e5m2", "string")),
    ],
)
def test_arithmetic_on_stored_elements_is_refused(dtype: str, name: str) -> None:
    x = relay.var("x", shape=(2, 2), dtype=dtype)
    call = build(name, x, x) if name in ("add", "nn.dense") else build(name, x)
    with pytest.raises(TypeCheckError, match=f"there is no arithmetic on {dtype}"):
        relay.transform.InferType()(_module(call))


def _module(body: Any) -> Any:
    return tvm.IRModule({"main": relay.Function(relay.analysis.free_vars(body), body)})


def test_a_scatter_that_adds_is_arithmetic_and_one_that_replaces_is_not() -> None:
    x, at = relay.var("x", shape=(3,), dtype="int4"), relay.var("at", shape=(3,), dtype="int64")
    relay.transform.InferType()(_module(build("scatter_elements", x, at, x, axis=0)))
    with pytest.raises(TypeCheckError, match="there is no arithmetic on int4"):
        relay.transform.InferType()(_module(build("scatter_elements", x, at, x, axis=0, reduction="add")))


def test_integers_of_less_than_a_byte_are_ordered() -> None:
    x = relay.var("x", shape=(16,), dtype="int4")
    y = relay.var("y", shape=(1,), dtype="int4")
    body = relay.Tuple([relay.maximum(x, y), relay.less(x, y), relay.argmax(x), relay.min(x)])
    given = all_values("int4"), np.array([-3], ml_dtypes.int4)
    largest, less, at, least = to_numpy(
        vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], body), "llvm")).run(*given)
    )
    whole = given[0].astype("int8")
    assert largest.astype("int8").tolist() == np.maximum(whole, -3).tolist()
    assert less.tolist() == (whole < -3).tolist()
    assert (at, least) == (7, -8)


@pytest.mark.parametrize("freeze_params", [True, False])
def test_packed_initializers_of_a_model_are_read(freeze_params: bool) -> None:
    tensors = [
        helper.make_tensor("a", TensorProto.INT4, [3], [-8, 7, 3]),
        helper.make_tensor("b", TensorProto.UINT2, [3], [3, 0, 2]),
        helper.make_tensor("c", TensorProto.FLOAT8E4M3FN, [3], [448, -0.5, 1]),
    ]
    at = helper.make_tensor_value_info("at", TensorProto.INT64, ["n"])
    nodes = [helper.make_node("Gather", [t.name, "at"], [f"y{t.name}"]) for t in tensors]
    outputs = [onnx.ValueInfoProto(name=f"y{t.name}") for t in tensors]
    graph = helper.make_graph(nodes, "g", [at], outputs, tensors)
    mod, params = vmkit.relay.frontend.from_onnx(helper.make_model(graph), freeze_params=freeze_params)
    exe = vmkit.compile(mod, "llvm", params=params)
    a, b, c = to_numpy(vmkit.VirtualMachine(exe).run(np.array([2, 0])))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([3, -8], [2, 3], [1, 448])
    assert [str(v.dtype) for v in (a, b, c)] == ["int4", "uint2", "float8_e4m3fn"]


def test_a_tensor_of_a_small_type_is_filled_with_a_value_of_it() -> None:
    value = helper.make_tensor("value", TensorProto.FLOAT4E2M1, [1], [1.5])
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, [2])
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"], value=value)
    model = helper.make_model(helper.make_graph([node], "g", [shape], [onnx.ValueInfoProto(name="y")]))
    (y,) = run_model(model, [np.array([2, 3])])
    assert (str(y.dtype), y.astype("float32").tolist()) == ("float4_e2m1fn", [[1.5] * 3] * 2)
