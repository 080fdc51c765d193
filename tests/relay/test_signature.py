"""Which kind of value each type of Relay stands for."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from vmkit import relay
from vmkit.relay.ir import types
from vmkit.relay.signature import OUTPUT_NAMES, relax_signatures, relay_signatures
from vmkit.relay.transform import infer_module

PAIR = relay.TensorType((2, relay.Any()), "float32")


@pytest.mark.parametrize(
    ("ty", "text"),
    [
        (PAIR, "float32[2, ?]"),
        (relay.TensorType((), "int4"), "int4"),
        (relay.TensorType((tvm.tirx.Var("n", "int64"),), "bool"), "bool[n]"),
        (relay.TupleType([PAIR, relay.TupleType([])]), "(float32[2, ?], ())"),
        (types.SequenceType(types.UnrankedType("int8")), "list[int8[...]]"),
        (types.OptionalType(types.SequenceType(PAIR)), "list[float32[2, ?]] | None"),
        (types.MapType(relay.TensorType((relay.Any(),), "string"), PAIR), "list[dict[string, float32]]"),
        (relay.FuncType([PAIR], PAIR), "fn (Tensor[(2, ?), float32]) -> Tensor[(2, ?), float32]"),
        (relay.RefType(relay.TensorType((), "int32")), "ref(int32)"),
    ],
)
def test_a_type_and_its_spec(ty: tvm.ir.Type, text: str) -> None:
    x = relay.var("x", ty)
    (signature,) = relay_signatures(infer_module(tvm.IRModule({"main": relay.Function([x], x)}))).values()
    assert [spec.name for spec in signature.inputs] == ["x"]
    assert str(signature.inputs[0]) == text


def test_data_has_its_constructors() -> None:
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    option = prelude.get_type("Option")[0]
    x = relay.var("x", option(relay.TensorType((), "int32")))
    mod["main"] = relay.Function([x], x)
    spec = relay_signatures(infer_module(mod))["main"].inputs[0]
    assert str(spec) == "Option[int32]"
    assert {(name, arity) for _, name, arity in spec.constructors} == {("Some", 1), ("None", 0)}  # type: ignore[attr-defined]


def test_names_are_told_apart_and_results_named() -> None:
    x, y = relay.var("x", shape=(1,)), relay.var("x", shape=(2,))
    function = relay.Function([x, y], relay.Tuple([x, y])).with_attr(OUTPUT_NAMES, ["a", "b"])
    signature = relay_signatures(infer_module(tvm.IRModule({"main": function})))["main"]
    assert str(signature) == "main(x: float32[1], x1: float32[2]) -> (a: float32[1], b: float32[2])"


def test_relax_types() -> None:
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    params = [
        relax.Var("x", relax.TensorType([n, 3], "float32")),
        relax.Var("y", relax.TensorType(ndim=2, dtype="int8")),
        relax.Var("z", relax.TensorType(dtype="int8")),
        relax.Var("t", relax.TupleType([relax.TensorType([2], "bool")])),
    ]
    with builder.function("main", params):
        builder.emit_func_output(params[0])
    (signature,) = relax_signatures(builder.get()).values()
    assert str(signature) == "main(x: float32[n, 3], y: int8[?, ?], z: any, t: (bool[2],)) -> float32[n, 3]"
