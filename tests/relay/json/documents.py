"""Documents of TVM's JSON for tests: written by hand, and compared as graphs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vmkit.relay.json.attrs import is_reference
from vmkit.relay.op.attrs import ATTRS_CLASSES

# Fields that are no index; those of operator attributes are told by their declarations.
_IN_PLACE = {
    "column", "complete", "data", "device_type_int", "dtype", "end_column", "end_line", "index", "kind", "line",
    "tag", "virtual_device_id",
}  # fmt: skip
_NOT_COMPARED = {"_checked_type_", "source_map", "span", "virtual_device_"}
# Nodes whose identity matters: whether two places share one, or have one each.
_IDENTITIES = {
    "TypeVar", "relay.Call", "relay.Constant", "relay.Constructor", "relay.Function", "relay.If",
    "relay.Let", "relay.Match", "relay.RefCreate", "relay.RefRead", "relay.RefWrite", "relay.Tuple",
    "relay.TupleGetItem", "relay.TypeData", "relay.Var",
}  # fmt: skip
_SIZES = {"tir.Add", "tir.FloorDiv", "tir.Max", "tir.Min", "tir.Mul", "tir.Sub"}


class Document:
    """A document that is written node by node.

    >>> d = Document("0.7.0")
    >>> json.loads(d.text(d.node("IntImm", dtype="int32", value="3")))["root"]
    1
    """

    def __init__(self, version: str | None = "0.14.0") -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.tensors: list[str] = []
        self.version = version

    def add(self, node: Mapping[str, Any]) -> str:
        """Add a node, and return its index as text."""
        self.nodes.append(dict(node))
        return str(len(self.nodes) - 1)

    def node(self, type_key: str, **fields: Any) -> str:
        """Add a node with fields."""
        return self.add({"type_key": type_key, "attrs": {name: str(value) for name, value in fields.items()}})

    def string(self, text: str) -> str:
        """Add a string, or, before 0.7, return the text itself."""
        if self.version is not None and self.version.startswith("0.6"):
            return text
        return self.add({"type_key": "runtime.String", "repr_str": text})

    def array(self, *indices: str) -> str:
        """Add an array."""
        return self.add({"type_key": "Array", "data": [int(i) for i in indices]})

    def ints(self, *values: int) -> str:
        """Add an array of integers."""
        return self.array(*(self.node("IntImm", dtype="int32", value=v) for v in values))

    def text(self, root: str) -> str:
        """Return the document."""
        document: dict[str, Any] = {"root": int(root), "nodes": self.nodes, "b64ndarrays": self.tensors}
        if self.version is not None:
            document["attrs"] = {"tvm_version": self.version}
        return json.dumps(document)


def assert_same_graph(actual_text: str, expected_text: str) -> None:
    """Assert that two documents hold the same nodes, however numbered; spans and inferred types are not compared."""
    actual, expected = _with_sorted_maps(json.loads(actual_text)), _with_sorted_maps(json.loads(expected_text))
    same: dict[int, int] = {}
    back: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    waiting = [(actual["root"], expected["root"], "root")]
    while waiting:
        i, j, where = waiting.pop()
        if (i, j) in seen:
            continue
        seen.add((i, j))
        a, b = actual["nodes"][i], expected["nodes"][j]
        key = _kind(b)
        if {a["type_key"], b["type_key"]} & _SIZES:
            continue  # a size that was computed is simplified
        assert _kind(a) == key, where
        if key in _IDENTITIES:
            assert same.setdefault(i, j) == j and back.setdefault(j, i) == i, f"{where}: another node is shared"
        if key == "relay.Constant":
            tensors = (actual["b64ndarrays"][int(a["attrs"]["data"])], expected["b64ndarrays"][int(b["attrs"]["data"])])
            assert tensors[0] == tensors[1], where
        waiting += _parts(a, b, f"{where} > {key}")


def _with_sorted_maps(document: Any) -> Any:
    """Return a document in which maps from named nodes are sorted by name: they have no order of their own."""
    nodes = document["nodes"]

    def name(index: int) -> str:
        return nodes[int(nodes[index]["attrs"]["name_hint"])]["repr_str"]

    for node in nodes:
        data = node.get("data", [])
        if node["type_key"] != "Map" or "keys" in node or not data:
            continue
        if "name_hint" in nodes[data[0]].get("attrs", ()):
            pairs = sorted(zip(data[::2], data[1::2], strict=True), key=lambda pair: name(pair[0]))
            node["data"] = [index for pair in pairs for index in pair]
    return document


def _kind(node: Mapping[str, Any]) -> str:
    return {"tir.SizeVar": "tir.Var"}.get(node["type_key"], node["type_key"])


def _parts(a: Mapping[str, Any], b: Mapping[str, Any], where: str) -> list[tuple[int, int, str]]:
    """Assert that two nodes agree in place, and return what they refer to, side by side."""
    assert a.get("repr_str") == b.get("repr_str"), where
    x, y = a.get("data", []), b.get("data", [])
    if "keys" in b:
        x, y = (dict(zip(n["keys"], n["data"], strict=True)) for n in (a, b))
        assert set(x) == set(y), where
        return [(x[k], y[k], f"{where}[{k}]") for k in y]
    assert len(x) == len(y), where
    parts = [(i, j, f"{where}[{n}]") for n, (i, j) in enumerate(zip(x, y, strict=True))]
    given, wanted = ({k: v for k, v in n.get("attrs", {}).items() if k not in _NOT_COMPARED} for n in (a, b))
    assert set(given) == set(wanted), where
    if b["type_key"] == "relay.attrs.ArangeAttrs":
        # The others repeat inputs, as they were before passes that knew nothing of it.
        wanted = {"dtype": wanted["dtype"]}
    for name, text in wanted.items():
        if _refers(b["type_key"], name):
            parts.append((int(given[name]), int(text), f"{where}.{name}"))
        elif not (b["type_key"] == "relay.Constant" and name == "data"):
            assert _value(given[name], name) == _value(text, name), f"{where}.{name}"
    return parts


def _value(text: str, name: str) -> str:
    """Return a value as it is compared: sizes and indices are plain integers here, of no width."""
    return "int" if name == "dtype" and text in ("int32", "int64") else text


def _refers(type_key: str, name: str) -> bool:
    if type_key in ATTRS_CLASSES:
        return is_reference(ATTRS_CLASSES[type_key], name)
    return not (name in _IN_PLACE and not (type_key == "relay.Match" and name == "data")) and not (
        type_key in ("IntImm", "FloatImm") and name == "value"
    )
