"""What scripts do with pass contexts, the text of passes, and the places of nodes."""

import contextlib
import io
from importlib.util import find_spec

import numpy as np
import tvm
from tvm import relay
from tvm.ir.instrument import PassTimingInstrument
from tvm.topi.sparse.utils import random_bsr_matrix

x = relay.var("x", shape=(2,))
mod = tvm.IRModule.from_expr(relay.multiply(x, relay.const(2.0)))

heard = io.StringIO()
with contextlib.redirect_stderr(heard):
    assert tvm.transform.PrintIR("here")(mod)["main"].same_as(mod["main"])
assert heard.getvalue().startswith("PrintIR(here):") and "multiply(%x, 2f)" in heard.getvalue()
held = tvm.IRModule.from_expr(x + relay.const(np.ones(2, "float32")))
with contextlib.redirect_stderr(heard):
    tvm.transform.PrintIR("all", show_meta_data=True)(held)
assert "#[metadata]" in heard.getvalue().partition("PrintIR(all)")[2]
assert tvm.transform.PrintIR().info.name == "PrintIR"

context, timing = tvm.transform.PassContext.current(), PassTimingInstrument()
context.override_instruments([timing])
relay.transform.InferType()(mod)
assert "InferType" in timing.render()
context.override_instruments(None)
assert not context.instruments

configs = tvm.transform.PassContext.list_configs()
assert configs["relay.backend.use_auto_scheduler"] == {"type": "IntImm"}
assert configs["relay.ToMixedPrecision.keep_orig_output_dtype"] == {"type": "IntImm"}
assert configs["tir.ptx_ldg32"] == configs["tirx.s_tir.ldg32"]

# A context is made of the configuration of another one.
with tvm.transform.PassContext(config={"relay.FuseOps.link_params": True}) as outer:
    again = tvm.transform.PassContext(config=dict(outer.config))
assert dict(again.config) == dict(outer.config)

x.virtual_device_ = tvm.cpu()
mod["main"].virtual_device_ = relay.VirtualDevice.of("cpu")
assert not x.virtual_device_.is_constrained
try:
    x.virtual_device_ = tvm.cuda()
except NotImplementedError as error:
    assert "cannot be on cuda" in str(error) and "on_device" in str(error), error
else:
    raise AssertionError("a node has no place")

assert tvm.target.Target("cuda").max_function_args == 0  # no limit
assert "type Storage" in str(relay.parse('#[version = "0.0.5"]\ntype Storage {\n}\n'))
library = tvm.IRModule()
library.import_from_std("core.rly")
assert library.get_global_type_var("Storage").name_hint == "Storage"

if find_spec("scipy") is None:
    try:
        random_bsr_matrix(4, 6, 2, 3, 0.5, "float32")
    except NotImplementedError as error:
        assert "pip install scipy" in str(error)
    else:
        raise AssertionError("a sparse matrix needs scipy")
else:
    matrix = random_bsr_matrix(8, 12, 2, 3, 0.5, "float32")
    assert matrix.blocksize == (2, 3) and matrix.shape == (8, 12) and matrix.dtype == "float32"
    assert matrix.data.shape == (8, 2, 3) and np.count_nonzero(matrix.todense()) == 48
