"""Objects of every kind are written, and read as what they were: identity and sharing, depth, files."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.errors import ModelError


def again(value: Any) -> Any:
    return relay.load_json(relay.save_json(value))


def module() -> tvm.IRModule:
    x = relay.var("x", shape=(relay.Any(), 2))
    return relay.transform.InferType()(tvm.IRModule({"main": relay.Function([x], relay.add(x, x))}))


N = tirx.Var("n", "int64")
T = relay.TypeVar("T")
NAME = relay.GlobalTypeVar("Box")


@pytest.mark.parametrize(
    "ty",
    [
        relay.TensorType((), "bool"),
        relay.TensorType((3, relay.Any(), 1 << 40), "bfloat16"),
        relay.TupleType([relay.TensorType((2,)), relay.TupleType([])]),
        relay.FuncType([T], relay.TupleType([T, T]), [T]),
        NAME(relay.TensorType((2,))),
        relay.RefType(NAME()),
        relay.TensorType((N, N * 2 + 1, tirx.max(N, tirx.floordiv(N, 3)) - tirx.min(N, 4), tirx.floormod(N, 5))),
        relay.TensorType((tirx.Select(tirx.And(N < 3, N != 7), N, N * 3),)),
    ],
    ids=str,
)
def test_a_type_is_read_as_it_was_written(ty: relay.Type) -> None:
    assert tvm_ffi.structural_equal(again(ty), ty, map_free_vars=True)


def test_one_symbol_stays_one() -> None:
    first, second = again(relay.TensorType((N, N))).shape
    assert first.same_as(second)


@pytest.mark.parametrize("value", [None, "text", "", 3, -(1 << 40), True, 0.1, [1, ["a"]], {"k": [1.5], "l": None}, {}])
def test_a_plain_value_is_read_as_it_was_written(value: Any) -> None:
    assert again(value) == value
    assert type(again(value)) is type(value)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_a_constant_keeps_its_bits(dtype: str, shape: tuple[int, ...]) -> None:
    constant = relay.const(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, dtype)
    loaded = again(constant)
    assert (loaded.data.dtype, tuple(loaded.data.shape)) == (dtype, shape)
    np.testing.assert_array_equal(loaded.data.numpy(), constant.data.numpy())


def test_a_tensor_in_a_map_is_a_node() -> None:
    loaded = again({"w": tvm.runtime.tensor(np.arange(3, dtype="int16"))})
    assert loaded["w"].numpy().tolist() == [0, 1, 2]
    assert '"runtime.NDArray"' in relay.save_json({"w": tvm.runtime.tensor(np.zeros(1))})


def test_a_shared_expression_stays_shared_and_equal_ones_stay_apart() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.add(x, x)
    fields = again(relay.Tuple([shared, shared, relay.add(x, x)])).fields
    assert fields[0].same_as(fields[1])
    assert not fields[0].same_as(fields[2])
    assert fields[0].args[0].same_as(fields[2].args[1])


def test_nodes_of_one_identity_are_one_variable() -> None:
    x = relay.var("x", shape=(2,))
    document = json.loads(relay.save_json(relay.Tuple([x])))
    array = next(n for n in document["nodes"] if n["type_key"] == "Array" and n.get("data"))
    old = next(n for n in document["nodes"] if n["type_key"] == "relay.Var")
    document["nodes"].append({**old, "attrs": {**old["attrs"], "type_annotation": "0"}})
    array["data"].insert(0, len(document["nodes"]) - 1)
    first, second = relay.load_json(json.dumps(document)).fields
    assert first.same_as(second)
    assert str(first.type_annotation) == "Tensor[(2), float32]"


def test_a_module_keeps_its_functions_types_and_attributes() -> None:
    mod = module()
    some = relay.Constructor("Some", [T], NAME)
    relay.define_type(mod, relay.TypeData(NAME, [T], [some, relay.Constructor("None", [], NAME)]))
    f = relay.GlobalVar("f")
    y = relay.var("y", shape=(2,))
    match = relay.Match(
        some(y),
        [
            relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(y)]), relay.Tuple([y])),
            relay.Clause(relay.PatternTuple([relay.PatternWildcard()]), relay.RefRead(relay.RefCreate(y))),
        ],
        complete=False,
    )
    mod[f] = relay.Function([y], relay.Call(f, [match]), attrs={"Primitive": 1, "name": "g", "list": ["a", 2.5]})
    mod = mod.with_attr("tag", "v1")
    loaded = again(mod)
    assert tvm_ffi.structural_equal(loaded, mod)
    assert loaded.attrs["tag"] == "v1"
    call = loaded["f"].body
    assert call.op.same_as(next(v for v in loaded.get_global_vars() if v.name_hint == "f"))
    assert call.args[0].data.op.same_as(call.args[0].clauses[0].lhs.constructor)
    assert call.args[0].data.op.tag == some.tag


def test_spans_are_kept() -> None:
    span = tvm.ir.Span(tvm.ir.SourceName("model.py"), 1, 2, 3, 4)
    x = relay.Var("x", None, span)
    loaded = again(relay.Tuple([x], tvm.ir.SequentialSpan([span, span])))
    read = loaded.fields[0].span
    assert (read.source_name.name, read.line, read.end_line, read.column, read.end_column) == ("model.py", 1, 2, 3, 4)
    assert len(loaded.span.spans) == 2


def test_inferred_types_are_written_and_left_to_inference_when_read() -> None:
    nodes = json.loads(relay.save_json(module()))["nodes"]
    for key in ("relay.Function", "GlobalVar", "relay.Call", "relay.Var"):
        (node,) = [n for n in nodes if n["type_key"] == key]
        checked = nodes[int(node["attrs"]["_checked_type_"])]
        assert checked["type_key"] == ("FuncType" if key in ("relay.Function", "GlobalVar") else "relay.TensorType")
    assert again(module())["main"].checked_type_ is None


def test_arange_repeats_its_inputs_in_its_attributes() -> None:
    stop = relay.var("stop", shape=())
    nodes = json.loads(relay.save_json(relay.arange(relay.const(0.0), stop, relay.const(1.0))))["nodes"]
    (attrs,) = [n["attrs"] for n in nodes if n["type_key"] == "relay.attrs.ArangeAttrs"]
    kinds = [nodes[int(attrs[name])]["type_key"] for name in ("start", "stop", "step")]
    assert kinds == ["relay.Constant", "relay.Var", "relay.Constant"]


def chain(length: int) -> relay.Expr:
    expr: relay.Expr = relay.var("x", shape=(2,))
    for _ in range(length):
        expr = relay.RefCreate(expr)
    return expr


def test_a_deep_program_is_written_and_read_in_linear_time() -> None:
    def seconds(length: int) -> float:
        expr, begin = chain(length), time.perf_counter()
        loaded = again(expr)
        took = time.perf_counter() - begin
        for _ in range(length):
            loaded = loaded.value
        assert isinstance(loaded, relay.Var)
        return took

    seconds(1000)
    short, long = seconds(4000), seconds(40_000)
    assert long < 40 * short


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ModelError, match="objects of object cannot be written as TVM's JSON"):
        relay.save_json([object()])


@pytest.mark.parametrize("write", [relay.save_json, tvm.ir.save_json], ids=["relay", "today's TVM"])
@pytest.mark.parametrize("what", ["module", "function"])
def test_files_of_both_formats_compile(tmp_path: Path, write: Any, what: str) -> None:
    text = write(module() if what == "module" else module()["main"])
    (tmp_path / "m.json").write_text(text)
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("m.json", "m.json.gz"):
        executable = vmkit.compile(tmp_path / name)
        assert vmkit.VirtualMachine(executable).run(np.ones((1, 2), "float32")).numpy().tolist() == [[2, 2]]


def test_a_compressed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(relay.save_json(module()).encode())[:-12])
    with pytest.raises(ModelError, match=r"m\.json\.gz: expected compressed text in UTF-8, but"):
        vmkit.compile(tmp_path / "m.json.gz")


def test_a_file_that_holds_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(relay.save_json([1]))
    with pytest.raises(ModelError, match=r"expected a tvm.IRModule or a relay.Function, got list"):
        vmkit.compile(tmp_path / "m.json")


def test_span_without_a_source_is_read_back() -> None:
    span = tvm.ir.Span(None, 1, 2, 3, 4)
    back = relay.load_json(relay.save_json(span))
    assert back.source_name is None and (back.line, back.end_column) == (1, 4)
    call = relay.Call(tvm.ir.Op.get("add"), [relay.const(1), relay.const(2)], span=span)
    assert relay.astext(call).endswith("\nadd(1, 2)")


def test_module_without_functions_is_read() -> None:
    nodes = [{"type_key": ""}, {"type_key": "IRModule", "attrs": {"functions": "0", "type_definitions": "0"}}]
    mod = relay.load_json(json.dumps({"root": 1, "nodes": nodes, "attrs": {"tvm_version": "0.7.0"}, "b64ndarrays": []}))
    assert isinstance(mod, tvm.IRModule) and len(mod.functions) == 0
