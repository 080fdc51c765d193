"""Functions for other code generators go through the compiler's passes as they are."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi

from vmkit import byoc, relay
from vmkit.compiler.relay_passes import passes_for
from vmkit.compiler.stages import evaluate
from vmkit.relay import transform
from vmkit.target import canonical_target


def test_no_pass_changes_what_is_for_another_code_generator() -> None:
    p, x = (relay.var(name, shape=(1, 8, 8, 16)) for name in "px")
    weight, scale = relay.const(np.ones((3, 3, 16, 16), "float32")), relay.const(np.full(16, 2, "float32"))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    body = relay.nn.conv2d(p, weight, padding=(1, 1), kernel_size=(3, 3), **layouts) * scale
    body = relay.nn.batch_norm(body, scale, scale, scale, scale, axis=3)[0] + relay.exp(scale)
    inner = relay.Function([p], body, attrs={"Compiler": "ccompiler", "global_symbol": "part", "Primitive": 1})
    mod = byoc.with_global_functions(tvm.IRModule({"main": relay.Function([x], relay.exp(inner(x)))}))
    part = mod["part"]
    target = canonical_target("llvm -mcpu=znver4").primary
    first = [transform.LiftCalledFunctions(), transform.QnnCanonicalize(), transform.DynamicToStatic()]
    changed = []
    for each in [*first, *(each for _, each in passes_for(target, evaluate))]:
        mod = each(mod)
        if not tvm_ffi.structural_equal(mod["part"], part):
            changed.append(each.info.name)
    assert changed == []
