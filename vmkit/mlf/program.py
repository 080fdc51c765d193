"""A program as C runs it: calls of kernels on tensors, each with its memory; branches, loops and copies between."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

import numpy as np

from .._dataclasses import dataclass
from ..values.element_types import numpy_dtype

__all__ = [
    "Branch",
    "Call",
    "Copy",
    "Foreign",
    "Instruction",
    "Kind",
    "Leave",
    "Loop",
    "Memory",
    "Program",
    "Repeat",
    "Tensor",
    "item_bytes",
    "plain_tensors",
    "walk",
]


class Kind(enum.Enum):
    """Whose memory is."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    WORKSPACE = "workspace"


@dataclass(eq=False)
class Memory:
    """Bytes that one or several tensors are in.

    Attributes
    ----------
    size, alignment : int
        Bytes.
    kind : Kind
        Whose it is.
    index : int
        The place among the program's inputs, outputs or constants.
    """

    size: int
    alignment: int
    kind: Kind = Kind.WORKSPACE
    index: int = 0
    _joined: Memory | None = None

    def join(self, other: Memory) -> None:
        """Become the same memory as another."""
        self._joined = other

    @property
    def home(self) -> Memory:
        """The memory that this one has become."""
        memory = self
        while memory._joined is not None:
            memory = memory._joined
        return memory


@dataclass(eq=False)
class Tensor:
    """Elements in memory, in the order of rows."""

    memory: Memory
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return prod(self.shape) * item_bytes(self.dtype)

    @staticmethod
    def new(dtype: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor in memory of its own."""
        size = item_bytes(dtype)
        return Tensor(Memory(prod(shape) * size, size), dtype, tuple(shape))


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a kernel on tensors in the order of its parameters, and with memory for its own buffers."""

    kernel: str
    args: tuple[Tensor, ...]
    workspace: tuple[Memory, ...] = ()


@dataclass(frozen=True, eq=False)
class Copy:
    """The bytes of one tensor put into another."""

    source: Tensor
    target: Tensor


@dataclass(frozen=True, eq=False)
class Foreign:
    """A call of a function that another code generator wrote, of tensors as they are, those of the results last."""

    symbol: str
    args: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Branch:
    """One of two lists of instructions, by a number that is zero or not."""

    condition: Tensor
    then: list[Instruction]
    otherwise: list[Instruction]


@dataclass(frozen=True, eq=False)
class Loop:
    """Instructions that are repeated until one leaves; each way through them ends in ``Repeat`` or ``Leave``."""

    body: list[Instruction]


@dataclass(frozen=True)
class Repeat:
    """The next turn of the innermost loop."""


@dataclass(frozen=True)
class Leave:
    """The end of the innermost loop."""


Instruction = Call | Copy | Foreign | Branch | Loop | Repeat | Leave


@dataclass(eq=False)
class Program:
    """A function of tensors.

    Attributes
    ----------
    inputs, outputs : list of (str, Tensor)
        By name.
    constants : list of ndarray
        What the memories of constants hold.
    body : list of Instruction
        What it does.
    """

    inputs: list[tuple[str, Tensor]]
    outputs: list[tuple[str, Tensor]] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)

    @property
    def calls(self) -> list[Call]:
        """All calls, in their order."""
        return [each for each in walk(self.body) if isinstance(each, Call)]


def walk(body: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yield instructions and those inside of them, in their order."""
    for each in body:
        yield each
        match each:
            case Branch():
                yield from walk(each.then)
                yield from walk(each.otherwise)
            case Loop():
                yield from walk(each.body)


def plain_tensors(each: Instruction) -> tuple[Tensor, ...]:
    """Return the tensors that an instruction itself touches without a kernel: as they are, in their own types."""
    match each:
        case Copy():
            return each.source, each.target
        case Foreign():
            return each.args
        case Branch():
            return (each.condition,)
    return ()


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element."""
    return int(numpy_dtype(dtype).itemsize)
