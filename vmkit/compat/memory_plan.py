"""``GraphPlanMemory``: which values of a program without control flow can share memory.

The rule is that of Relay's graph executor. A value gets the memory of one that nobody reads any more and that is
between a 16th and 16 times as large; parameters and constants have memory of their own; a reshape has its input's.
vmkit plans memory after fusing, over Relax, so this is for tools that show or count it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import field
from math import prod
from typing import Any

from vmkit.errors import ModelError
from vmkit.relay.ir import (
    Call,
    Constant,
    Function,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    is_call,
    post_order,
)
from vmkit.relay.ir.virtual_device import RESULT_DEVICE, VirtualDevice
from vmkit.values.element_types import numpy_dtype, stored_type

from .._dataclasses import dataclass

__all__ = ["MemoryPlan", "StorageInfo", "graph_order", "graph_plan_memory", "is_reshape", "leaf_types"]

_CLOSE = 16  # memory is used again for a value of that many times the size, or of that part of it
_CPU = 1  # DLPack's number
_GLOBAL = "global"  # the kind of memory that is meant where none is said
_RESHAPES = (
    *("contrib_reverse_reshape", "dyn.reshape", "expand_dims", "nn.batch_flatten", "reshape", "reshape_like"),
    "vm.reshape_tensor",
)


@dataclass(frozen=True)
class StorageInfo:
    """Where a value is: for each of its tensors the number of the memory, its size, and the device.

    Attributes
    ----------
    storage_ids : tuple of int
        The numbers.
    storage_sizes : tuple of int
        The bytes of the value for which the memory was made; it may have grown for another since.
    virtual_devices : tuple of VirtualDevice
        The devices, each with the kind of memory there.
    """

    storage_ids: tuple[int, ...]
    storage_sizes: tuple[int, ...]
    virtual_devices: tuple[VirtualDevice, ...]

    @property
    def device_types(self) -> tuple[int, ...]:
        """DLPack's numbers of the types of device."""
        return tuple(device.device_type for device in self.virtual_devices)


@dataclass(frozen=True)
class MemoryPlan:
    """Where each value of a program is.

    Attributes
    ----------
    expr_to_storage_info : dict of Expr to StorageInfo
        The values, in the order in which they are computed.
    """

    expr_to_storage_info: dict[Any, StorageInfo]


@dataclass(eq=False)
class _Memory:
    number: int
    made_for: int  # bytes
    size: int  # bytes, now
    uses: int
    scope: str  # the kind of memory, such as "global.texture"; values of one kind share


