import numpy as np
import tvm
from tvm import relay, te
from tvm.relay.op import op as _op

_op.register("script.double", "Twice the input.")
_op.get("script.double").set_num_inputs(1)
_op.get("script.double").add_argument("data", "Tensor", "The input.")
_op.get("script.double").add_type_rel("Identity")
_op.register_pattern("script.double", _op.OpPattern.ELEMWISE)
_op.register_stateful("script.double", False)
for key in ("script.double", "add"):
    try:
        _op.register(key)
        raise AssertionError("an operator was registered twice")
    except tvm.error.TVMError as error:
        assert f"Operator {key} is registered before" in str(error)


@relay.op.register_compute("script.double")
def double(attrs, inputs, out_type):
    assert out_type.dtype == "float32"
    return [te.compute(inputs[0].shape, lambda *i: inputs[0](*i) * 2)]


def column_relation(types, attrs):
    assert len(types) == 1
    return relay.TensorType((types[0].shape[0], 1), types[0].dtype)


_op.register("script.column")
_op.get("script.column").set_attrs_type_key("DictAttrs")
_op.get("script.column").add_type_rel("Column", column_relation)

x = relay.var("x", shape=(relay.Any(), 3))
y = relay.Call(relay.op.get("script.double"), [x])
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.add(y, x))))
run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
value = np.arange(6, dtype="float32").reshape(2, 3)
np.testing.assert_array_equal(run(value).numpy(), 3 * value)

column = relay.Function([x], relay.Call(_op.get("script.column"), [x]))
assert str(relay.transform.InferTypeLocal(column).ret_type) == "Tensor[(?, 1), float32]"
try:
    relay.vm.compile(column, "llvm")
    raise AssertionError("an operator without a computation was compiled")
except tvm.error.TVMError as error:
    assert "script.column has no computation" in str(error)
