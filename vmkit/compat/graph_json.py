"""A program as the graph that Relay's graph executor read: nodes in JSON, and constants as ``p0``, ``p1`` ...

The virtual machine runs programs; the graph describes one, for tools that show it, count it or plan with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tvm.ir import IRModule
from tvm.runtime import Tensor

from vmkit.errors import ModelError
from vmkit.relay.ir import Call, Constant, Function, GlobalVar, Op, RelayExpr, Tuple, TupleGetItem, Var, post_order
from vmkit.relay.transform import typed

from .._dataclasses import dataclass
from .backend_names import mangle_module_name
from .memory_plan import StorageInfo, graph_order, graph_plan_memory, is_reshape, leaf_types

__all__ = ["Graph", "graph_of"]

_NOP = "__nop"  # what the graph executor took for a call that moves nothing


@dataclass(frozen=True)
class Graph:
    """A program as a graph.

    Attributes
    ----------
    json : str
        The nodes, in the graph executor's format.
    params : dict of str to Tensor
        The constants by the names of their nodes.
    functions : tuple of str
        The names of what the nodes call, each once.
    """

    json: str
    params: dict[str, Tensor]
    functions: tuple[str, ...]


class _Writer:
    def __init__(self, func: Function, mod_name: str) -> None:
        self.prefix = mangle_module_name(mod_name)
        self.storage: Mapping[Any, StorageInfo] = graph_plan_memory(func).expr_to_storage_info
        self.nodes: list[dict[str, Any]] = []
        self.arguments: list[int] = []
        self.params: dict[str, Tensor] = {}
        self.names: dict[str, int] = {}
        self.callees: dict[Any, str] = {}  # the name of a function that is called in several places
        self.rows = [0]
        self.columns: dict[str, list[Any]] = {"dltype": [], "device_index": [], "storage_id": [], "shape": []}
        # By value, the entries that are its tensors: node, which of its outputs, version.
        self.entries: dict[Any, list[list[int]]] = {}
        for node in graph_order(func):
            self.entries[node] = self.entries_of(node)
        self.heads = self.entries[func.body]

    def entries_of(self, node: RelayExpr) -> list[list[int]]:
        match node:
            case Tuple():
                return [entry for part in node.fields for entry in self.entries[part]]
            case TupleGetItem():
                sizes = [len(leaf_types(t)) for t in node.tuple_value.checked_type.fields]
                first = sum(sizes[: node.index])
                return self.entries[node.tuple_value][first : first + sizes[node.index]]
            case Var():
                return self.argument(node, self.unique(node.name_hint))
            case Constant():
                name = f"p{len(self.params)}"
                self.params[name] = node.data
                return self.argument(node, name)
            case Call():
                return self.call(node)
        raise ModelError(f"a graph has no {type(node).__name__}")

    def argument(self, node: RelayExpr, name: str) -> list[list[int]]:
        self.arguments.append(len(self.nodes))
        return self.add(node, {"op": "null", "name": name, "inputs": []})

    def call(self, node: Call) -> list[list[int]]:
        inputs = [entry for argument in node.args for entry in self.entries[argument]]
        name = self.callees.get(node.op) or self.unique(f"{self.prefix}_{_stem(node.op)}")
        if isinstance(node.op, Function | GlobalVar):
            self.callees[node.op] = name
        outputs = len(leaf_types(node.checked_type))
        attrs = {
            "func_name": _NOP if is_reshape(node) else name,
            "num_inputs": str(len(inputs)),
            "num_outputs": str(outputs),
            "flatten_data": "0",
        }
        return self.add(node, {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": inputs})

    def add(self, node: RelayExpr, row: dict[str, Any]) -> list[list[int]]:
        number, types, storage = len(self.nodes), leaf_types(node.checked_type), self.storage[node]
        self.nodes.append(row)
        self.rows.append(self.rows[-1] + len(types))
        self.columns["dltype"] += [ty.dtype for ty in types]
        self.columns["shape"] += [[int(d) for d in ty.shape] for ty in types]
        self.columns["device_index"] += storage.device_types
        self.columns["storage_id"] += storage.storage_ids
        return [[number, output, 0] for output in range(len(types))]

    def unique(self, name: str) -> str:
        """Return a name, with a number behind it where it has been given before."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return f"{name}_{count}" if count else name

    def text(self, metadata: Mapping[str, str]) -> str:
        kinds = {"dltype": "list_str", "device_index": "list_int", "storage_id": "list_int", "shape": "list_shape"}
        return json.dumps(
            {
                "nodes": self.nodes,
                "arg_nodes": self.arguments,
                "heads": self.heads,
                "attrs": {name: [kinds[name], values] for name, values in self.columns.items()},
                "node_row_ptr": self.rows,
                "metadata": dict(metadata),
            },
            indent=2,
        )


def _stem(callee: RelayExpr) -> str:
    """Return what a function is called after: the operators in it."""
    if isinstance(callee, Op):
        return callee.name.replace(".", "_")
    if isinstance(callee, GlobalVar):
        return str(callee.name_hint)
    named = callee.attrs.get("global_symbol") if callee.attrs else None
    calls = [n.op.name for n in post_order(callee.body) if isinstance(n, Call) and isinstance(n.op, Op)]
    return str(named) if named else "_".join(["fused", *(name.replace(".", "_") for name in calls)])


def graph_of(mod: IRModule, mod_name: str = "default", metadata: Mapping[str, str] | None = None) -> Graph:
    """Return the ``main`` of a module as a graph.

    Parameters
    ----------
    mod : IRModule
        A Relay module. A call of an operator is a node; so is one of a function, whatever that does.
    mod_name : str
        The name that those of functions begin with.
    metadata : mapping of str to str, optional
        What is to stand in the JSON beside the graph.

    Raises
    ------
    ModelError
        When ``main`` has control flow, or a size that is known at run time only: no graph says these.
    """
    main = typed(mod)["main"]
    if not isinstance(main, Function):
        raise ModelError(f"@main is a {type(main).__name__}, not a Relay function")
    writer = _Writer(main, mod_name)
    functions = [node["attrs"]["func_name"] for node in writer.nodes if node["op"] == "tvm_op"]
    return Graph(writer.text(metadata or {}), writer.params, tuple(dict.fromkeys(n for n in functions if n != _NOP)))
