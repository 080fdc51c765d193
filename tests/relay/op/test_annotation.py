"""Annotations leave values as they are; barriers hold and devices are checked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import CompileError, TargetError, TypeCheckError, VMError
from vmkit.relay import annotation, var

Any_ = relay.Any
DATA = np.arange(8, dtype="float32").reshape(2, 4)


def test_annotations_give_their_value(dim: Any) -> None:
    x = var("x", shape=(dim(2), 4))
    pair = relay.Tuple([x, relay.nn.relu(x)])
    run = compiled(
        [x],
        annotation.checkpoint(x),
        annotation.checkpoint(pair),
        annotation.stop_fusion(pair),
        annotation.bitpack_end(annotation.bitpack_start(x)),
        annotation.cast_hint(x, "int8"),
        annotation.with_funcid(x, 3),
        annotation.compiler_end(annotation.compiler_begin(x, "dnnl"), "dnnl"),
        annotation.on_device(x, "cpu", constrain_result=True),
        relay.device_copy(x, tvm.cpu(0), "cpu"),
        relay.debug(x),
    )
    assert_same(run(DATA), (DATA, (DATA, DATA), (DATA, DATA), *[DATA] * 7))


def test_kernels_are_not_fused_across_a_barrier() -> None:
    def kernels(barrier: Any) -> int:
        x = var("x", shape=(2, 4))
        executable = vmkit.compile(relay.Function([x], relay.nn.relu(barrier(relay.exp(x)))), target="llvm")
        assert_same(vmkit.VirtualMachine(executable).run(DATA).numpy(), np.exp(DATA))
        return len(executable.primitive_ops)

    assert kernels(annotation.checkpoint) == kernels(lambda x: x) == 1
    assert kernels(annotation.stop_fusion) > 1


def test_annotations_are_reached_by_both_of_relays_names() -> None:
    assert relay.op.annotation.stop_fusion is relay.annotation.stop_fusion
    assert {"on_device", "stop_fusion", "checkpoint", "compiler_begin"} <= set(dir(relay.annotation))
    with pytest.raises(AttributeError, match=r"annotation\.stop_fusing.*did you mean 'annotation.stop_fusion'"):
        _ = relay.annotation.stop_fusing


def test_devices_have_relays_names_of_parameters() -> None:
    assert str(inspect.signature(annotation.on_device)) == (
        "(body, device, constrain_result=False, constrain_body=True)"
    )
    assert str(inspect.signature(relay.device_copy)) == "(data, src_device, dst_device)"
    assert str(inspect.signature(relay.debug)) == "(expr, debug_func=None)"
    x = var("x", shape=(2, 4))
    moved = relay.device_copy(annotation.on_device(device="cpu", body=x), dst_device="cpu", src_device="cpu")
    assert moved.args[0].args[0].same_as(x) and relay.debug(expr=x).args[0].same_as(x)
    assert "device : device\n    A device by name, tvm.device or VirtualDevice." in annotation.on_device.__doc__


def test_devices_are_printed_and_read_back() -> None:
    x = var("x", shape=(2, 4))
    body = relay.device_copy(annotation.on_device(x, tvm.cuda(1), constrain_body=False), "cuda:1", "cpu")
    module = tvm.IRModule({"main": relay.Function([x], body)})
    text = relay.astext(module)
    assert "on_device(%x, virtual_device=meta[VirtualDevice][0], constrain_body=False)" in text
    read = relay.parse(text)
    assert tvm_ffi.structural_equal(read, relay.transform.infer_module(module))
    places = read["main"].body.attrs
    assert [str(places.src_virtual_device), str(places.dst_virtual_device)] == ["cuda:1", "cpu"]
    assert tvm_ffi.structural_equal(tvm.ir.load_json(tvm.ir.save_json(read)), read)


def test_a_device_that_the_program_is_not_compiled_for_is_refused() -> None:
    x = var("x", shape=(2, 4))
    for body, name, place in (
        (annotation.on_device(x, "cuda"), "on_device", "cuda"),
        (relay.device_copy(x, "cpu", "cpu:1"), "device_copy", "cpu:1"),
    ):
        with pytest.raises(CompileError, match=f"{name} names {place}, but the program is compiled for cpu"):
            vmkit.compile(relay.Function([x], body), target="llvm")
    with pytest.raises(TypeCheckError, match="'virtual_device' must be a device, its name or a VirtualDevice, not 7"):
        annotation.on_device(x, 7)


def test_a_name_of_no_device_is_refused_at_the_call() -> None:
    x = var("x", shape=(2, 4))
    for make in (lambda: annotation.on_device(x, "cudo"), lambda: relay.device_copy(x, "cpu", "cudo")):
        with pytest.raises(TargetError, match="there is no type of device 'cudo'; did you mean 'cuda'"):
            make()


def test_where_nothing_is_constrained_any_device_will_do() -> None:
    x = var("x", shape=(2, 4))
    free = annotation.on_device(x, "cuda", constrain_result=False, constrain_body=False)
    assert (free.attrs.virtual_device.device_type_int, free.attrs.virtual_device.virtual_device_id) == (-1, -1)
    assert not free.attrs.constrain_body and not free.attrs.constrain_result
    assert_same(compiled([x], free)(DATA), DATA)
    held = annotation.on_device(x, "cuda", constrain_result=True, constrain_body=False).attrs.virtual_device
    assert (held.device_type_int, held.memory_scope, held.target) == (2, "", None)


def test_a_constant_on_a_device_is_not_moved_by_folding() -> None:
    with pytest.raises(CompileError, match="on_device names cuda"):
        vmkit.compile(relay.Function([], annotation.on_device(relay.const(1.0), "cuda")), target="llvm")


def test_debug_refuses_a_function_for_relays_interpreter() -> None:
    with pytest.raises(TypeCheckError, match="debug_func got the state of Relay's interpreter"):
        relay.debug(var("x"), lambda state: None)


def test_the_machines_own_shape_operators(dim: Any) -> None:
    x, shape = var("x", shape=(dim(2), 4)), var("shape", shape=(2,), dtype="int64")
    vm = relay.op.vm
    run = compiled([x, shape], vm.shape_of(x), vm.reshape_tensor(x, shape, (4, Any_())))
    assert_same(run(DATA, np.array([4, 2], "int64")), (np.array([2, 4], "int64"), DATA.reshape(4, 2)))
    with pytest.raises(VMError, match="dimension 0 of shape is 8, but newshape says 4"):
        run(DATA, np.array([8, 1], "int64"))
    with pytest.raises(VMError, match="the new shape holds 12 elements, the input 8"):
        run(DATA, np.array([4, 3], "int64"))
    assert type_error([x, shape], vm.reshape_tensor(x, shape, (4, 1, 2))) == (
        "shape must be a vector of 3 sizes, as newshape has, not Tensor[(2), int64]"
    )
