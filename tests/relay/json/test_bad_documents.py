"""Documents that are damaged are refused with the node and the reason; never anything else."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
import struct
from typing import Any

import pytest
import tvm

from tests import golden
from tests.relay.json.documents import Document
from vmkit import relay
from vmkit.errors import ModelError

TENSOR = struct.Struct("<QQiiiBBHq")
MAGIC = 0xDD5E40F096B4A13F


def constant(header: bytes) -> str:
    d = Document()
    d.tensors.append(base64.b64encode(header).decode())
    return d.text(d.node("relay.Constant", data=0))


def nodes(*given: Any, root: Any = 1, **more: Any) -> str:
    return json.dumps({"root": root, "nodes": [{"type_key": ""}, *given], **more})


def node(key: str, **fields: str) -> dict[str, Any]:
    return {"type_key": key, "attrs": fields}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "this is not JSON"),
        ("[" * 100_000, "this JSON cannot be read"),
        ('{"root": ' + "9" * 5000 + "}", "this JSON cannot be read"),
        ("[1]", "an object with a 'root' and a list of 'nodes'"),
        ('{"root": 1, "nodes": 3}', "an object with a list of 'nodes'"),
        (nodes(root=7), "the root refers to '7'; there is no such node"),
        (nodes(root=-1), "the root refers to '-1'"),
        (nodes(root=True), "the root refers to 'True'"),
        (nodes("x"), "node 1 is no object"),
        (nodes({}), "node 1 (None): has no type key"),
        (nodes(node("relay.Cal")), "nodes of kind 'relay.Cal' are not supported; did you mean 'relay.Call'"),
        (nodes(node("relay.Tuple", fields="1")), "node 1 (relay.Tuple) refers to itself, through node 1"),
        (
            nodes(node("relay.Tuple", fields="2"), {"type_key": "Array", "data": [1]}),
            "node 1 (relay.Tuple) refers to itself, through node 2",
        ),
        (nodes(node("relay.Tuple", fields="99999999999999")), "node 1 (relay.Tuple) refers to '99999999999999'"),
        (nodes(node("relay.Tuple")), ""),
        (nodes(node("relay.Let", var="0")), "node 1 (relay.Let): field 'var' is null, expected a variable"),
        (nodes(node("relay.RefRead")), "node 1 (relay.RefRead): has no field 'ref'"),
        (
            nodes(node("relay.Tuple", fields="2"), {"type_key": "Array", "data": [0]}),
            "node 1 (relay.Tuple): field 'fields' has null at 0, expected an expression",
        ),
        (
            nodes(node("relay.TupleGetItem", tuple_value="2", index="x"), node("relay.Tuple")),
            "node 1 (relay.TupleGetItem): field 'index' is 'x', expected an integer",
        ),
        (
            nodes(node("relay.TensorType", shape="0", dtype="float33x")),
            "node 1 (relay.TensorType): field 'dtype' is 'float33x', expected a data type",
        ),
        (
            nodes(node("relay.TensorType", shape="2", dtype="int8"), {"type_key": "Array", "data": [3]},
                  node("IntImm", dtype="int64", value="-1")),
            "node 1 (relay.TensorType): a dimension of a tensor type is -1",
        ),
        (
            nodes(node("IntImm", dtype="int64", value=str(1 << 70))),
            "node 1 (IntImm): is 1180591620717411303424, which is no integer of 64 bits",
        ),
        (nodes({"type_key": "IntImm", "attrs": {"dtype": 3}}), "node 1 (IntImm): field 'dtype' is '3', expected text"),
        (nodes({"type_key": "Array", "data": 3}), "node 1 (Array): its data is no list"),
        (nodes({"type_key": "Map", "keys": ["a"], "data": []}), "node 1 (Map): has 1 keys for 0 values"),
        (nodes({"type_key": "Map", "data": [0, 0, 0, 0]}), "node 1 (Map): has a key twice"),
        (nodes({"type_key": "runtime.String", "repr_b64": "/w=="}), "node 1 (runtime.String): is malformed: Unicode"),
        (nodes(node("relay.Constant", data="1"), b64ndarrays=["AA=="]), "refers to tensor 1; the document has 1"),
        (nodes(node("relay.Constant", data="0"), b64ndarrays=["A!"]), "a tensor is not base64"),
        (constant(b"abc"), "a stored tensor has at least 32 bytes, got 3"),
        (constant(TENSOR.pack(MAGIC, 0, 1, 0, 0, 2, 32, 1, 4)), "of shape () and float32 does not fit"),
        (constant(TENSOR.pack(MAGIC, 0, 1, 0, 1, 2, 32, 1, 1 << 40) + b"\0" * 8), "does not fit"),
        (
            constant(TENSOR.pack(MAGIC, 0, 1, 0, 1, 2, 32, 1, 1 << 40) + struct.pack("<q", 1 << 42)),
            "does not fit 48 bytes",
        ),
        (
            constant(TENSOR.pack(MAGIC, 0, 1, 0, 2, 2, 32, 1, 0) + struct.pack("<qq", 1 << 62, 0)),
            "a stored tensor has the shape (0, 4611686018427387904)",
        ),
        (constant(TENSOR.pack(MAGIC, 0, 1, 0, 1 << 20, 2, 32, 1, 1)), "of rank 1048576 does not fit"),
        (constant(TENSOR.pack(MAGIC, 0, 1, 0, 0, 9, 32, 1, 4)), "the data type code 9"),
    ],
)  # fmt: skip
def test_a_fault_is_named(text: str, said: str) -> None:
    if not said:
        assert len(relay.load_json(text).fields) == 0
        return
    with pytest.raises(ModelError) as caught:
        relay.load_json(text)
    assert said in str(caught.value)


def test_a_size_that_a_graph_makes_huge_is_refused() -> None:
    d = Document()
    size = d.node("tir.Var", dtype="int64", name=d.string("n"))
    for _ in range(60):
        size = d.node("tir.Mul", dtype="int64", a=size, b=size)
    with pytest.raises(ModelError, match=r"\(tir.Mul\): is a size of more than 500 terms"):
        relay.load_json(d.text(size))


def test_lists_that_a_graph_makes_huge_are_refused() -> None:
    d = Document()
    lists = d.ints(1)
    for _ in range(60):
        lists = d.array(lists, lists)
    with pytest.raises(ModelError, match="field 'pad_width' holds lists nested more than two deep"):
        relay.load_json(d.text(d.node("relay.attrs.PadAttrs", pad_width=lists, pad_mode="constant")))
    attrs = d.add({"type_key": "Map", "keys": ["a"], "data": [int(lists)]})
    with pytest.raises(ModelError, match="holds lists nested more than 8 deep"):
        relay.load_json(d.text(d.node("DictAttrs", __dict__=attrs)))


SOURCES = [json.loads(p.json) for p in golden.selected() if len(p.json) < 20_000]
_NAMED = re.compile(
    r"\bnode\b|\broot\b|\bnodes\b|\bnot JSON\b|\bcannot be read\b|\boperators? that Relay does not have"
)
_VALUES: list[Any] = [
    "",
    "0",
    "1",
    "-1",
    "x",
    "1e9",
    str(1 << 63),
    "9" * 400,
    "float32",
    0,
    -1,
    1 << 70,
    2.5,
    None,
    [],
    {},
]


def _damage(document: Any, rng: random.Random) -> None:
    """Change one thing in a document."""
    given = document["nodes"]
    at = rng.randrange(len(given))
    victim = given[at]
    fields = victim.get("attrs") or {}
    data = victim.get("data")
    match rng.randrange(9):
        case 0 if fields:
            fields[rng.choice(list(fields))] = rng.choice(_VALUES)
        case 1 if fields:
            fields[rng.choice(list(fields))] = str(rng.randrange(-2, len(given) + 2))
        case 2 if fields:
            del fields[rng.choice(list(fields))]
        case 3 if isinstance(data, list) and data:
            data[rng.randrange(len(data))] = rng.choice([*_VALUES, *(rng.randrange(len(given)) for _ in range(9))])
        case 4 if isinstance(data, list) and data:
            del data[rng.randrange(len(data))]
        case 5:
            other = rng.randrange(len(given))
            given[at], given[other] = given[other], given[at]
        case 6:
            victim["type_key"] = rng.choice(given).get("type_key") if isinstance(rng.choice(given), dict) else 3
        case 7:
            given[at] = rng.choice(_VALUES)
        case 8 if document["b64ndarrays"]:
            tensors = document["b64ndarrays"]
            blob = bytearray(base64.b64decode(tensors[0]))
            blob[rng.randrange(min(len(blob), 64))] ^= 1 << rng.randrange(8)
            tensors[0] = base64.b64encode(blob[: rng.randrange(len(blob)) if rng.random() < 0.3 else None]).decode()


def _mutant(rng: random.Random) -> str:
    document = copy.deepcopy(rng.choice(SOURCES))
    for _ in range(rng.randint(1, 3)):
        if all(isinstance(n, dict) for n in document["nodes"]):
            _damage(document, rng)
    text = json.dumps(document)
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", chr(rng.randrange(32, 127)), "9" * 5, '"', "}"]) + text[at + 1 :]
    return text[: rng.randrange(len(text))] if rng.random() < 0.02 else text


def _check(seed: int) -> None:
    text = _mutant(random.Random(seed))
    try:
        loaded = relay.load_json(text)
    except ModelError as error:
        assert _NAMED.search(str(error)), (seed, str(error))
    except Exception as error:
        raise AssertionError(f"mutant {seed} ended in {type(error).__name__}: {error}\n{text}") from error
    else:
        assert not isinstance(loaded, tvm.IRModule) or relay.save_json(loaded)


def test_a_damaged_document_is_read_or_refused() -> None:
    for seed in range(300):
        _check(seed)


@pytest.mark.nightly
def test_many_damaged_documents_are_read_or_refused() -> None:
    for seed in range(300, 10_300):
        _check(seed)
