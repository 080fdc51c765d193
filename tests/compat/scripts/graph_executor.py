import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import relay
from tvm.contrib import graph_executor

data = relay.var("data", shape=(1, 3, 8, 8))
weight = relay.var("weight", shape=(4, 3, 3, 3))
conv = relay.nn.conv2d(data, weight, kernel_size=(3, 3), padding=(1, 1), channels=4)
mod = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.relu(conv)))
params = {"weight": tvm.nd.array(np.random.rand(4, 3, 3, 3).astype("float32") - 0.5)}

target = tvm.target.Target("llvm -num-cores=2")
with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 10}, disabled_pass=["AlterOpLayout"]):
    lib = relay.build(mod, target=target, params=params)

dev = tvm.cpu(0)
x = np.random.rand(1, 3, 8, 8).astype("float32")
module = graph_executor.GraphModule(lib["default"](dev))
module.set_input("data", tvm.nd.array(x))
module.run()
out = module.get_output(0, tvm.nd.empty((1, 4, 8, 8))).asnumpy()
assert module.get_num_inputs() == module.get_num_outputs() == 1
assert out.min() == 0 and out.max() > 0

with tempfile.TemporaryDirectory() as folder:
    lib.export_library(f"{folder}/net.so")
    loaded = graph_executor.GraphModule(tvm.runtime.load_module(f"{folder}/net.so")["default"](dev))
    loaded.run(data=x)
    tvm.testing.assert_allclose(loaded.get_output(0).numpy(), out)

static = relay.create_executor("graph", mod=mod, device=dev, target="llvm", params=params).evaluate()
tvm.testing.assert_allclose(static(x).numpy(), out, rtol=1e-5)
assert len(module.module.time_evaluator("run", tvm.cpu(), number=1, repeat=3)().results) == 3

value = relay.var("value", shape=(2,))
doubled = relay.build(tvm.IRModule.from_expr(relay.Function([value], value + value)), "llvm")
weights = relay.save_param_dict({"value": np.ones(2, "float32"), "key": np.ones(1)})
module = graph_executor.GraphModule(doubled["default"](dev))
module.load_params(weights)
module.run()
assert module.get_output(0).numpy().tolist() == [2, 2]
