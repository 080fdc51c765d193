"""Passes that scripts reach otherwise than by ``relay.transform``."""

import tvm
from tvm import relay

x = relay.var("x", shape=(2,))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(relay.tanh(x))))

fused = tvm._ffi.get_global_func("relay._transform.FuseOps")(2)(mod)
assert int(fused["main"].body.op.attrs["Primitive"]) == 1
anf = relay.transform.ToANormalForm()(fused)
noted = relay.transform._ffi_api.AnnotateUsedMemory()(relay.transform.InferType()(anf))
assert noted["main"].attrs["io_used_memory"] == 16

lower = tvm._ffi.get_global_func("relay.tec.LowerTE")
try:
    lower("module", None)
    raise AssertionError("LowerTE did something")
except tvm.TVMError as error:
    assert "relay.tec.LowerTE is gone: vmkit lowers Relay to Relax" in str(error)

assert tvm._ffi.get_global_func("relay._transform.FuseOp", allow_missing=True) is None
assert tvm.target.Target("opencl").max_function_args == 128
with tvm.target.Target("opencl"), tvm.transform.PassContext(config={"relay.FuseOps.link_params": True}):
    assert int(relay.transform.FuseOps(2)(mod)["main"].body.op.attrs["Primitive"]) == 1
