"""Modules of expressions, and structural equality, as scripts for Relay use them."""

import tvm
from tvm import relay

x = relay.var("x", shape=(2,))
function = relay.Function([x], relay.exp(x))
assert tvm.ir.structural_equal(tvm.IRModule.from_expr(function), tvm.IRModule({"main": function}))
assert tvm.IRModule.from_expr(function)["main"].same_as(function) and function.ret_type is None

named = tvm.IRModule.from_expr(function.with_attr("global_symbol", "entry"))
assert [v.name_hint for v in named.get_global_vars()] == ["entry"]
beside = tvm.IRModule.from_expr(relay.log(x), functions={tvm.ir.GlobalVar("main"): function})
assert sorted(v.name_hint for v in beside.get_global_vars()) == ["main", "main_0"]

try:
    tvm.ir.assert_structural_equal(relay.exp(x), relay.log(x))
except ValueError as error:
    assert "exp(%x)" in str(error) and "log(%x)" in str(error)
else:
    raise AssertionError("exp is not log")
tvm.ir.assert_structural_equal(relay.exp(x), relay.exp(relay.var("y", shape=(2,))), map_free_vars=True)
assert tvm.ir.structural_hash(function) == tvm.ir.structural_hash(relay.Function([x], relay.exp(x)))

library = tvm.IRModule()
library.import_from_std("gradient.rly")
library.import_from_std("core.rly")
header, definition = library.type_definitions.items()[-1]
assert (header.name_hint, len(definition.constructors)) == ("Storage", 0)
assert relay.GlobalVar("f").astext().endswith("\n@f")
assert tvm.ir.Op.get("nn.relu").astext().endswith("\nnn.relu")
call = relay.var("x", "float32") + relay.const(1.0)
text = call.astext(annotate=lambda e: " /* here */" if isinstance(e, relay.Call) else "")
assert text.endswith("free_var %x: float32;\nadd(%x, 1f) /* here */"), text

# Type arguments of a call of anything but an operator count; those of operators follow from the operator.
callee, argument = relay.var("callee"), relay.var("argument")
scalar, vector = relay.TensorType(()), relay.TensorType((2,))
call, other, without = (relay.Call(callee, [argument], None, types) for types in ([scalar], [vector], []))
assert tvm.ir.structural_equal(call, relay.Call(callee, [argument], None, [relay.TensorType(())]))
for each in (other, without):
    assert not tvm.ir.structural_equal(call, each)
    assert tvm.ir.structural_hash(call) != tvm.ir.structural_hash(each)
