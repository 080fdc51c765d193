import json
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

# The graph, the library and the parameters apart, also through files.

left, right = relay.var("left", shape=(2, 2)), relay.var("right", shape=(2, 2))
inner = relay.Tuple([relay.subtract(left, right), relay.exp(right)])
weights = {"right": np.full((2, 2), 2, "float32")}
both = relay.build(relay.Function([left, right], relay.Tuple([left, inner])), "llvm", params=weights, mod_name="net")
graph = json.loads(both.get_graph_json())
assert [node["op"] for node in graph["nodes"]].count("tvm_op") >= 2 and list(both.get_params()) == ["p0"]
assert both.libmod_name == "net" and both.get_executor_config() == both.graph_json
value = np.array([[1, 2], [3, 4]], "float32")
with tvm.transform.PassContext(opt_level=3, required_pass=["FastMath"]):
    fast = relay.build(relay.Function([left], relay.exp(left)), "llvm")
assert "tvmgen_default_fused_fast_exp" in fast.get_graph_json() and "fast_exp" not in both.get_graph_json()
with tempfile.TemporaryDirectory() as folder:
    both.export_library(f"{folder}/both.so")
    library = tvm.runtime.load_module(f"{folder}/both.so")
    both.get_lib().export_library(f"{folder}/library.so")
    assert tvm.runtime.load_module(f"{folder}/library.so").fingerprint == both.fingerprint
    for each in (both, both.lib, library):
        module = graph_executor.create(both.get_graph_json(), each, tvm.cpu())
        module.load_params(tvm.runtime.save_param_dict(both.get_params()))
        module["set_input"]("left", value)
        module["run"]()
        assert module.get_num_outputs() == 3
        np.testing.assert_array_equal(module["get_output"](1).numpy(), value - 2)
shapes, dtypes = module.get_output_info()
assert tuple(shapes["output_2"]) == (2, 2) and dtypes["output_2"] == "float32"
assert module.get_output_index("output_1") == 1 and module.get_output_index("none") == -1
first = graph_executor.GraphModule(both["net"](tvm.cpu()))
first.set_input(left=value)
first.share_params(module, tvm.runtime.save_param_dict({"left": value}))
first.run()
np.testing.assert_array_equal(first.get_input("left").numpy(), value)

for wrong, part in (
    (lambda: first.set_input(p0=np.zeros((2, 2), "float32")), "p0 is a constant inside the model"),
    (lambda: graph_executor.create(both.get_graph_json(), lib, tvm.cpu()), "of another program"),
    (lambda: graph_executor.create('{"nodes": []}', both, tvm.cpu()), "not one of vmkit's"),
    (lambda: first.get_output(3), "3 outputs"),
    (lambda: first.debug_get_output(0, None), "debug_executor"),
    (lambda: library.source, "read from a file"),
):
    try:
        wrong()
    except (RuntimeError, ValueError) as error:
        assert part in str(error), error
    else:
        raise AssertionError(part)
