import tempfile
import warnings

import numpy as np
import tvm
from tvm import TVMError, nd, relay
from tvm.relay.backend import vm as vm_compiler
from tvm.runtime import container, profiler_vm
from tvm.runtime import vm as vm_rt
from tvm.runtime.profiling import Report

x = relay.var("x", shape=(relay.Any(), 2), dtype="float32")
mod = tvm.IRModule()
mod["main"] = relay.Function([x], relay.concatenate([x, relay.op.nn.relu(x)], axis=0))

compiler = vm_compiler.VMCompiler()
with tvm.transform.PassContext(opt_level=3):
    compiler.lower(mod, "llvm")
    compiler.codegen()
code, lib = compiler.get_exec().save()
exe = vm_rt.Executable.load_exec(code, lib)
machine = vm_rt.VirtualMachine(exe, tvm.cpu())

for rows in (1, 3):
    value = np.arange(2 * rows, dtype="float32").reshape(rows, 2) - 1
    result = machine.invoke("main", nd.array(value))
    np.testing.assert_array_equal(result.asnumpy(), np.concatenate([value, value.clip(0)]))

try:
    machine.run(np.zeros((2, 3), "float32"))
except TVMError as error:
    assert "expected 2" in str(error)
else:
    raise AssertionError("a wrong shape was accepted")

exe = relay.vm.compile(tvm.parser.fromtext(mod.astext()), target="llvm")
assert isinstance(exe, vm_rt.Executable)
assert str(relay.transform.InferType()(mod)["main"].checked_type.ret_type) == "Tensor[(?, 2), float32]"
assert container.ADT(3, [nd.array(1)]).tag == 3

# Arguments of another type, in places that keywords leave, beside keywords that nobody takes.
flag, a, b = relay.var("flag", "bool"), relay.var("a", "float32"), relay.var("b", shape=(2,))
chosen = relay.If(flag, relay.multiply(b, a), b)
machine = vm_rt.VirtualMachine(
    relay.vm.compile(tvm.IRModule.from_expr(relay.Function([flag, a, b], chosen))), tvm.cpu()
)
two = np.array([1.0, 2.0])
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    result = machine.invoke("main", np.array([1], "int32"), two, a=np.array([3.0]), weight=two)
np.testing.assert_array_equal(result.numpy(), [3, 6])
assert ["weight" in str(each.message) for each in warned] == [True]
machine.set_input("main", 0, 3, two)
np.testing.assert_array_equal(machine.run().numpy(), [1, 2])
machine.set_one_input("main", "flag", np.array([1]))
machine.set_one_input("main", a=np.array([2]))
machine.set_one_input("main", 2, [4, 5])
np.testing.assert_array_equal(machine.run().numpy(), [8, 10])
for call in (lambda: machine.run(2, 1.0, two), lambda: machine.set_one_input("main", "flag", np.array([5]))):
    try:
        call()
    except TVMError as error:
        assert "flag" in str(error)
    else:
        raise AssertionError("2 was taken for a truth value")
assert machine.benchmark(tvm.cpu(), 1, 1.0, b=two, repeat=2, number=1).mean > 0

# Constants outside the executable, bound through the module that was loaded.
large = np.random.rand(40, 40).astype("float32")
x = relay.var("x", shape=(40, 40))
exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(large)))), "llvm")
assert exe.primitive_ops == ["vm_mod_fused_add"] and exe.mod["get_stats"]() == exe.stats
assert "device type 1" in exe.virtual_devices
with tempfile.TemporaryDirectory() as folder:
    exe.move_late_bound_consts(f"{folder}/constants", byte_limit=256)
    exe.mod.export_library(f"{folder}/model.so")
    module = tvm.runtime.load_module(f"{folder}/model.so")
    assert isinstance(module, tvm.runtime.Module) and module["get_function_arity"]("main") == 1
    assert module["get_function_param_name"]("main", 0) == "x"
    try:
        vm_rt.VirtualMachine(module, tvm.cpu())
    except TVMError as error:
        assert "Need to load late-bound-constants" in str(error)
    else:
        raise AssertionError("a machine without its constants")
    module["load_late_bound_consts"](f"{folder}/constants")
    exe.load_late_bound_consts(f"{folder}/constants")
    constants = exe.mod["get_late_bound_consts"](256)
    other = vm_rt.Executable(tvm.runtime.load_module(f"{folder}/model.so"))
    other.load_late_bound_consts_from_map(constants)
for each in (module, other):
    result = vm_rt.VirtualMachine(each, tvm.cpu()).invoke("main", np.ones((40, 40)))
    np.testing.assert_array_equal(result.numpy(), large + 1)

# Where the time of a call goes.
profiler = profiler_vm.VirtualMachineProfiler(other, tvm.cpu())
report = profiler.profile(np.ones((40, 40)), func_name="main")
assert isinstance(report, Report) and "add" in [call["Name"] for call in report.calls]
try:
    profiler.profile(large, collectors=[object()])
except TVMError as error:
    assert "collectors of hardware counters are gone" in str(error)
else:
    raise AssertionError("collectors were ignored")
