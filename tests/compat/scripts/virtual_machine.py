import numpy as np
import tvm
from tvm import TVMError, nd, relay
from tvm.relay.backend import vm as vm_compiler
from tvm.runtime import container
from tvm.runtime import vm as vm_rt

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
