import numpy as np
import tvm
import tvm.testing
from tvm import relay, te
from tvm._ffi.base import TVMError
from tvm.contrib import utils
from tvm.contrib.nvcc import have_fp16
from tvm.relay.testing import check_grad, run_infer_type
from tvm.relay.testing.temp_op_attr import TempOpAttr
from tvm.relay.transform.transform import InferType


def ran(expr, *arrays, kind="graph"):
    func = relay.Function(relay.analysis.free_vars(expr), expr)
    return relay.create_executor(kind, device=tvm.cpu(), target="llvm").evaluate(func)(*arrays)


# Symbolic shapes, and the text of an expression.
n, t = te.size_var("n"), te.size_var("t")
x, y = relay.var("x", shape=(n, t, 100)), relay.var("y", shape=(n, t, 100))
joined = relay.concatenate((x, y), axis=1)
assert "axis=1" in joined.astext() and joined.op.name in joined.astext()
assert run_infer_type(joined).checked_type == relay.TensorType((n, t + t, 100))
assert relay.op.get("concatenate") == joined.op

# The executors convert what they are given, and refuse what would lose something.
data = relay.var("data", shape=(2, 3))
fill = relay.var("fill", "int32")
numbers = np.arange(6).reshape(2, 3)
tvm.testing.assert_allclose(ran(relay.nn.relu(data), numbers - 3).numpy(), np.maximum(numbers - 3, 0))
tvm.testing.assert_allclose(ran(fill + relay.const(1), 2.0).numpy(), 3)
tvm.testing.assert_allclose(ran(relay.nn.relu(data), numbers - 3, kind="vm").numpy(), np.maximum(numbers - 3, 0))
for kind in ("graph", "vm", "debug"):
    try:
        ran(fill + relay.const(1), np.array(2.5), kind=kind)
    except TVMError as error:
        assert "fill: dtype float64, and not all of its values are int32" in str(error)
    else:
        raise AssertionError("an executor dropped a fraction")

# Builders that are no operators of their own.
tvm.testing.assert_allclose(ran(relay.reverse_reshape(data, (0, -1)), numbers).numpy(), numbers)
moments = relay.mean_variance(data, 1)
mean, variance = ran(moments.astuple(), numbers)
tvm.testing.assert_allclose(variance.numpy(), numbers.var(1), rtol=1e-5)
assert relay.op.mean_std is relay.mean_std and relay.op.segment_sum is relay.segment_sum

# What some builders give is a tuple; it has a text, and its type may leave out bits.
cut = relay.split(data, 3, axis=1)
assert "indices_or_sections=3" in cut.astext()
assert run_infer_type(cut).checked_type == relay.TupleType([relay.TensorType((2, 1), "float")] * 3)
with TempOpAttr("split", "TOpOfThisScript", 7):
    assert relay.op.get("split").get_attr("TOpOfThisScript") == 7
assert relay.op.get("split").get_attr("TOpOfThisScript") is None

# The old way to build: graph, library and parameters.
graph, lib, params = relay.build(relay.Function([data], relay.nn.softmax(data)), "llvm", params={})
assert "main" in lib.get_source("asm") or lib.get_source("asm")
module = tvm.contrib.graph_executor.create(graph, lib, tvm.cpu())
module.set_input("data", numbers)
module.set_input(**params)
module.set_input(**{"bias": np.zeros(3)})
module.run()
tvm.testing.assert_allclose(module.get_output(0).numpy().sum(1), np.ones(2), rtol=1e-5)
relay.backend.te_compiler.get().clear()

weight = relay.var("weight", shape=(2, 3), dtype="float64")
check_grad(relay.Function([weight], relay.nn.softmax(weight) * weight), scale=1.0)
