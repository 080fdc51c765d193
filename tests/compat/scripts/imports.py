import tvm
from tvm import convert, register_func, relay, te
from tvm.contrib import ndk, nvcc, tar
from tvm.ir import SourceName, Span, structural_equal, structural_hash
from tvm.relay.backend import Executor, Runtime, te_compiler
from tvm.relay.build_module import bind_params_by_name, build, create_executor
from tvm.relay.expr import Expr, RelayExpr, bind, const
from tvm.relay.function import Function
from tvm.relay.op.nn.nn import conv2d, global_avg_pool1d
from tvm.relay.op.random import threefry_key
from tvm.relay.op.reduce import logsumexp, mean
from tvm.relay.op.tensor import concatenate, exp
from tvm.relay.op.transform import cast, reshape
from tvm.relay.testing import rand
from tvm.relay.ty import TypeKind, TypeVar
from tvm.runtime import ADT, String, profiler_vm
from tvm.script import tir as T
from tvm.testing import exclude_targets, known_failing_targets, requires_vulkan

n = te.size_var("n")
x = relay.var("x", shape=(n, 4))
body = reshape(relay.op.tensor.exp(cast(x, "float64")), (-1, 2)) + const(1.0, "float64")
function = Function([x], body)
assert structural_equal(function, Function([x], body)) and structural_hash(function) == structural_hash(function)
assert relay.op.nn.global_avg_pool1d is global_avg_pool1d and relay.op.logsumexp is logsumexp
assert isinstance(n, tvm.tir.SizeVar if isinstance(tvm.tir.SizeVar, type) else tvm.tir.Var)
assert TypeKind.ShapeVar == TypeVar("s", relay.TypeKind.ShapeVar).kind


@register_func("script.answer")
def answer(value):
    return value + 1


assert tvm.get_global_func("script.answer")(41) == 42

mod, params = relay.optimize(tvm.IRModule.from_expr(function), "llvm")
assert isinstance(mod, tvm.IRModule) and params == {}
library = relay.build(mod, target="llvm", executor=Executor("graph"), runtime=Runtime("cpp"))
assert "exp" in relay.pretty_print(function) and convert([1, 2])[1] == 2
assert profiler_vm.enabled() and rand("float64", 2, 3).shape == (2, 3)
assert (tvm.cpu(1).device_type, tvm.cpu(1).device_id) == (1, 1)

te_compiler.get().clear()
array = tvm.nd.empty((3,), "int32")
array[:] = [1, 2, 3]
assert tvm.nd.from_dlpack(array.to_dlpack()).numpy().tolist() == [1, 2, 3]
try:
    array[0] = 1
    raise AssertionError("one element of a tensor was written")
except IndexError as error:
    assert "tensor[:] = array" in str(error)
