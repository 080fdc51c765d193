import tvm
from tvm import relay
from tvm.contrib import utils
from tvm.relay.backend.interpreter import ConstructorValue
from tvm.relay.prelude import Prelude
from tvm.runtime.container import ADT

x = relay.var("x", shape=(3, relay.Any()))
function = relay.Function([x], x + x)
for node in (x, function, function.body, relay.GlobalVar("f"), relay.op.get("add")):
    assert isinstance(node, relay.Expr) and isinstance(node, tvm.ir.RelayExpr)
assert not isinstance(x.type_annotation, relay.Expr)
assert issubclass(relay.Function, relay.expr.Expr) and function.body.op == relay.op.get("add")

typed = relay.transform.AnnotateSpans()(tvm.IRModule.from_expr(function))["main"]
known, unknown = typed.body.type_args[0].shape
assert known.value == 3 and isinstance(unknown, tvm.tir.Any) and typed.body.span is not None
assert typed.params[0].vid.same_as(typed.body.args[0].vid)
assert relay.transform.InferTypeLocal(x * x) == x.type_annotation

assert str(relay.TupleType([x.type_annotation, relay.TupleType([])])) == "(Tensor[(3, ?), float32], ())"

for node in (function, function.body, x.type_annotation, relay.TupleType([])):
    assert node.astext(show_meta_data=False).strip() == f'#[version = "0.0.5"]\n{node}'
assert relay.op.image.resize2d is relay.image.resize2d and relay.op.random.threefry_key is relay.random.threefry_key
assert tvm.ir.make_node("DictAttrs", key=1)["key"] == 1

attrs = relay.nn.conv2d(x, x, kernel_size=(3, 3), padding=(1, 2), channels=4).attrs
assert attrs["groups"] == attrs.get_int("groups") == 1 and attrs.get_int_tuple("kernel_size") == (3, 3)
assert attrs.get_str("data_layout") == "NCHW" and {"strides", "padding"} <= set(attrs.keys())
add = relay.op.get("add")
assert (add.num_inputs, add.support_level, [a.name for a in add.arguments]) == (2, 1, ["lhs", "rhs"])
assert relay.FuncType([], relay.TupleType([]), None, []) == relay.FuncType([], relay.TupleType([]))
try:
    relay.fromtext('#[version = "0.0.5"]\ndef @main(%x) { %y }')
    raise AssertionError("a text with an unknown variable was read")
except tvm.error.DiagnosticError as error:
    assert "%y" in str(error)

mod = tvm.IRModule()
_, cons, nil = Prelude(mod).mod.get_type("List")
value = ConstructorValue(cons.tag, [tvm.nd.array(1), ConstructorValue(nil.tag, [], nil)], cons)
mod["main"] = relay.Function([], relay.Tuple([cons(relay.const(1), nil()), relay.const(2)]))
result = relay.create_executor("debug", mod).evaluate()()
assert isinstance(result, ADT) and not isinstance(result, ConstructorValue) and len(result) == 2
assert isinstance(result[0], ConstructorValue) and isinstance(value, ConstructorValue)
assert [len(result[0]), len(result[0].fields[1].fields)] == [2, 0] and ADT(0, [1])[0] == 1

i = relay.var("i", shape=(), dtype="int32")
run = relay.create_executor("debug").evaluate(relay.Function([i], i + relay.const(1, relay.scalar_type("int32"))))
assert run(relay.const(4)).numpy() == 5

assert tvm.device("llvm -mcpu=core2", 0) == tvm.cpu() == tvm.nd.device(tvm.target.Target("llvm"))
folder = utils.tempdir()
with open(folder.relpath("file"), "w") as file:
    file.write("text")
