import tvm
from tvm import relay
from tvm.relay.prelude import Prelude

mod = tvm.IRModule()
prelude = Prelude(mod)
rlist, cons, nil = mod.get_type("List")
x, y = relay.var("x", "int32"), relay.var("y", "int32")
one, two = relay.const(1), relay.const(2)
mapped = prelude.map(relay.Function([x], x + one), cons(one, cons(two, nil())))
total = prelude.foldl(relay.Function([x, y], x + y), relay.const(0), mapped)
mod["main"] = relay.Function([], total)
assert relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()().numpy() == 5

mod["main"] = relay.Function([], mapped)
result = relay.create_executor("debug", mod=mod).evaluate()()
assert mod.get_constructor(result.tag) == cons
assert [result[0].numpy(), result[1][0].numpy()] == [2, 3]

again = tvm.ir.load_json(tvm.ir.save_json(mod))
tvm.ir.assert_structural_equal(again, mod)
assert again.get_global_type_var("List").name_hint == "List"
assert [data.header.name_hint for data in again.type_definitions.values()] == ["List", "Option", "Tree"]
