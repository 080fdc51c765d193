"""What a partial evaluator knows of values: the part of each that is known before the program runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeAlias, cast

from tvm.runtime import Tensor

from ..._dataclasses import dataclass
from ..ir import Call, Constant, Constructor, Let, RelayExpr, Tuple, TupleGetItem, TupleType, Type, Var
from ..op.attrs import Attrs

__all__ = [
    "Fuel",
    "KnownCell",
    "KnownData",
    "KnownFunction",
    "KnownTensor",
    "KnownTuple",
    "Lets",
    "Partial",
    "Store",
    "constant_of",
    "fuel_of",
    "making",
    "tensors_of",
]

_clock = itertools.count()


@dataclass(frozen=True, eq=False)
class Partial:
    """A value: what is known of it, if anything, and an operand that has it when the program runs.

    `time` says which of two values was made earlier.
    """

    dynamic: RelayExpr
    known: Known | None = None
    time: int = field(default_factory=lambda: next(_clock))


@dataclass(frozen=True, eq=False)
class KnownTensor:
    """A tensor."""

    data: Tensor


@dataclass(frozen=True, eq=False)
class KnownTuple:
    """A tuple, each of whose fields may be known."""

    fields: Sequence[Partial]


@dataclass(frozen=True, eq=False)
class KnownData:
    """A value of a data type, each of whose fields may be known."""

    constructor: Constructor
    fields: Sequence[Partial]


@dataclass(frozen=True, eq=False)
class KnownCell:
    """A reference; the :class:`Store` knows what is in it."""


@dataclass(frozen=True, eq=False)
class KnownFunction:
    """A function: what a call of it gives, from itself, arguments, attributes, type arguments and where Lets go."""

    call: Callable[[Partial, list[Partial], Any, list[Any], Lets], Partial]


Known: TypeAlias = KnownTensor | KnownTuple | KnownData | KnownCell | KnownFunction


class Lets:
    """A row of Lets that grows at its end."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, RelayExpr]] = []

    def push(self, value: RelayExpr, variable: Var | None = None) -> Var:
        """Bind a value, and return the variable."""
        bound = Var("x") if variable is None else variable
        self.bindings.append((bound, value))
        return bound

    def around(self, body: RelayExpr) -> RelayExpr:
        """Return an expression within the Lets."""
        for variable, value in reversed(self.bindings):
            body = Let(variable, value, body)
        return body


class Store:
    """What is in references, as far as it is known.

    What happens in a branch is forgotten after it, together with all that the branch may have changed.
    """

    def __init__(self) -> None:
        # Each a frame: what was written since it began, and whether what is below it still holds.
        self._frames: list[tuple[dict[KnownCell, Partial], bool]] = [({}, True)]

    def write(self, cell: KnownCell, value: Partial) -> None:
        self._frames[-1][0][cell] = value

    def read(self, cell: KnownCell) -> Partial | None:
        for written, is_history_valid in reversed(self._frames):
            if cell in written:
                return written[cell]
            if not is_history_valid:
                return None
        return None

    def forget(self) -> None:
        """Take anything to have happened to any reference."""
        self._frames.append(({}, False))

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Forget at the end what is written within."""
        depth = len(self._frames)
        self._frames.append(({}, True))
        try:
            yield
        finally:
            del self._frames[depth:]


@dataclass(frozen=True)
class Fuel:
    """Why a function may be entered again: each time its arguments are earlier or smaller than ever before.

    There are finitely many earlier times and smaller numbers, so that unfolding a recursion ends.
    """

    args: tuple[tuple[int, int], ...] | None = None

    def met(self, other: Fuel) -> tuple[Fuel, bool]:
        """Return the fuel after a call with some arguments, and whether it is less than before."""
        if self.args is None or other.args is None:
            return other, self.args is None and other.args is not None
        least = tuple((min(a, c), min(b, d)) for (a, b), (c, d) in zip(self.args, other.args, strict=True))
        return Fuel(least), any(c < a or d < b for (a, b), (c, d) in zip(self.args, least, strict=True))


def fuel_of(args: Sequence[Partial]) -> Fuel:
    """Return what the arguments of a call give: how early each was made, and the number that it is, if it is one."""
    return Fuel(tuple((arg.time, _number(arg)) for arg in args))


def _number(value: Partial) -> int:
    if not isinstance(value.known, KnownTensor):
        return 0
    data = value.known.data
    if tuple(data.shape) or str(data.dtype) not in ("int32", "int64"):
        return 0
    return max(0, int(data.numpy()))


def making(constructor: Constructor) -> KnownFunction:
    """Return a constructor as a function whose result is known to be of it."""

    def call(own: Partial, args: list[Partial], attrs: Attrs | None, type_args: list[Any], lets: Lets) -> Partial:
        return Partial(lets.push(Call(constructor, [arg.dynamic for arg in args])), KnownData(constructor, args))

    return KnownFunction(call)


def constant_of(value: Partial) -> RelayExpr | None:
    """Return a value that is known throughout as an expression of constants."""
    if isinstance(value.known, KnownTensor):
        return Constant(value.known.data)
    if isinstance(value.known, KnownTuple):
        fields = [constant_of(field) for field in value.known.fields]
        return None if None in fields else Tuple(cast("list[RelayExpr]", fields))
    return None


def tensors_of(expr: RelayExpr, ty: Type) -> list[tuple[RelayExpr, Any]]:
    """Return the tensors that a value is made of, each with its type."""
    if isinstance(ty, TupleType):
        return [each for i, part in enumerate(ty.fields) for each in tensors_of(TupleGetItem(expr, i), part)]
    return [(expr, ty)]
