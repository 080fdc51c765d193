"""Devices are planned as Relay's own scripts had it done."""

import tvm
from tvm import relay

context = tvm.transform.PassContext(config={"relay.fallback_device_type": 2})
targets = [tvm.target.Target("llvm"), tvm.target.Target("cuda -arch=sm_80")]
config = tvm.target.make_compilation_config(context, targets)
x = relay.var("x", shape=(2,))
there = relay.annotation.on_device(relay.exp(x), tvm.cpu())
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.tanh(there))))
text = relay.transform.PlanDevices(config)(mod).astext()
assert "device_copy" in text and "%x {virtual_device=meta[VirtualDevice][0]}" in text
assert config.default.device_type == 2
