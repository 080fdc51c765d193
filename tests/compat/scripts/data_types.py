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

of_tensors = tvm.IRModule()
Prelude(of_tensors)
tensor, tensor_nil, *_ = of_tensors.get_type("tensor_float32_t")
assert of_tensors.get_constructor(tensor_nil.tag).name_hint == "tensor_nil_float32"
assert of_tensors.get_global_type_var("tensor_int8_t").name_hint == "tensor_int8_t"
assert len(of_tensors["tensor_concatenate_int64"].params) == 2
assert of_tensors.get_global_var("tensor_array_read_uint8").name_hint == "tensor_array_read_uint8"


@tvm.transform.module_pass(opt_level=3, name="OfScript")
def of_script(mod, context):
    seen.append(len(mod.functions))
    return mod


seen = []
with tvm.transform.PassContext(opt_level=1, required_pass=["OfScript"]):
    tvm.transform.Sequential([of_script])(tvm.IRModule())
assert seen == [0]
