"""Names that are gone import, and refuse when they are called; those around building do what they can."""

import logging

import numpy as np
import tvm
from tvm import auto_scheduler, autotvm, relay
from tvm.autotvm.tuner import XGBTuner
from tvm.contrib.debugger import debug_result
from tvm.ir.diagnostics import DiagnosticLevel, get_renderer, override_renderer
from tvm.ir.memory_pools import WorkspaceMemoryPools
from tvm.micro.testing.utils import check_tune_log
from tvm.relay.backend import graph_executor_codegen
from tvm.relay.frontend.common import infer_shape, infer_type
from tvm.relay.frontend.tflite import from_tflite


def refuses(call, *parts):
    try:
        call(1)
    except NotImplementedError as error:
        assert all(part in str(error) for part in parts), error
    else:
        raise AssertionError(f"{call} does not refuse")


refuses(XGBTuner, "tvm.autotvm.tuner.XGBTuner is gone", "vmkit.tophub.tune")
refuses(autotvm.task.create, "vmkit.tophub.tune")
refuses(autotvm.measure.MeasureInput, "vmkit.tophub.tune")
refuses(autotvm.task.space.ConfigSpace, "vmkit.tophub.tune")
refuses(autotvm.measure.executor.Executor, "vmkit.tophub.tune")
refuses(auto_scheduler.SearchTask, "tvm.auto_scheduler.SearchTask")
refuses(debug_result.DebugResult, "VirtualMachine.benchmark")
assert tvm.WorkspaceMemoryPools is tvm.ir.WorkspaceMemoryPools is WorkspaceMemoryPools
refuses(check_tune_log, "vmkit.mlf.export writes C")
refuses(from_tflite, "export the model to ONNX")
refuses(relay.frontend.from_pytorch, "export the model to ONNX")
refuses(tvm.tir.stmt_functor.post_order_visit, "no visitors of TIR")
try:
    print(autotvm.task.creat)
except AttributeError as error:
    assert "did you mean 'create'" in str(error)


@autotvm.register_topi_compute("mine.x86")
def compute(cfg, data):
    return data


refuses(compute, "'mine.x86'", "relay.op.register_compute")

# Scripts build within the scopes of their records.
x = relay.var("x", shape=(2, 3))
heard = []
handler = logging.Handler()
handler.emit = heard.append
logging.getLogger("vmkit.compat.autotvm").addHandler(handler)
autotvm.GLOBAL_SCOPE.silent = True
with autotvm.tophub.context("llvm"), autotvm.apply_history_best("records.log"), relay.build_config(opt_level=3):
    lib = relay.build(relay.Function([x], relay.exp(x)), "llvm")
assert len(heard) == 1 and "vmkit.tophub.tune" in heard[0].getMessage()
module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
module.run(x=np.zeros((2, 3), "float32"))
np.testing.assert_array_equal(module.get_output(0).numpy(), np.ones((2, 3)))

# What is not gone, under its old name.
assert tvm.transform.PassInfo(opt_level=1, name="mine").name == "mine"
assert relay.annotation.on_device(x, "cuda").attrs.virtual_device.device_type_int == tvm.cuda().device_type
assert infer_shape(relay.nn.dense(x, relay.var("w", shape=(4, 3)))) == (2, 4)
assert infer_type(relay.exp(x)).checked_type.dtype == "float32"
assert isinstance(tvm.runtime.save_param_dict({"w": np.ones(2)}), bytearray)
assert tvm._ffi.base.py_str(b"text") == "text"
assert isinstance(tvm.runtime.convert({"a": 1}), tvm.ir.container.Map)
target, host = tvm.target.Target.canon_target_and_host("llvm")
assert target.host.kind.name == host.kind.name == "llvm"
optimized, _ = relay.optimize(tvm.IRModule.from_expr(relay.exp(x)), target)
_, kernels, params = graph_executor_codegen.GraphExecutorCodegen(None, target).codegen(optimized, optimized["main"])
assert params == {} and relay.backend._backend.build(kernels, target) is not None

seen = []
override_renderer(lambda context: seen.extend(context.diagnostics))
try:
    relay.transform.InferType()(
        tvm.IRModule({"main": relay.Function([x], relay.nn.dense(x, relay.const(np.ones((4, 5)))))})
    )
except tvm.error.DiagnosticError as error:
    assert type(error) is tvm.error.DiagnosticError
override_renderer(None)
assert seen and seen[0].level == DiagnosticLevel.ERROR and get_renderer() is not None

with tvm.testing.enable_span_filling(), tvm.testing.disable_span_filling():
    pass
assert tvm.topi.testing.conv2d_nchw_python(np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3)), 1, 1).sum() == 49
