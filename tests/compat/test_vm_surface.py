"""What Relay's virtual machine had for its users, a test for each name: it works as in TVM 0.14 or refuses in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.compat import interpreter, profiler_vm, profiling
from vmkit.compat import vm as rt
from vmkit.compat.container import ADT
from vmkit.errors import UnavailableError

X = np.arange(6, dtype="float32").reshape(2, 3)
W = np.full((2, 3), 2, "float32")
CPU = tvm.cpu()


def module(with_input: bool = False) -> tvm.IRModule:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))
    body = relay.add(x, w)
    return tvm.IRModule({"main": relay.Function([x, w], relay.Tuple([body, x]) if with_input else body)})


@pytest.fixture
def exe() -> rt.Executable:
    """Return ``x + w``, with ``w`` bound to a constant."""
    return rt.compile(module(), "llvm", params={"w": W})


@pytest.fixture(scope="module")
def machine() -> rt.VirtualMachine:
    """Return a machine of ``(x + w, x)``."""
    return rt.VirtualMachine(rt.compile(module(with_input=True), "llvm"), CPU)


# -- tvm.relay.backend.vm


def test_compile_binds_parameters(exe: rt.Executable) -> None:
    assert exe.get_function_params("main") == ["x"]
    np.testing.assert_array_equal(rt.VirtualMachine(exe, CPU).run(X).numpy(), X + W)


def test_the_compiler_in_stages() -> None:
    compiler = rt.VMCompiler()
    with pytest.raises(RuntimeError, match=r"No executable to return\. Did you forget to call VMCompiler\.lower\?"):
        compiler.get_exec()
    compiler.set_params({"w": W, "unknown": W})
    assert set(compiler.get_params()) == {"w", "unknown"}
    compiler.lower(module(), "llvm")
    with pytest.raises(RuntimeError, match=r"Executable is empty\. Did you forget to call VMCompiler\.codegen\?"):
        compiler.get_exec()
    compiler.codegen()
    with pytest.raises(RuntimeError, match="Can't reuse VMCompiler object for multiple modules"):
        compiler.lower(module(), "llvm")
    assert isinstance(compiler.get_exec(), rt.Executable)


def test_optimize_returns_relay_and_what_is_not_bound() -> None:
    optimized, params = rt.VMCompiler().optimize(module(), "llvm", params={"w": W})
    assert [p.name_hint for p in optimized["main"].params] == ["x"]
    assert params == {}


def test_two_parameters_of_one_name_are_refused() -> None:
    first, second = relay.var("w", shape=(2,)), relay.var("w", shape=(2,))
    compiler = rt.VMCompiler()
    compiler.set_params({"w": np.ones(2, "float32")})
    with pytest.raises(RuntimeError, match="Multiple args in the function have name w"):
        compiler.lower(tvm.IRModule({"main": relay.Function([first, second], relay.add(first, second))}), "llvm")


def test_the_executor_needs_a_module() -> None:
    with pytest.raises(RuntimeError, match=r"Must provide module to get VM executor\."):
        rt.VMExecutor(None, CPU, "llvm")
    executor = rt.VMExecutor(module(), CPU, "llvm")
    assert (executor.device, executor.evaluate()(X, w=W).shape) == (CPU, (2, 3))


# -- tvm.runtime.vm.Executable


def test_an_executable_of_a_module(exe: rt.Executable, tmp_path: Path) -> None:
    exe.mod.export_library(tmp_path / "lib.so")
    loaded = rt.Executable(tvm.runtime.load_module(str(tmp_path / "lib.so")))
    assert loaded.module is not None and loaded.lib is not None
    np.testing.assert_array_equal(rt.VirtualMachine(loaded, CPU).run(X).numpy(), X + W)
    np.testing.assert_array_equal(rt.VirtualMachine(loaded.mod, CPU).run(X).numpy(), X + W)


def test_save_and_load_exec(exe: rt.Executable) -> None:
    code, lib = exe.save()
    assert isinstance(code, bytearray)
    np.testing.assert_array_equal(rt.VirtualMachine(rt.Executable.load_exec(code, lib), CPU).run(X).numpy(), X + W)
    with pytest.raises(TypeError, match="bytecode is expected to be the type of bytearray"):
        rt.Executable.load_exec(3, lib)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"lib is expected to be the type of tvm\.runtime\.Module"):
        rt.Executable.load_exec(code, 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Invalid VM file format in the header section"):
        rt.Executable.load_exec(b"123", lib)


LISTINGS: dict[str, str] = {
    "stats": "Relay VM executable statistics:",
    "primitives": "VM PackedFunc[0]: add",
    "bytecode": "VM Function[0]: main(x)",
    "constants": "VM Const[0]: NDArray[(2, 3),float32,(1,0)]=[",
    "virtual_devices": "VM VirtualDevice[0]: device type 1, id 0",
}


@pytest.mark.parametrize("name", LISTINGS)
def test_listings(exe: rt.Executable, name: str) -> None:
    assert LISTINGS[name] in getattr(exe, name)


def test_lists_of_names(exe: rt.Executable) -> None:
    assert exe.primitive_ops == ["vm_mod_fused_add"]
    assert exe.globals == ["main"]
    with pytest.raises(RuntimeError, match="Cannot find function nope in executable"):
        exe.get_function_params("nope")


def test_late_bound_constants_by_file_and_by_map(exe: rt.Executable, tmp_path: Path) -> None:
    path = str(tmp_path / "constants")
    exe.move_late_bound_consts(path, byte_limit=1)
    assert not exe.get_late_bound_consts(1)
    with pytest.raises(RuntimeError, match="Need to load late-bound-constants before creating VM"):
        rt.VirtualMachine(exe, CPU)
    (name,) = exe.late_bound
    with pytest.raises(RuntimeError, match=f"No binding for late-bound constant at index .* with name '{name}'"):
        exe.load_late_bound_consts_from_map({})
    constant = tvm.runtime.tensor(W)
    with pytest.raises(RuntimeError, match="Have 1 unused late-bound constants"):
        exe.load_late_bound_consts_from_map({name: constant, "other": constant})
    exe.load_late_bound_consts(path)
    exe.load_late_bound_consts_from_map({})
    np.testing.assert_array_equal(rt.VirtualMachine(exe, CPU).run(X).numpy(), X + W)
    moved = exe.get_late_bound_consts(1)
    exe.load_late_bound_consts_from_map({name: tvm.runtime.tensor(W + 1) for name in moved})
    np.testing.assert_array_equal(rt.VirtualMachine(exe, CPU).run(X).numpy(), X + W + 1)


# -- tvm.runtime.vm.VirtualMachine


@pytest.mark.parametrize("device", [CPU, [CPU], "cpu"])
def test_a_machine_takes_a_device_or_several(exe: rt.Executable, device: Any) -> None:
    np.testing.assert_array_equal(rt.VirtualMachine(exe, device).run(X).numpy(), X + W)


@pytest.mark.parametrize("config", [None, "naive", "pooled", {CPU: "naive"}])
def test_memory_configurations(exe: rt.Executable, config: Any) -> None:
    np.testing.assert_array_equal(rt.VirtualMachine(exe, CPU, config).run(X).numpy(), X + W)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((3, CPU), TypeError, "expected an Executable or a runtime module"),
        ((None, 3), TypeError, "a device is a name"),
        ((None, CPU, 3), TypeError, "memory_cfg is expected be string or dictionary, but received"),
        ((None, [CPU, CPU]), RuntimeError, "at most one device per kind"),
    ],
)
def test_a_machine_of_wrong_things(exe: rt.Executable, arguments: tuple[Any, ...], kind: type, text: str) -> None:
    first, *rest = arguments
    with pytest.raises(kind, match=text) as caught:
        rt.VirtualMachine(exe if first is None else first, *rest)
    assert isinstance(caught.value, RuntimeError)


def test_arguments_become_values() -> None:
    names = [relay.var(name, dtype) for name, dtype in (("a", "int32"), ("b", "float32"), ("c", "float16"))]
    pair = relay.var("d", type_annotation=relay.TupleType([relay.TensorType((2, 3))] * 2))
    body = relay.Tuple([*names, relay.TupleGetItem(pair, 1)])
    values = rt.VirtualMachine(rt.compile(tvm.IRModule({"main": relay.Function([*names, pair], body)}), "llvm"), CPU)
    for given in ((X, W), [X, W], ADT(0, [X, W])):
        results = values.invoke("main", 3, 2.5, np.float16(1.5), given)
        assert [str(each.dtype) for each in results] == ["int32", "float32", "float16", "float32"]
        np.testing.assert_array_equal(results[3].numpy(), W)
    with pytest.raises(RuntimeError, match="b: an object"):
        values.invoke("main", 3, object(), np.float16(1.5), (X, W))


def test_inputs_stay_set_and_extra_keywords_are_left_out(machine: rt.VirtualMachine) -> None:
    with pytest.warns(UserWarning, match="extra"):
        machine.set_input("main", X, w=W, extra=W)
    for _ in range(2):
        np.testing.assert_array_equal(machine.run()[0].numpy(), X + W)
    machine.set_one_input("main", "w", W + 1)
    machine.set_one_input("main", 0, X + 1)
    np.testing.assert_array_equal(machine.run()[0].numpy(), X + W + 2)
    machine.set_one_input("main", w=W)
    np.testing.assert_array_equal(machine.invoke("main")[0].numpy(), X + W + 1)
    with pytest.raises(RuntimeError, match="has no input 'q'"):
        machine.set_one_input("main", "q", X)


def test_calls_that_cannot_be(machine: rt.VirtualMachine, exe: rt.Executable) -> None:
    with pytest.raises(RuntimeError, match="Cannot find function f in the executable"):
        machine.invoke("f")
    with pytest.raises(RuntimeError, match="Input has not been set for function main"):
        rt.VirtualMachine(exe, CPU).run()
    with pytest.raises(RuntimeError, match="w: missing"):
        machine.invoke("main", X)


def test_outputs_of_a_stateful_call(machine: rt.VirtualMachine) -> None:
    machine.invoke_stateful("main", X, W)
    outputs = machine.get_outputs()
    assert isinstance(outputs, list)
    np.testing.assert_array_equal(outputs[0].numpy(), X + W)
    np.testing.assert_array_equal(outputs[1].numpy(), X)


def test_outputs_in_given_tensors(machine: rt.VirtualMachine) -> None:
    targets = [tvm.runtime.empty((2, 3), "float32") for _ in range(2)]
    machine.invoke_with_outputs(func_name="main", input_args={"x": X, "w": W}, output_args=targets)
    np.testing.assert_array_equal(targets[0].numpy(), X + W)
    machine.set_input("main", X + 1, W)
    machine.invoke_with_outputs("main", None, targets)
    np.testing.assert_array_equal(targets[0].numpy(), X + W + 1)
    np.testing.assert_array_equal(targets[1].numpy(), X + 1)
    with pytest.raises(RuntimeError, match="Number of outside output tensors should be equal to model outputs number"):
        machine.invoke_with_outputs("main", None, targets[:1])


def test_positions_of_inputs(machine: rt.VirtualMachine) -> None:
    names = ("x", "w", "q")
    assert [machine.get_input_index(name, func_name="main") for name in names] == [0, 1, -1]


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmarks(machine: rt.VirtualMachine, end_to_end: bool) -> None:
    options = {"func_name": "main", "repeat": 2, "number": 1, "min_repeat_ms": None, "cooldown_interval_ms": 0}
    result = machine.benchmark(CPU, X, w=W, end_to_end=end_to_end, **options)
    assert len(result.results) == 2 and result.mean > 0


def test_results_of_data_types_have_a_tag() -> None:
    text = '#[version = "0.0.5"]\ntype T { A, B(int32), }\ndef @main(%x: int32) -> T { B(%x) }'
    parsed = relay.parse(text)
    result = rt.VirtualMachine(rt.compile(parsed, "llvm"), CPU).invoke("main", 3)
    assert isinstance(result, interpreter.ConstructorValue)
    assert result.tag == relay.find_constructor(parsed, "T", "B").tag
    assert (len(result), int(result[-1].numpy())) == (1, 3)
    assert ADT(3, [X])[0] is X


# -- profiles


def test_the_profiler(exe: rt.Executable) -> None:
    assert profiler_vm.enabled()
    profiler = profiler_vm.VirtualMachineProfiler(exe, CPU, None)
    report = profiler.profile(X, func_name="main", collectors=None)
    profiler.set_input("main", X)
    for each in (report, profiler.profile()):
        assert isinstance(each, profiling.Report)
        assert "add" in [row["Name"] for row in each.calls]
        assert each.configuration["Executor"] == "VM"
    with pytest.warns(UserWarning, match="get_stat has been removed"):
        assert profiler.get_stat() == ""


def test_reports_have_the_form_of_tvm_s(exe: rt.Executable) -> None:
    report = profiler_vm.VirtualMachineProfiler(exe, CPU).profile(X)
    columns = report.csv().splitlines()[0].split(",")
    # TVM's own come first, as they were; in its reports, too, others follow where something more was measured.
    assert columns[:7] == ["Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Hash"]
    assert set(columns[7:]) <= {"Operations", "GFLOP/s", "Bytes"}
    parsed = json.loads(report.json())
    assert set(parsed) == {"calls", "device_metrics", "configuration"}
    for call in parsed["calls"]:
        assert isinstance(call["Name"]["string"], str)
        assert isinstance(call["Count"]["count"], int)
        assert isinstance(call["Duration (us)"]["microseconds"], float)
    assert report.table() == str(report)
    assert "Total" in str(report) and "Sum" not in report.table(col_sums=False)
    assert profiling.Report.from_json(report.json()).calls == report.calls
    assert report.calls[0]["Duration (us)"].microseconds > 0


@pytest.mark.parametrize("name", ["MetricCollector", "PAPIMetricCollector", "DeviceWrapper", "profile_function"])
def test_hardware_counters_are_refused(name: str) -> None:
    with pytest.raises(UnavailableError, match=f"{name}.*VirtualMachineProfiler.profile has the times of kernels"):
        getattr(profiling, name)()


def test_a_module_of_another_machine_is_not_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm.runtime.Module, "kind", "rpc")
    library = vmkit.compile(module(), "llvm").mod
    with pytest.raises(UnavailableError, match="run the profiler there"):
        profiler_vm.VirtualMachineProfiler(library, CPU)


# -- executors


def test_executors_take_arguments_by_position_and_by_name() -> None:
    call = relay.create_executor(kind="vm", mod=module(), device=CPU, target="llvm").evaluate()
    np.testing.assert_array_equal(call(X, w=W).numpy(), X + W)
    with pytest.raises(RuntimeError, match="x: given by position 0 and by name"):
        call(X, W, x=X)
    with pytest.raises(RuntimeError, match="w: missing"):
        call(X)


def test_expressions_are_run_at_once() -> None:
    x = relay.var("x", "float32")
    assert int(relay.create_executor().evaluate(relay.add(relay.const(3), relay.const(4))).numpy()) == 7
    assert float(relay.create_executor("vm").evaluate(relay.add(x, x), binds={x: 3.5}).numpy()) == 7


@pytest.mark.parametrize("kind", ["vm", "debug"])
def test_parameters_of_executors_are_bound(kind: str) -> None:
    call = relay.create_executor(kind, mod=module(), params={"w": W}).evaluate()
    np.testing.assert_array_equal(call(X).numpy(), X + W)


def test_unknown_executors_are_refused() -> None:
    with pytest.raises(RuntimeError, match="unknown execution strategy: foo"):
        relay.create_executor("foo", mod=module())
