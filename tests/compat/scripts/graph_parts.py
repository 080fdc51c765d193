"""A built model taken apart: without its parameters, under its name in files, node by node, on another machine."""

import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import relay, rpc
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor
from tvm.relay.build_module import BuildModule

x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
main = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
mod, dev = tvm.IRModule.from_expr(main), tvm.cpu()
weight, value = np.arange(12, dtype="float32").reshape(4, 3) - 6, np.ones((2, 3), "float32")
expected = np.maximum(value @ weight.T, 0)
lib = relay.build(mod, "llvm", params={"w": weight}, mod_name="net")

# What is set is copied, unless it is to be read in place; what is not set is zero.
module = graph_executor.GraphModule(lib["net"](dev))
module.run()
assert not module.get_output(0).numpy().any()
given = value.copy()
module.set_input("x", given)
given[:] = 7
module.run()
np.testing.assert_allclose(module.get_output(0).numpy(), expected)
shared, result = tvm.nd.array(value), tvm.nd.empty((2, 4))
module["set_input_zero_copy"]("x", shared)
module["set_output_zero_copy"](0, result)
shared[:] = 2 * value
module.run()
np.testing.assert_allclose(result.numpy(), 2 * expected)

# The constants of the graph as inputs.
bare = graph_executor.GraphModule(lib["remove_params"]()["net"](dev))
assert list(bare.get_input_info()[0]) == ["x", "p0"]
bare.load_params(relay.save_param_dict(lib.get_params()))
bare.run(x=value)
np.testing.assert_allclose(bare.get_output(0).numpy(), expected, rtol=1e-6)

# Node by node: the graph has x, p0 and one fused kernel.
debug = debug_executor.create(lib.get_graph_json(), lib.lib, dev)
debug.run(x=value)
np.testing.assert_allclose(debug.get_output(0).numpy(), expected, rtol=1e-6)
np.testing.assert_array_equal(debug.debug_get_output("p0").numpy(), weight)
np.testing.assert_allclose(debug.debug_get_output(2, tvm.nd.empty((2, 4))).numpy(), expected, rtol=1e-6)
times = debug.run_individual(number=1, repeat=2)
assert times[0] == times[1] == (0, 0) and len(times[2]) == 2 and min(times[2]) > 0
assert "tvmgen_net_fused_nn_dense_nn_relu" in str(debug.profile(x=value))

# A program that computes nothing has a graph, a library and no outputs.
graph, library, _ = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([]))), "llvm")
nothing = graph_executor.create(graph, library, dev)
nothing.run()
assert nothing.get_num_outputs() == 0

builder = BuildModule()
graph, library, params = builder.build(mod, "llvm", params={"w": weight})
assert graph == builder.get_graph_json() and list(params) == list(builder.get_params()) == ["p0"]
again = graph_executor.create(graph, library, dev)
again.run(x=value)
np.testing.assert_allclose(again.get_output(0).numpy(), expected)

server = rpc.Server("127.0.0.1")
session = rpc.connect(server.host, server.port)
with tempfile.TemporaryDirectory() as folder:
    for name in ("net.so", "net.tar", "net.vmx"):
        lib.export_library(f"{folder}/{name}")
        loaded = tvm.runtime.load_module(f"{folder}/{name}")
        assert loaded["get_graph_json"]() == lib.get_graph_json()
        module = graph_executor.GraphModule(loaded["net"](dev))
        module.run(x=value)
        np.testing.assert_allclose(module.get_output(0).numpy(), expected)
    session.upload(f"{folder}/net.so")
    nothing.built.export_library(f"{folder}/nothing.so")
    assert graph_executor.GraphModule(tvm.runtime.load_module(f"{folder}/nothing.so")["default"](dev)).built
remote = session.load_module("net.so")
there = graph_executor.GraphModule(remote["net"](session.cpu()))
sent = tvm.nd.array(value, session.cpu())
for each in (there, graph_executor.create(lib.get_graph_json(), remote, session.cpu())):
    each.set_input("x", sent)
    each.run()
    np.testing.assert_allclose(each.get_output(0).numpy(), expected)
    assert len(each.benchmark(session.cpu(), repeat=2, number=1, end_to_end=True).results) == 2
    assert each.benchmark(session.cpu(), repeat=1, number=1).mean > 0
server.terminate()
