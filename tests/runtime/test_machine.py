"""Running programs: inputs, results, state, errors, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.relax import programs as vm_programs
from vmkit.bytecode import tail_calls_to_loops
from vmkit.errors import DeviceError, ExecutableError, InputError, OptionError, VMError
from vmkit.executable.build_info import BuildInfo
from vmkit.executable.executable import Executable
from vmkit.runtime.machine import VirtualMachine
from vmkit.values import host_memory
from vmkit.values.conversion import ADT, to_numpy
from vmkit.values.signature import AnySpec, Signature, TensorSpec

X = np.arange(6, dtype="float32").reshape(2, 3)
Y = np.array([1, 2], "float32")
SUMS = [4.0, 14.0]


def executable(program: tuple[tvm.IRModule, Signature], **info: Any) -> Executable:
    mod, signature = program
    return Executable(vm_programs.compiled(mod), {"main": signature}, tvm.target.Target("llvm"), BuildInfo(**info))


@pytest.fixture(scope="module")
def rows() -> Executable:
    return executable(vm_programs.add_rows())


@pytest.fixture
def vm(rows: Executable) -> VirtualMachine:
    return VirtualMachine(rows)


def error_of(call: Callable[[], Any], kind: type[Exception] = InputError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda vm: vm.run(X, Y),
        lambda vm: vm(X, Y),
        lambda vm: vm.run(X, y=Y),
        lambda vm: vm.invoke("main", y=Y, x=X),
        lambda vm: vm.run(tvm.runtime.tensor(X), Y),
        lambda vm: vm.run(X.tolist(), [1, 2]),
        lambda vm: vm.run(X.copy()[::1], tvm_ffi.from_dlpack(Y.copy())),
    ],
    ids=["run", "call", "mixed", "by name", "tensor", "lists", "dlpack"],
)
def test_every_way_to_call(vm: VirtualMachine, call: Callable[[VirtualMachine], Any]) -> None:
    out = call(vm)
    assert isinstance(out, tvm.runtime.Tensor)
    np.testing.assert_array_equal(out.numpy(), SUMS)
    np.testing.assert_array_equal(np.from_dlpack(out), SUMS)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 7), (0, 3), (3, 0)])
def test_one_executable_takes_every_size(vm: VirtualMachine, n: int, m: int) -> None:
    x, y = np.ones((n, m), "float32"), np.ones(n, "float32")
    np.testing.assert_array_equal(vm.run(x, y).numpy(), x.sum(axis=1) + y)


def test_mismatches_are_reported_together(vm: VirtualMachine) -> None:
    assert error_of(lambda: vm.run(X.astype("float64"), np.ones(3, "float32"))) == (
        "2 inputs do not match main(x: float32[n, m], y: float32[n])\n"
        '  x: dtype float64, expected float32; pass x.astype("float32")\n'
        "  y: n = 3, but x already bound n = 2"
    )


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((None, Y), "x: None, expected float32[n, m]"),
        ((X, "abc"), "y: a str, expected float32[n]"),
        ((X, {"a": 1}), "y: a dict, expected float32[n]"),
        ((X, 2**70), "y: 1180591620717411303424 does not fit float32"),
        ((X, [1, "a"]), "y: [1, 'a'] does not fit float32"),
        ((X, (X, Y)), "y: a tuple that is no array"),
        ((X, Y, Y), "3 positional arguments, expected at most 2"),
        ((X,), "y: missing, expected float32[n]"),
        ((Y, Y), "x: rank 1 (shape (2,)), expected rank 2: float32[n, m]"),
        ((X, object()), "y: an object, expected float32[n]"),
        ((X, ADT(1)), "y: an ADT, expected float32[n]"),
    ],
)
def test_wrong_inputs(vm: VirtualMachine, args: tuple[Any, ...], text: str) -> None:
    assert text in error_of(lambda: vm.run(*args))
    np.testing.assert_array_equal(vm.run(X, Y).numpy(), SUMS, "the machine works on after an error")


def test_an_unknown_name_is_an_error_with_close_names(vm: VirtualMachine) -> None:
    assert "yy: no such input; did you mean 'y'?" in error_of(lambda: vm.run(X, yy=Y))


@pytest.mark.parametrize("offset", [0, 1, 4, 16])
def test_misaligned_inputs_do_not_end_the_process(offset: int) -> None:
    machine = VirtualMachine(executable(vm_programs.double()))
    memory = np.zeros(64 * 64 * 4 + 128, "uint8")
    start = -memory.ctypes.data % 64 + offset
    x = memory[start : start + 64 * 64 * 4].view("float32").reshape(64, 64)
    x[...] = 1.5
    assert (machine.run(x).numpy() == 3).all()
    assert (machine.run(tvm_ffi.from_dlpack(x) if offset != 1 else x).numpy() == 3).all()


def misaligned(value: float) -> np.ndarray:
    memory = np.zeros(128, "uint8")
    start = -memory.ctypes.data % 64 + 4
    array = memory[start : start + 16].view("float32").reshape(2, 2)
    array[...] = value
    return array


def test_a_result_that_is_its_input_outlives_the_next_call() -> None:
    machine = VirtualMachine(executable(vm_programs.identity("float32", (2, 2))))
    first, second = machine.run(misaligned(1)), np.from_dlpack(machine.run(misaligned(2)))
    for value in range(3, 6):
        assert (machine.run(misaligned(value)).numpy() == value).all()
    assert (first.numpy() == 1).all()
    assert (second == 2).all()


def test_copies_of_inputs_use_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    aligned_copy = host_memory._aligned_copy
    monkeypatch.setattr(host_memory, "_aligned_copy", lambda array: made.append(array.shape) or aligned_copy(array))
    machine = VirtualMachine(executable(vm_programs.double("float32", (2, 2))))
    for value in range(5):
        assert (machine.run(misaligned(value)).numpy() == 2 * value).all()
    assert made == [(2, 2)]


def test_inputs_without_elements_are_made_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    copied = host_memory.copied
    monkeypatch.setattr(host_memory, "copied", lambda array: made.append(array.shape) or copied(array))
    machine = VirtualMachine(executable(vm_programs.double("float32", ("n", "m"))))
    for shape in ((0, 3), (0, 3), (2, 0), (2, 0), (0, 3)):
        result = machine.run(np.zeros(shape, "float32"))
        assert (result.shape, str(result.dtype)) == (shape, "float32")
    assert made == [(0, 3), (2, 0), (0, 3)]
    with pytest.raises(InputError, match="int8"):
        machine.run(np.zeros((0, 3), "int8"))


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "int8", "uint64"])
def test_dtypes_go_through(dtype: str) -> None:
    machine = VirtualMachine(executable(vm_programs.identity(dtype, (2, 2))))
    out = machine.run([[0, 1], [1, 0]])
    assert str(out.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(out).astype("float32"), [[0, 1], [1, 0]])


def test_tuples_nest() -> None:
    machine = VirtualMachine(executable(vm_programs.tuples()))
    total, (first,) = machine.run(([1, 2], (np.ones(2, "float32"),)))
    np.testing.assert_array_equal(total.numpy(), [2, 3])
    np.testing.assert_array_equal(first.numpy(), [1, 2])
    text = error_of(lambda: machine.run(([1, 2], (np.ones(3, "float32"),))))
    assert "t[1][0]: dim 0 is 3, expected 2 (shape (3,), expected float32[2])" in text
    assert "t: a tuple of 1, expected 2 fields" in error_of(lambda: machine.run(([1, 2],)))
    assert "t: an array, expected a tuple" in error_of(lambda: machine.run(Y))


def test_inputs_stay_set(vm: VirtualMachine) -> None:
    assert "Input has not been set for function main" in error_of(vm.run)
    x = X.copy()
    vm.set_input("main", x, y=Y)
    x[...] = 0
    np.testing.assert_array_equal(vm.run().numpy(), SUMS, "numpy inputs were copied")
    np.testing.assert_array_equal(vm.invoke("main").numpy(), SUMS)


def test_one_input_at_a_time(vm: VirtualMachine) -> None:
    vm.set_one_input("main", "x", X)
    text = error_of(vm.run)
    assert "The number of provided parameters doesn't match the number of arguments: y not set" in text
    vm.set_one_input("main", 1, Y)
    np.testing.assert_array_equal(vm.run().numpy(), SUMS)
    vm.set_one_input("main", y=np.zeros(2, "float32"))
    np.testing.assert_array_equal(vm.run().numpy(), [3, 12])
    vm.set_one_input("main", y=np.zeros(3, "float32"))
    assert "y: n = 3, but x already bound n = 2" in error_of(vm.run)


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        (("xx", X), {}, "main has no input 'xx', expected x, y; did you mean 'x'?"),
        ((2, X), {}, "main has no input 2, expected x, y"),
        ((-1, X), {}, "main has no input -1"),
        ((X,), {}, "set_one_input takes one input"),
        ((), {"x": X, "y": Y}, "set_one_input takes one input"),
        (("x", X.astype("int8")), {}, "x: dtype int8, expected float32"),
    ],
)
def test_one_wrong_input(vm: VirtualMachine, args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    assert text in error_of(lambda: vm.set_one_input("main", *args, **kwargs))


def test_outputs_of_a_stateful_call() -> None:
    machine = VirtualMachine(executable(vm_programs.tuples()))
    assert "call invoke_stateful first" in error_of(machine.get_outputs, VMError)
    machine.invoke_stateful("main", ([1, 2], ([3, 4],)))
    total, (first,) = machine.get_outputs()
    assert total.numpy().tolist() == [4, 6]
    assert first.numpy().tolist() == [1, 2]


def test_a_single_output_is_a_list_of_one(vm: VirtualMachine) -> None:
    vm.invoke_stateful("main", X, Y)
    (out,) = vm.get_outputs()
    np.testing.assert_array_equal(out.numpy(), SUMS)


def test_get_input_index(vm: VirtualMachine) -> None:
    assert [vm.get_input_index(name) for name in ("x", "y", "z")] == [0, 1, -1]


def test_outputs_into_given_tensors(vm: VirtualMachine) -> None:
    target = tvm.runtime.empty((2,), "float32")
    vm.invoke_with_outputs("main", {"x": X, "y": Y}, [target])
    np.testing.assert_array_equal(target.numpy(), SUMS)
    vm.set_input("main", X, np.zeros(2, "float32"))
    vm.invoke_with_outputs("main", None, [target])
    np.testing.assert_array_equal(target.numpy(), [3, 12])


@pytest.mark.parametrize(
    ("shapes", "dtype", "text"),
    [
        ([(2,), (2,)], "float32", "Number of outside output tensors should be equal to model outputs number"),
        ([(2,)], "int32", "Data types mismatching for internal and external output tensors"),
        ([(3,)], "float32", "Element number mismatching of internal and external output tensors"),
        ([(2, 1)], "float32", "Internal and external output tensor shapes are mismatched"),
    ],
)
def test_outputs_that_do_not_fit(vm: VirtualMachine, shapes: list[tuple[int, ...]], dtype: str, text: str) -> None:
    targets = [tvm.runtime.empty(shape, dtype) for shape in shapes]
    assert text in error_of(lambda: vm.invoke_with_outputs("main", {"x": X, "y": Y}, targets))


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmark(vm: VirtualMachine, end_to_end: bool) -> None:
    result = vm.benchmark("cpu", X, y=Y, repeat=3, number=2, end_to_end=end_to_end)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max < 1
    vm.set_input("main", X, Y)
    assert vm.benchmark("cpu").mean > 0


def test_an_unknown_function_lists_the_known(vm: VirtualMachine) -> None:
    text = error_of(lambda: vm.invoke("mian", X))
    assert text == "Cannot find function mian in the executable; did you mean 'main'?; it has main"


def test_a_failure_of_the_program_is_one_line_and_has_its_cause() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.match_cast(x, relax.TensorType([4], "float32")))
    signature = Signature("main", (TensorSpec("x", "float32", ("n",)),))
    machine = VirtualMachine(executable((builder.get(), signature)))
    with pytest.raises(VMError) as caught:
        machine.run(np.zeros(3, "float32"))
    assert str(caught.value) == (
        'main failed: match_cast, ty=R.Tensor((4,), dtype="float32"): match_cast error, '
        "shape[0] mismatch to specified constant. (3 vs. 4)"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert machine.run(np.zeros(4, "float32")).shape == (4,), "the machine works on after a failure"


def test_without_a_signature_the_program_checks() -> None:
    machine = VirtualMachine(vm_programs.compiled(vm_programs.add_rows()[0]))
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), SUMS)
    text = error_of(lambda: machine.run(X.astype("float64"), Y), VMError)
    assert "param=x" in text and "expect Tensor with dtype float32 but get float64" in text
    assert "y: missing, expected any" in error_of(lambda: machine.run(X))


def test_a_relax_executable_is_taken_too() -> None:
    exe = tvm.compile(vm_programs.add_rows()[0], "llvm")
    np.testing.assert_array_equal(VirtualMachine(exe).run(X, Y).numpy(), SUMS)


@pytest.mark.parametrize("what", [None, 1, "model.vmx", tvm.IRModule()])
def test_what_is_no_executable(what: Any) -> None:
    text = error_of(lambda: VirtualMachine(what), TypeError)
    assert "expected an Executable or a runtime module of the Relax VM" in text


def test_an_absent_device_is_an_error(rows: Executable) -> None:
    assert "device hexagon:0 is not available" in error_of(lambda: VirtualMachine(rows, "hexagon"), DeviceError)


def test_a_device_of_another_kind_than_the_target_is_an_error(rows: Executable) -> None:
    other = Executable(rows.mod, rows.signatures, tvm.target.Target("vulkan"))
    text = error_of(lambda: VirtualMachine(other, "cpu"), DeviceError)
    assert "Unable to find a physical device (from among the 1 given) to match the virtual device" in text
    assert "device type vulkan" in text


def test_code_for_another_cpu_does_not_start(rows: Executable) -> None:
    target = tvm.target.Target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
    text = error_of(lambda: VirtualMachine(Executable(rows.mod, rows.signatures, target)), ExecutableError)
    assert "cannot run here: built for riscv64" in text


@pytest.mark.parametrize("config", [None, "naive", "pooled", {"cpu": "naive"}, {tvm.cpu(): "pooled"}])
def test_memory_configurations(rows: Executable, config: Any) -> None:
    machine = VirtualMachine(rows, "cpu", config)
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), SUMS)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("arena", "unknown allocator 'arena' in memory_cfg, expected 'naive' or 'pooled'"),
        ({"cpu": "arena"}, "unknown allocator 'arena'"),
        (3, "memory_cfg is expected be string or dictionary, but received <class 'int'>"),
        ({"cpu:1": "naive"}, "memory_cfg names cpu:1, which the machine does not run on"),
    ],
)
def test_wrong_memory_configurations(rows: Executable, config: Any, text: str) -> None:
    assert text in error_of(lambda: VirtualMachine(rows, "cpu", config), OptionError)


def test_threads_take_turns(vm: VirtualMachine) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = np.full((seed + 1, 5), seed, "float32")
        y = np.full(seed + 1, 0.5, "float32")
        for _ in range(200):
            out = vm.run(x, y).numpy()
            if out.shape != (seed + 1,) or (out != seed * 5 + 0.5).any():
                wrong.append((seed, out))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_recursion_100_000_levels_deep() -> None:
    machine = VirtualMachine(executable((vm_programs.Triangle, vm_programs.scalars("i"))))
    assert machine.run(100).numpy() == 5050
    expected = np.int64(100_000 * 100_001 // 2).astype("int32")
    assert machine.run(100_000).numpy() == expected
    assert machine.benchmark("cpu", 10, repeat=1, number=1).mean > 0


def test_recursion_is_seen_in_the_bytecode() -> None:
    machine = VirtualMachine(vm_programs.compiled(vm_programs.Triangle))
    assert machine.executable.needs_deep_stack
    assert machine.run(20_000).numpy() == 20_000 * 20_001 // 2
    assert not executable(vm_programs.add_rows()).needs_deep_stack
    assert not executable((vm_programs.Triangle, vm_programs.scalars("i")), recursive=False).needs_deep_stack


def test_recursion_without_end_is_an_error() -> None:
    program = (vm_programs.Triangle, vm_programs.scalars("i"))
    machine = VirtualMachine(executable(program, stack_bytes=32 << 20))
    text = error_of(lambda: machine.run(10_000_000), VMError)
    assert text == (
        "main failed: the recursion is too deep for a stack of 32 MiB; does it end? A tail call needs no stack"
    )
    assert machine.run(1000).numpy() == 500_500, "the machine works on after the error"


def test_errors_cross_the_deep_thread() -> None:
    machine = VirtualMachine(executable((vm_programs.Triangle, vm_programs.scalars("i"))))
    assert "i: 1.5 does not fit int32" in error_of(lambda: machine.run(1.5))
    assert machine.run(1).numpy() == 1


def test_a_loop_from_a_tail_call_needs_no_deep_stack() -> None:
    module = vm_programs.compiled(vm_programs.Sum)
    looped = vm_programs.link(tail_calls_to_loops(vm_programs.code_of(module)), module)
    machine = VirtualMachine(Executable(looped, {"main": vm_programs.scalars("i", "acc")}))
    assert not machine.executable.needs_deep_stack
    expected = np.int64(300_000 * 300_001 // 2).astype("int32")
    assert machine.run(300_000, 0).numpy() == expected


def test_the_program_may_call_the_machine_again() -> None:
    machine: list[VirtualMachine] = []

    @tvm.register_global_func("vmkit.test.again", override=True)
    def again(x: Any) -> Any:
        return machine[0].invoke("inner", x)

    builder = relax.BlockBuilder()
    tensor = relax.TensorType([2], "float32")
    x, y = relax.Var("x", tensor), relax.Var("y", tensor)
    with builder.function("inner", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    with builder.function("main", [y]):
        call = relax.op.call_pure_packed("vmkit.test.again", y, ty_args=[tensor])
        builder.emit_func_output(builder.emit(call))
    for recursive in (False, True):
        machine[:] = [
            VirtualMachine(Executable(vm_programs.compiled(builder.get()), info=BuildInfo(recursive=recursive)))
        ]
        assert machine[0].run(np.ones(2, "float32")).numpy().tolist() == [2, 2]


def test_adt_results_and_arguments() -> None:
    builder = relax.ExecBuilder()
    with builder.function("wrap", num_inputs=1, param_names=["x"]):
        builder.emit_call("vm.builtin.make_tuple", [builder.imm(7), builder.r(0), builder.r(0)], dst=builder.r(1))
        builder.emit_ret(builder.r(1))
    with builder.function("same", num_inputs=1, param_names=["x"]):
        builder.emit_ret(builder.r(0))
    signatures = {name: Signature(name, (AnySpec("x"),)) for name in ("wrap", "same")}
    machine = VirtualMachine(Executable(builder.get().mod, signatures))
    value = machine.invoke("wrap", Y)
    assert (value.tag, len(value)) == (7, 2)
    np.testing.assert_array_equal(value[1].numpy(), Y)
    assert machine.invoke("same", value).tag == 7
    nested = machine.invoke("same", ADT(1, [2, ADT(0)]))
    assert (nested.tag, nested[0].numpy(), nested[1].tag) == (1, 2, 0)


def test_lists_of_any_length_come_and_go() -> None:
    builder = relax.ExecBuilder()
    with builder.function("same", num_inputs=1, param_names=["x"]):
        builder.emit_ret(builder.r(0))
    machine = VirtualMachine(Executable(builder.get().mod, {"same": Signature("same", (AnySpec("x"),))}))
    value = ADT(0)
    for _ in range(100_000):
        value = ADT(1, [value])
    back = machine.invoke("same", value)
    machine.set_input("same", value)
    node, length = back, 0
    while node.tag:
        node, length = node[0], length + 1
    assert length == 100_000
    del node, value, back, machine


def test_an_unchecked_call_skips_the_signature_only() -> None:
    machine = VirtualMachine(executable(vm_programs.add_rows()), check_inputs=False)
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), SUMS)
    assert "mismatch to a previous populated value" in error_of(lambda: machine.run(X, np.ones(3, "float32")), VMError)
