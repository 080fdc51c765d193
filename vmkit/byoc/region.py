"""What a code generator gets: a function of Relay's as a list of operators on numbered values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any, TypeAlias

import tvm
import tvm_ffi

from .._dataclasses import dataclass
from ..errors import CompileError
from ..relay.ir import (
    Call,
    Constant,
    Function,
    Let,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    post_order,
    type_text,
)
from ..relay.op.attrs import Attrs

__all__ = ["Node", "Region", "Value", "plain"]

Numbers: TypeAlias = "int | tuple[Numbers, ...]"


@dataclass(frozen=True)
class Value:
    """A tensor in a region.

    Attributes
    ----------
    shape : tuple of int or None
        Its dimensions; None for one that is not known before the program runs.
    dtype : str
        The type of its elements.
    """

    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True, eq=False)
class Node:
    """An operator of a region, or a composite function.

    Attributes
    ----------
    op : str
        The name of the operator, or what the pattern table calls the composite function.
    inputs, outputs : tuple of int
        The numbers of the values that it takes (a tuple's one by one) and gives.
    attrs : dict
        The operator's attributes as plain Python values.
    inner : Region or None
        What a composite function consists of; its inputs and then its constants are the `inputs` of the node.
    call : Call or None
        The call, typed.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    inner: Region | None = None
    call: Call | None = None


@dataclass(frozen=True, eq=False)
class Region:
    """A function for a code generator.

    Attributes
    ----------
    symbol : str
        The name of the function, which C has, too.
    function : Function
        The function itself, typed.
    values : list of Value
        All tensors by their numbers: inputs, constants, then what is computed.
    inputs, outputs : list of int
        The numbers of what it takes and returns.
    constants : dict of int to Tensor
        The constants by their numbers. The compiled function gets them as arguments, after the inputs.
    nodes : list of Node
        The operators, each after those that it needs.
    """

    symbol: str
    function: Function
    values: list[Value]
    inputs: list[int]
    constants: dict[int, Any]
    nodes: list[Node]
    outputs: list[int]

    @staticmethod
    def of(symbol: str, function: Function) -> Region:
        """Return a typed function as a region.

        Raises
        ------
        CompileError
            When it has control flow, or values other than tensors and tuples of them.
        """
        return _Reading(symbol, function).run()

    @cached_property
    def arguments(self) -> list[int]:
        """The numbers of the values that the compiled function takes: inputs, then constants."""
        return [*self.inputs, *self.constants]

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain JSON values; constants are among the arguments."""
        return {
            "symbol": self.symbol,
            "values": [{"shape": list(v.shape), "dtype": v.dtype} for v in self.values],
            "arguments": self.arguments,
            "nodes": [
                {
                    "op": node.op,
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "attrs": node.attrs,
                    **({"inner": node.inner.to_json()} if node.inner is not None else {}),
                }
                for node in self.nodes
            ],
            "outputs": list(self.outputs),
        }


class _Reading:
    """Numbers the values of a function."""

    def __init__(self, symbol: str, function: Function) -> None:
        self.symbol = symbol
        self.function = function
        self.values: list[Value] = []
        self.constants: dict[int, Any] = {}
        self.nodes: list[Node] = []
        self.numbers: dict[Any, Numbers] = {}
        self.bound: dict[Any, RelayExpr] = {}
        self.inner: dict[Any, Region] = {}

    def run(self) -> Region:
        function = self.function
        inputs = [n for p in function.params for n in _flat(self.numbered(p, p.checked_type))]
        composites = {node for node in post_order(function.body) if isinstance(node, Function)}
        order = list(post_order(function.body, stop={*function.params, *composites}))
        for node in order:
            self.keep_constants(node)
        for node in order:
            self.read(node)
        outputs = list(_flat(self.number_of(function.body)))
        return Region(self.symbol, function, self.values, inputs, self.constants, self.nodes, outputs)

    def keep_constants(self, node: RelayExpr) -> None:
        """Number a constant, or those of a composite function that a call is of."""
        if isinstance(node, Constant):
            self.keep(node, node.data)
        elif isinstance(node, Let):
            self.bound[node.var] = node.value
        elif isinstance(node, Call) and isinstance(node.op, Function):
            self.inner[node.op] = Region.of(str(node.op.attrs.get("Composite") or self.symbol), node.op)
            for constant in self.inner[node.op].constants.values():
                self.keep(constant, constant)

    def keep(self, key: Constant | tvm.runtime.Tensor, data: tvm.runtime.Tensor) -> None:
        if key not in self.numbers:
            (number,) = _flat(self.numbered(key, TensorType(data.shape, str(data.dtype))))
            self.constants[number] = data

    def numbered(self, key: RelayExpr | tvm.runtime.Tensor, ty: Type) -> Numbers:
        def new(each: Type) -> Numbers:
            if isinstance(each, TupleType):
                return tuple(new(part) for part in each.fields)
            if not isinstance(each, TensorType):
                raise CompileError(f"{self.symbol}: a region for a code generator has tensors, not {type_text(each)}")
            self.values.append(Value(tuple(d if isinstance(d, int) else None for d in each.shape), str(each.dtype)))
            return len(self.values) - 1

        self.numbers[key] = new(ty)
        return self.numbers[key]

    def number_of(self, expr: RelayExpr) -> Numbers:
        while expr in self.bound:
            expr = self.bound[expr]
        return self.numbers[expr]

    def read(self, node: RelayExpr) -> None:
        match node:
            case Op() | Constant():
                return
            case Var() if node in self.bound:
                return
            case Let():
                self.bound[node] = node.body
            case Tuple():
                self.numbers[node] = tuple(self.number_of(part) for part in node.fields)
            case TupleGetItem():
                fields = self.number_of(node.tuple_value)
                assert isinstance(fields, tuple)
                self.numbers[node] = fields[node.index]
            case Call() if isinstance(node.op, Op | Function):
                self.call(node)
            case _:
                raise CompileError(
                    f"{self.symbol}: a code generator takes calls of operators and of composite functions, "
                    f"not {type(node).__name__}"
                )

    def call(self, call: Call) -> None:
        inputs = [n for arg in call.args for n in _flat(self.number_of(arg))]
        outputs = tuple(_flat(self.numbered(call, call.checked_type)))
        if isinstance(call.op, Op):
            self.nodes.append(Node(call.op.name, tuple(inputs), outputs, plain(call.attrs) or {}, call=call))
            return
        inner = self.inner[call.op]
        inputs += [n for constant in inner.constants.values() for n in _flat(self.numbers[constant])]
        self.nodes.append(Node(inner.symbol, tuple(inputs), outputs, inner=inner, call=call))


def _flat(numbers: Numbers) -> Iterator[int]:
    if isinstance(numbers, int):
        yield numbers
    else:
        for each in numbers:
            yield from _flat(each)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON values
    """Return attributes, or a value in them, as plain Python values: numbers, strings, lists, dicts and None."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tvm.tirx.IntImm() | tvm.tirx.FloatImm():
            return value.value
        case Attrs():
            return {each.name: plain(getattr(value, each.name)) for each in type(value).declared}
        case tvm_ffi.Array() | list() | tuple():
            return [plain(each) for each in value]
        case tvm_ffi.Map() | dict():
            return {str(key): plain(each) for key, each in value.items()}
    return str(value)