@dataclass
class _Planner:
    uses: dict[Any, list[int]]  # by value: how often each of its tensors is read
    device_type: int
    memories: list[_Memory] = field(default_factory=list)
    free: dict[str, list[_Memory]] = field(default_factory=dict)  # by kind of memory; by size, smallest first
    of: dict[Any, list[_Memory]] = field(default_factory=dict)

    def own(self, node: RelayExpr) -> None:
        """Give a parameter or a constant memory that nothing else gets."""
        tensors = self._tensors(node)
        self.of[node] = [self._new(ty, uses + 1, _scope(node)) for ty, uses in tensors]  # the caller reads it, too

    def call(self, node: Call) -> None:
        """Give the results of a call memory, and take back that of arguments that are read no more."""
        arguments = [memory for argument in node.args for memory in self.of[argument]]
        if is_reshape(node):
            arguments[0].uses += self.uses[node][0]
            self.of[node] = [arguments[0]]
        else:
            self.of[node] = [self._reused(ty, uses, _scope(node)) for ty, uses in self._tensors(node)]
        for memory in self.of[node]:
            self._give_back_unused(memory)
        for memory in arguments:
            memory.uses -= 1
            self._give_back_unused(memory)

    def _tensors(self, node: RelayExpr) -> list[tuple[TensorType, int]]:
        return list(zip(leaf_types(node.checked_type), self.uses[node], strict=True))

    def _new(self, ty: TensorType, uses: int, scope: str) -> _Memory:
        made = _Memory(len(self.memories), _size(ty), _size(ty), uses, scope)
        self.memories.append(made)
        return made

    def _reused(self, ty: TensorType, uses: int, scope: str) -> _Memory:
        size, free = _size(ty), self.free.setdefault(scope or _GLOBAL, [])
        start, middle, end = (
            bisect_left(free, size // _CLOSE, key=_by_size),
            bisect_left(free, size, key=_by_size),
            bisect_right(free, size * _CLOSE, key=_by_size),
        )
        # The smallest that is large enough; else the largest, which grows.
        for at in (*range(middle, end), *range(middle - 1, start - 1, -1)):
            found = free.pop(at)
            found.size, found.uses = max(size, found.size), uses
            return found
        return self._new(ty, uses, scope)

    def _give_back_unused(self, memory: _Memory) -> None:
        if memory.uses == 0:
            memory.uses = -1  # given back once
            insort(self.free.setdefault(memory.scope or _GLOBAL, []), memory, key=_by_size)


def _scope(node: RelayExpr) -> str:
    """Return the kind of memory that a value is to be in, as the function says that computes it."""
    if not isinstance(node, Call) or not isinstance(node.op, Function) or not node.op.attrs:
        return ""
    device = node.op.attrs.get(RESULT_DEVICE)
    return "" if device is None else str(device.memory_scope)


def _by_size(memory: _Memory) -> int:
    return memory.size


def graph_plan_memory(func: Function, device_type: int = _CPU) -> MemoryPlan:
    """Return the plan of a function's memory.

    Parameters
    ----------
    func : Function
        A typed function of calls, tuples, constants and parameters, whose sizes are known at compile time.
    device_type : int
        DLPack's number of the device that it runs on.

    Raises
    ------
    ModelError
        When the function has control flow, or a size that is known at run time only.
    """
    order = list(graph_order(func))
    planner = _Planner(_uses(func, order), device_type)
    for node in order:
        match node:
            case Var() | Constant():
                planner.own(node)
            case Tuple():
                planner.of[node] = [memory for part in node.fields for memory in planner.of[part]]
            case TupleGetItem():
                first, last = _slot(node)
                planner.of[node] = planner.of[node.tuple_value][first:last]
            case Call():
                planner.call(node)
    return MemoryPlan({node: _info(planner, memories) for node, memories in planner.of.items()})


def graph_order(func: Function) -> Iterator[RelayExpr]:
    """Yield the parameters of a function and the values of its body, each after what it is made of."""
    yield from func.params
    params = set(func.params)
    callees = {n.op for n in post_order(func.body, _Callees()) if isinstance(n, Call)}
    for node in post_order(func.body, _Callees()):
        if node in params or node in callees:
            continue
        if not isinstance(node, Call | Constant | Tuple | TupleGetItem | Var):
            raise ModelError(f"a graph has no {type(node).__name__}: it is of calls, tuples, constants and parameters")
        yield node


class _Callees:
    """Functions and operators: what calls name, whose insides are no nodes of the graph."""

    def __contains__(self, node: RelayExpr) -> bool:
        return isinstance(node, Function | Op)


def is_reshape(call: Call) -> bool:
    """Say whether a call only says anew how the elements of its first argument are arranged."""
    if is_call(call, *_RESHAPES):
        return True
    if not isinstance(call.op, Function) or len(call.args) != 1:
        return False
    inner = [n for n in post_order(call.op.body) if isinstance(n, Call)]
    return bool(inner) and all(is_call(n, *_RESHAPES) for n in inner)


def leaf_types(ty: Type) -> list[TensorType]:
    """Return the types of the tensors of a value, in order."""
    if isinstance(ty, TupleType):
        return [leaf for part in ty.fields for leaf in leaf_types(part)]
    if not isinstance(ty, TensorType) or not all(isinstance(d, int) for d in ty.shape):
        raise ModelError(f"a graph's values are tensors of sizes known at compile time, not {ty}")
    return [ty]


def _slot(node: TupleGetItem) -> tuple[int, int]:
    parts = [len(leaf_types(part)) for part in node.tuple_value.checked_type.fields]
    first = sum(parts[: node.index])
    return first, first + parts[node.index]


def _uses(func: Function, order: list[RelayExpr]) -> dict[Any, list[int]]:
    """Return how often calls, and whoever gets the result, read each tensor of each value."""
    counts: dict[Any, list[list[int]]] = {}
    for node in order:
        match node:
            case Tuple():
                counts[node] = [cell for part in node.fields for cell in counts[part]]
            case TupleGetItem():
                first, last = _slot(node)
                counts[node] = counts[node.tuple_value][first:last]
            case _:
                counts[node] = [[0] for _ in leaf_types(node.checked_type)]
        if isinstance(node, Call):
            for cell in (cell for argument in node.args for cell in counts[argument]):
                cell[0] += 1
    for cell in counts[func.body]:
        cell[0] += 1
    return {node: [cell[0] for cell in cells] for node, cells in counts.items()}


def _size(ty: TensorType) -> int:
    return prod(int(d) for d in ty.shape) * numpy_dtype(stored_type(ty.dtype)).itemsize


def _info(planner: _Planner, memories: list[_Memory]) -> StorageInfo:
    return StorageInfo(
        tuple(memory.number for memory in memories),
        tuple(memory.made_for for memory in memories),
        tuple(VirtualDevice(planner.device_type, 0, memory.scope) for memory in memories),
    )
