"""Sizes that the calls of a kernel group have in common, computed once.

Where each tensor lies in a workspace, and how many bytes calls use, is one formula of the program's sizes each, and
they consist of the same products: of a thousand kernels they are as long as all other code.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

__all__ = ["with_shared_sizes"]

_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)
_DTYPE = "int64"

_Key = tuple[object, ...]


def with_shared_sizes(body: Sequence[tirx.Stmt]) -> list[tirx.Stmt]:
    """Return statements that run one after another, of which calls share what their arguments of int64 consist of.

    What two of them need is stored right before the first, in a buffer: a name for it TVM would write out again.
    """
    table = _Table()
    for statement in body:
        for arg in _arguments(statement):
            table.count(arg)
    shared = table.places()
    if not shared:
        return list(body)
    length = tirx.IntImm("int32", len(shared))
    sizes = tirx.decl_buffer((length,), _DTYPE, "sizes", layout=None)
    made: list[tirx.Stmt] = [tirx.AllocBuffer(sizes)]
    writer = _Writer(table, sizes, shared)
    for statement in body:
        call = _call_in(statement)
        if call is None:
            made.append(statement)
            continue
        written = writer.of_call(call)
        made += writer.taken()
        made.append(tirx.Evaluate(written))
    return made


def _call_in(statement: tirx.Stmt) -> ir.Call | None:
    value = statement.value if isinstance(statement, tirx.Evaluate) else None
    return value if isinstance(value, ir.Call) else None


def _arguments(statement: tirx.Stmt) -> list[tirx.Expr]:
    """Return the formulas in a statement that calls a part."""
    call = _call_in(statement)
    return [each for arg in call.args for each in _formulas(arg)] if call is not None else []


def _formulas(arg: tirx.Expr) -> list[tirx.Expr]:
    given = arg.args if _is_address(arg) else [arg]
    return [each for each in given if isinstance(each, _OPERATIONS) and str(each.ty.dtype) == _DTYPE]


def _is_address(arg: tirx.Expr) -> bool:
    return isinstance(arg, ir.Call) and getattr(arg.op, "name", "") == "tirx.handle_add_byte_offset"


class _Table:
    """Which formulas are equal, and how often each is needed."""

    def __init__(self) -> None:
        self._numbers: dict[_Key, int] = {}
        self._of_handles: dict[int, int] = {}  # of nodes that the statements hold
        self._needed: list[int] = []
        self._others: list[tirx.Expr] = []  # what has no number by its operands is known by itself

    def count(self, expr: tirx.Expr) -> None:
        """Count one more need of a formula: of its operands, if it is the first."""
        number = self.number(expr)
        if number is None:
            return
        self._needed[number] += 1
        if self._needed[number] == 1:
            self.count(expr.a)
            self.count(expr.b)

    def number(self, expr: tirx.Expr) -> int | None:
        """Return the number that equal formulas have; None of what none of the operations computes."""
        if not isinstance(expr, _OPERATIONS):
            return None
        handle = expr.__chandle__()
        found = self._of_handles.get(handle)
        if found is None:
            found = self._number((type(expr), self._key(expr.a), self._key(expr.b)))
            self._of_handles[handle] = found
        return found

    def places(self) -> dict[int, int]:
        """Return where what is needed more than once is stored, by its number."""
        often = [number for number, count in enumerate(self._needed) if count > 1]
        return {number: place for place, number in enumerate(often)}

    def _number(self, key: _Key) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._needed.append(0)
        return self._numbers[key]

    def _key(self, expr: tirx.Expr) -> object:
        number = self.number(expr)
        if number is not None:
            return number
        if isinstance(expr, tirx.IntImm):
            return ("constant", int(expr.value))
        for at, other in enumerate(self._others):
            if other.same_as(expr):
                return ("other", at)
        self._others.append(expr)
        return ("other", len(self._others) - 1)


class _Writer:
    """Writes formulas with what they share read from a buffer, and the stores of that."""

    def __init__(self, table: _Table, sizes: tirx.Buffer, places: dict[int, int]) -> None:
        self._table, self._sizes, self._places = table, sizes, places
        self._stored: set[int] = set()
        self._stores: list[tirx.Stmt] = []

    def taken(self) -> list[tirx.Stmt]:
        """Return the stores since the last time."""
        stores, self._stores = self._stores, []
        return stores

    def of_call(self, call: ir.Call) -> ir.Call:
        """Return a call with its formulas written."""
        args = [self._of_argument(arg) for arg in call.args]
        return ir.Call(call.op, args, call.attrs, ret_ty=call.ty)

    def _of_argument(self, arg: tirx.Expr) -> tirx.Expr:
        if not _formulas(arg):
            return arg
        if _is_address(arg):
            return ir.Call(arg.op, [self._of(each) for each in arg.args], arg.attrs, ret_ty=arg.ty)
        return self._of(arg)

    def _of(self, expr: tirx.Expr) -> tirx.Expr:
        number = self._table.number(expr)
        if number is None:
            return expr
        place = self._places.get(number)
        if place is None:
            return self._operation(expr)
        at = tirx.IntImm("int32", place)
        if number not in self._stored:
            value = self._operation(expr)
            self._stored.add(number)
            self._stores.append(tirx.BufferStore(self._sizes, value, [at]))
        return tirx.BufferLoad(self._sizes, [at])

    def _operation(self, expr: tirx.Expr) -> tirx.Expr:
        make = next(kind for kind in _OPERATIONS if isinstance(expr, kind))
        return make(self._of(expr.a), self._of(expr.b))
