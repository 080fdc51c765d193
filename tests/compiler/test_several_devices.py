"""Programs for several devices at once: here two CPU targets that differ, and as source a GPU beside its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.programs import as_numpy, assert_same
from vmkit import relay
from vmkit.bytecode import disassemble
from vmkit.errors import CompileError, DeviceError, TargetError, VMError
from vmkit.relay.ir import VirtualDevice, is_call, rewrite, with_functions
from vmkit.relay.op.annotation import on_device
from vmkit.relay.text.parser import read_module

TARGETS = {"cpu": "llvm", "cpu:1": "native"}
BOTH = [tvm.cpu(0), tvm.cpu(1)]
ANY = relay.Any()
DATA = np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4)
WEIGHT = relay.const(np.linspace(0, 1, 16, dtype="float32").reshape(4, 4))


def there(value: Any) -> Any:
    """Return a value that the second CPU computes."""
    return on_device(value, "cpu:1")


def here(value: Any) -> Any:
    return on_device(value, "cpu")


def variable(*shape: Any, name: str = "x", dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def executable(mod: Any, targets: Any = TARGETS) -> vmkit.Executable:
    return vmkit.compile(mod, targets)


def assert_means(mod: Any, *inputs: Any) -> vmkit.Executable:
    """Assert that a program computes on both CPUs what it computes on one; return its executable."""
    exe = executable(mod)
    assert exe.info.devices == ("cpu", "cpu:1")
    got = as_numpy(vmkit.VirtualMachine(exe, BOTH).run(*inputs))
    assert_same(got, as_numpy(vmkit.VirtualMachine(vmkit.compile(unplaced(mod), "llvm")).run(*inputs)))
    return exe


def unplaced(mod: Any) -> Any:
    """Return a program that says nothing of devices."""
    mod = mod if isinstance(mod, tvm.IRModule) else tvm.IRModule({"main": mod})

    def plain(node: Any, original: Any) -> Any:
        is_mark = is_call(node, "on_device", "device_copy")
        return node.args[0] if is_mark else node

    functions = {v: rewrite(f, {}, plain) for v, f in mod.functions.items()}
    return with_functions(mod, functions)


@pytest.mark.parametrize("rows", [6, ANY])
def test_layers_on_both(rows: Any) -> None:
    x = variable(rows, 4)
    hidden = relay.nn.relu(relay.nn.dense(x, WEIGHT))
    body = relay.nn.softmax(relay.nn.dense(relay.exp(there(hidden)), WEIGHT))
    exe = assert_means(relay.Function([x], body), DATA)
    # What is computed on the second CPU is on it, weights included, which are on the first in the file.
    copies = [line for line in disassemble(exe.program).splitlines() if "to_device" in line]
    assert len(copies) == 3


def test_kernels_are_compiled_for_the_target_of_their_device() -> None:
    x = variable(6, 4)
    targets = {"cpu": "llvm", "cpu:1": "llvm -mcpu=haswell"}
    exe = executable(relay.Function([x], relay.tanh(there(relay.exp(x)))), targets)
    sources = [library.inspect_source("ll") for library in exe.libraries]
    of_part = [source for source in sources if "part0_exp" in source]
    assert len(of_part) == 1 and '"target-cpu"="haswell"' in of_part[0]
    assert all("haswell" not in source for source in sources if source not in of_part)


def test_results_are_where_they_were_computed() -> None:
    x = variable(6, 4)
    exe = executable(relay.Function([x], relay.Tuple([there(relay.exp(x)), here(relay.tanh(x))])))
    machine = vmkit.VirtualMachine(exe, BOTH)
    first, second = machine.run(DATA)
    # The fields of a tuple are where the tuple is, which nothing else says.
    assert [str(first.device), str(second.device)] == ["cpu:0", "cpu:0"]
    (alone,) = [vmkit.VirtualMachine(executable(relay.Function([x], there(relay.exp(x)))), BOTH).run(DATA)]
    assert str(alone.device) == "cpu:1"


def test_devices_that_take_turns() -> None:
    x = variable(ANY, 4)
    value = x
    for _ in range(3):
        value = relay.tanh(there(relay.exp(here(relay.negative(value)))))
    assert_means(relay.Function([x], value), DATA)


def test_independent_work_is_one_part() -> None:
    x, parts = variable(6, 4), []
    for number in range(3):
        parts.append(relay.tanh(there(relay.exp(x + relay.const(float(number))))))
    exe = assert_means(relay.Function([x], relay.add(relay.add(parts[0], parts[1]), parts[2])), DATA)
    assert [name for name in exe.globals if "_on_cpu1" in name] == ["vmkit.part0_on_cpu1"]


def test_branches_and_tuples() -> None:
    x = variable(6, 4)
    pair = relay.split(there(relay.exp(x)), 2, 1)
    positive = relay.sum(x) > relay.const(0.0)
    joined = relay.concatenate([pair[1], there(relay.tanh(pair[0]))], 1)
    flow = relay.If(positive, there(relay.exp(x)), here(relay.tanh(joined)))
    for data in (DATA - 1, DATA + 1):
        assert_means(relay.Function([x], relay.nn.relu(flow)), data)


def test_functions_closures_and_loops() -> None:
    text = """#[version = "0.0.5"]
    def @scaled(%x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      let %f = fn (%y: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
        on_device(multiply(exp(%y), %x), virtual_device=meta[VirtualDevice][0]) };
      tanh(%f(%x))
    }
    def @loop(%n: int32, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
      if (greater(%n, 0)) { %0 = tanh(@scaled(%x)); @loop(subtract(%n, 1), %0) } else { %x }
    }
    def @main(%n: int32, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { @loop(%n, %x) }"""
    read = read_module(text, init_meta_table={"VirtualDevice": [VirtualDevice.of("cpu:1")]})
    assert_means(read, np.array(3, "int32"), DATA)


def test_data_types() -> None:
    text = """#[version = "0.0.5"]
    type Box { Box(Tensor[(6, 4), float32]), Empty }
    def @main(%x: Tensor[(6, 4), float32]) -> Tensor[(6, 4), float32] {
      %0 = on_device(exp(%x), virtual_device=meta[VirtualDevice][0], constrain_result=True);
      let %box = Box(%0);
      match (%box) { Box(%y) => tanh(%y), Empty => %x }
    }"""
    read = read_module(text, init_meta_table={"VirtualDevice": [VirtualDevice.of("cpu:1")]})
    assert_means(read, DATA)


def test_a_check_in_a_part_says_what_was_wrong() -> None:
    x, y = variable(ANY, 4), variable(ANY, 4, name="y")
    exe = executable(relay.Function([x, y], relay.tanh(there(relay.add(x, y)))))
    machine = vmkit.VirtualMachine(exe, BOTH)
    assert_same(machine.run(DATA, DATA[:1]).numpy(), np.tanh(DATA + DATA[:1]))
    with pytest.raises(VMError, match="add"):
        machine.run(DATA, DATA[:2])


def test_saved_and_loaded(tmp_path: Path) -> None:
    x = variable(ANY, 4)
    exe = executable(relay.Function([x], relay.nn.dense(there(relay.nn.dense(x, WEIGHT)), WEIGHT)))
    exe.export(tmp_path / "model.vmx")
    loaded = vmkit.load(tmp_path / "model.vmx")
    assert loaded.info.devices == ("cpu", "cpu:1")
    want = vmkit.VirtualMachine(exe, BOTH).run(DATA).numpy()
    assert_same(vmkit.VirtualMachine(loaded, BOTH).run(DATA).numpy(), want)
    # What was compiled for cpu:1 runs on another CPU that is given in its place.
    assert_same(vmkit.VirtualMachine(loaded, [tvm.cpu(0), tvm.cpu(3)]).run(DATA).numpy(), want)


def test_a_machine_needs_the_devices_of_the_program() -> None:
    x = variable(6, 4)
    exe = executable(relay.Function([x], relay.tanh(there(relay.exp(x)))))
    with pytest.raises(DeviceError, match=r"Unable to find a physical device \(from among the 1 given\).*cpu:1"):
        vmkit.VirtualMachine(exe, "cpu")


def test_a_device_without_a_target_is_refused() -> None:
    x = variable(6, 4)
    with pytest.raises(TargetError, match="there is no target for device 'cuda', only for: cpu, cpu:1"):
        executable(relay.Function([x], relay.tanh(on_device(relay.exp(x), "cuda"))))


def test_what_names_one_device_is_compiled_as_for_that_alone() -> None:
    x = variable(6, 4)
    body = relay.nn.softmax(relay.exp(x))
    exe = executable(relay.Function([x], here(body)))
    assert exe.info.devices is None
    assert exe.code == vmkit.compile(relay.Function([x], here(body)), "llvm").code
    assert_same(
        vmkit.VirtualMachine(exe, "cpu").run(DATA).numpy(), vmkit.VirtualMachine(exe, ["cpu"]).run(DATA).numpy()
    )


def test_targets_of_one_device_are_refused_with_what_to_do() -> None:
    with pytest.raises(TargetError, match="for several devices of a type give a dict from device, such as 'cpu:1'"):
        vmkit.compile(relay.Function([], relay.const(1.0)), ["llvm", "native"])


def test_a_gpu_beside_its_host() -> None:
    x = variable(6, 4)
    body = relay.nn.softmax(on_device(relay.exp(relay.nn.dense(x, WEIGHT)), "cuda"))
    exe = vmkit.compile(relay.Function([x], body), {"cuda": "cuda -arch=sm_80", "cpu": "llvm"})
    assert exe.info.devices == ("cpu", "cuda")
    listing = disassemble(exe.program)
    assert "to_device(%0, 2, 0)" in listing and ", 1, 0)" in listing
    sources = [
        each.inspect_source()
        for library in exe.libraries
        for each in (library, *library.imports)
        if each.kind == "cuda"
    ]
    assert any("__global__" in source and "part0_" in source for source in sources)


def test_what_a_device_cannot_do_is_refused_by_the_operators_name() -> None:
    x = variable(6, 4)
    kept = there(relay.op.build("optional.some", relay.exp(x)))
    with pytest.raises(CompileError, match=r"optional\.some changes a value in place.*it is to run on cpu:1"):
        executable(relay.Function([x], relay.op.build("optional.get", kept)))


def test_weights_are_copied_to_their_device_once() -> None:
    x, weight = variable(ANY, 256), relay.const(np.linspace(0, 1, 1 << 16, dtype="float32").reshape(256, 256))
    bias = relay.const(np.linspace(-1, 1, 256, dtype="float32"))
    inner = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weight), bias, axis=1))
    body = relay.nn.dense(there(inner), weight)
    exe = executable(relay.Function([x], body))
    machine = vmkit.VirtualMachine(exe, BOTH)
    copied: list[str] = []

    def note(function: Any, name: str, before: bool, result: Any, *args: Any) -> int:
        if before and name == "vm.builtin.to_device":
            copied.append(str(args[0].shape))
        return 0

    machine.module["set_instrument"](note)
    data = np.linspace(-1, 1, 3 * 256, dtype="float32").reshape(3, 256)
    want = as_numpy(vmkit.VirtualMachine(vmkit.compile(unplaced(relay.Function([x], body)), "llvm")).run(data))
    assert_same(machine.run(data).numpy(), want, rtol=1e-4)
    assert len(copied) == 2, copied


def test_one_target_refuses_what_places_values_elsewhere() -> None:
    x = relay.var("x", shape=(2,))
    cuda = relay.ir.VirtualDevice.of("cuda")
    plain = relay.Function([x], relay.exp(x))
    inner = relay.Call(plain.with_attr("result_virtual_device", cuda), [x])
    for placed in (
        plain.with_attr("param_virtual_devices", [cuda]),
        plain.with_attr("result_virtual_device", cuda),
        relay.Function([x], inner),
    ):
        with pytest.raises(CompileError, match=r"of @main, .*, is to be on cuda, but the program is compiled for cpu"):
            vmkit.compile(placed, "llvm")
    here = plain.with_attr("result_virtual_device", relay.ir.VirtualDevice.of("cpu"))
    assert vmkit.compile(here, "llvm").info.devices is None
    texture = relay.annotation.on_device(relay.exp(x), relay.ir.VirtualDevice(1, 0, "global.texture"))
    with pytest.raises(CompileError, match=r"on_device names the memory 'global\.texture'"):
        vmkit.compile(relay.Function([x], texture), "llvm")
