"""Functions of TIR with blocks, symbols for sizes, and types, as scripts for TVM 0.14 wrote them."""

import json

import numpy as np
import tvm
from tvm import relay
from tvm.script import tir as T


@T.prim_func
def halves(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in T.serial(8):
        with T.block("halved"):
            at = T.axis.spatial(8, i)
            B[at] = T.floordiv(A[at], 2)


@T.prim_func
def plain(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in T.serial(8):
        B[i] = A[i] + 1


a = np.arange(-4, 4, dtype="int32")
for function, wanted in ((halves, a // 2), (plain, a + 1)):
    result = tvm.nd.array(np.zeros(8, "int32"))
    tvm.build(function, target="llvm")(tvm.nd.array(a), result)
    np.testing.assert_array_equal(result.numpy(), wanted)
assert halves.attrs["s_tir"] and "s_tir" not in (plain.attrs or {})


@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.serial(8):
            with T.block("copied"):
                at = T.axis.spatial(8, i)
                B[at] = A[at]


assert tvm.s_tir.Schedule(Module).get_sblock("copied") is not None

assert isinstance(tvm.tir.SizeVar("n"), tvm.tir.SizeVar) and isinstance(tvm.te.size_var("n"), tvm.tir.Var)
assert not isinstance(tvm.tir.Var("x", "float32"), tvm.tir.SizeVar)

of_function = tvm.ir.FuncType([relay.TensorType((2,))], relay.TensorType((2,)))
assert isinstance(of_function, relay.FuncType) and isinstance(of_function, tvm.ir.FuncType)
assert not isinstance(relay.TensorType((2,)), tvm.ir.FuncType)

number = {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "2", "span": "0"}}
nodes = [
    {"type_key": ""},
    {"type_key": "StrMap", "keys": ["z"], "data": [2]},
    number,
    {"type_key": "Array", "data": [2]},
]
document = {"nodes": nodes, "attrs": {"tvm_version": "0.6.0"}, "b64ndarrays": []}
by_name = tvm.ir.load_json(json.dumps({**document, "root": 1}))
assert isinstance(by_name, tvm.ir.container.Map) and by_name["z"] == 2
in_order = tvm.ir.load_json(json.dumps({**document, "root": 3}))
assert isinstance(in_order, tvm.ir.container.Array) and list(in_order) == [2]
