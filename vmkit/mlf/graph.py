"""A program as the graph that microTVM's graph executor reads: nodes in JSON, constants beside it, packed functions.

The executor itself is that of TVM 0.14's C runtime; an archive for it holds none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..errors import CompileError
from .c_kernels import declaration
from .kernels import Kernel
from .packed import PREAMBLE, packed_function
from .planning import memory_spans
from .program import Branch, Call, Copy, Foreign, Kind, Loop, Memory, Program, Tensor
from .workspaces import workspace_lines

__all__ = ["Graph", "graph_of", "packed_source"]

_CPU = 1


@dataclass(frozen=True)
class Graph:
    """A program as a graph.

    Attributes
    ----------
    text : str
        The JSON.
    params : dict of str to ndarray
        The constants, by the names of their nodes.
    storage : list of dict
        Of each storage number the bytes, and the name of the input or constant that it is.
    results : frozenset of int
        The storage numbers of the outputs.
    """

    text: str
    params: dict[str, np.ndarray]
    storage: list[dict[str, Any]]
    results: frozenset[int]


def graph_of(
    program: Program, kernels: Mapping[str, Kernel], symbols: Mapping[str, str], metadata: Mapping[str, str]
) -> Graph:
    """Return a program as a graph, with what is to stand beside it.

    CompileError where the program has branches or loops, which no graph has.
    """
    writer = _Writer(program, kernels, symbols)
    for place, (name, tensor) in enumerate(program.inputs):
        writer.argument(name, tensor, (Kind.INPUT, place))
    for each in program.body:
        match each:
            case Call():
                writer.call(each)
            case Copy():
                writer.renamed[each.target.memory.home] = each.source
            case Branch() | Loop():
                raise CompileError(f"a graph has no {type(each).__name__.lower()}; the executor 'aot' takes it")
            case Foreign():
                raise CompileError(f"a graph has no C of other code generators, {each.symbol}; 'aot' takes it")
    heads = [writer.entry(writer.renamed.get(t.memory.home, t)) for _, t in program.outputs]
    results = frozenset(writer.columns["storage_id"][writer.rows[node] + output] for node, output, _ in heads)
    return Graph(writer.text(heads, metadata), writer.params, writer.sizes(), results)


class _Writer:
    def __init__(self, program: Program, kernels: Mapping[str, Kernel], symbols: Mapping[str, str]) -> None:
        self.program, self.kernels, self.symbols = program, kernels, symbols
        self.nodes: list[dict[str, Any]] = []
        self.rows = [0]
        self.arguments: list[int] = []
        self.columns: dict[str, list[Any]] = {"dltype": [], "device_index": [], "storage_id": [], "shape": []}
        self.entries: dict[object, list[int]] = {}
        self.renamed: dict[Memory, Tensor] = {}
        self.params: dict[str, np.ndarray] = {}
        self.storage: list[dict[str, Any]] = []
        self.spans = {span.memory: span for span in memory_spans(program, kernels)}
        self.shared: list[tuple[int, int]] = []  # storage numbers, each with the step from which it is free
        self.numbers: dict[object, int] = {}
        self.names: dict[str, int] = {}

    def argument(self, name: str, tensor: Tensor, key: object) -> None:
        """Add an input or a constant."""
        self.arguments.append(len(self.nodes))
        self.numbers[key] = len(self.storage)
        self.storage.append({"storage_id": len(self.storage), "size_bytes": tensor.nbytes, "input_binding": name})
        self.node({"op": "null", "name": name, "inputs": []}, [(tensor, key)])

    def node(self, row: dict[str, Any], results: Sequence[tuple[Tensor, object]]) -> None:
        for output, (tensor, key) in enumerate(results):
            self.entries[key] = [len(self.nodes), output, 0]
            self.columns["dltype"].append(tensor.dtype)
            self.columns["device_index"].append(_CPU)
            self.columns["storage_id"].append(self.numbers[key])
            self.columns["shape"].append(list(tensor.shape))
        self.nodes.append(row)
        self.rows.append(self.rows[-1] + len(results))

    def key(self, tensor: Tensor) -> object:
        """Return what a tensor is found by; a constant is added where it is first read."""
        memory = tensor.memory.home
        if memory.kind is Kind.WORKSPACE:
            return memory
        key = (memory.kind, memory.index)
        if memory.kind is Kind.CONSTANT and key not in self.entries:
            name = f"p{len(self.params)}"
            self.params[name] = self.program.constants[memory.index]
            self.argument(name, tensor, key)
        return key

    def entry(self, tensor: Tensor) -> list[int]:
        return self.entries[self.key(tensor)]

    def call(self, call: Call) -> None:
        """Add a call of a kernel, whose results come last among its arguments."""
        written = self.kernels[call.kernel].written
        read = [self.entry(tensor) for place, tensor in enumerate(call.args) if place not in written]
        results = [tensor for place, tensor in enumerate(call.args) if place in written]
        symbol = self.symbols[call.kernel]
        count = self.names.get(symbol, 0)
        self.names[symbol] = count + 1
        keyed = [(tensor, self.key(tensor)) for tensor in results]
        for tensor, key in keyed:
            self.numbers[key] = self.number(tensor)
        attrs = {
            "func_name": symbol,
            "num_inputs": str(len(read)),
            "num_outputs": str(len(results)),
            "flatten_data": "0",
        }
        name = f"{symbol}_{count}" if count else symbol
        self.node({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": read}, keyed)

    def number(self, tensor: Tensor) -> int:
        """Return the storage of a result: one that nobody needs any more, the smallest that fits, or a new one."""
        span = self.spans.get(tensor.memory.home)
        if span is not None:
            free = [n for n, until in self.shared if until < span.first]
            fitting = sorted((n for n in free), key=lambda n: (self.size(n) < tensor.nbytes, self.size(n)))
            if fitting:
                found = fitting[0]
                self.storage[found]["size_bytes"] = max(self.size(found), tensor.nbytes)
                self.shared = [(n, span.last if n == found else until) for n, until in self.shared]
                return found
            self.shared.append((len(self.storage), span.last))
        self.storage.append({"storage_id": len(self.storage), "size_bytes": tensor.nbytes})
        return len(self.storage) - 1

    def size(self, number: int) -> int:
        return int(self.storage[number]["size_bytes"])

    def sizes(self) -> list[dict[str, Any]]:
        return self.storage

    def text(self, heads: Sequence[list[int]], metadata: Mapping[str, str]) -> str:
        kinds = {"dltype": "list_str", "device_index": "list_int", "storage_id": "list_int", "shape": "list_shape"}
        return json.dumps(
            {
                "nodes": self.nodes,
                "arg_nodes": self.arguments,
                "heads": list(heads),
                "attrs": {name: [kinds[name], values] for name, values in self.columns.items()},
                "node_row_ptr": self.rows,
                **({"metadata": dict(metadata)} if metadata else {}),
            },
            indent=2,
        )


def packed_source(kernels: Mapping[str, Kernel], symbols: Mapping[str, str], inner: Mapping[str, str]) -> str:
    """Return the file of the functions that the graph names, each of which calls a kernel's.

    Parameters
    ----------
    symbols : mapping of str to str
        The names that the graph calls kernels by.
    inner : mapping of str to str
        The names of the kernels' own functions.
    """
    heads = "\n".join(f"{declaration(kernel, inner[name])};" for name, kernel in kernels.items())
    bodies = [_packed(kernel, symbols[name], inner[name]) for name, kernel in kernels.items()]
    return "\n\n".join([PREAMBLE, heads, *bodies]) + "\n"


def _packed(kernel: Kernel, symbol: str, inner: str) -> str:
    memory, addresses = workspace_lines(kernel)
    # The convention has results last, wherever they stand among a kernel's parameters.
    order = sorted(range(len(kernel.params)), key=lambda place: place in kernel.written)
    args = [f"elements(args, {order.index(place)})" for place in range(len(kernel.params))]
    called = f"  {inner}({', '.join([*args, *addresses])});"
    return packed_function(symbol, memory, [called])
