"""Arguments of kernel groups that the program made itself, of which a group takes no more than the address.

TVM's packed convention looks at each argument, with a message of its own: thirty instructions of LLVM, for a constant
as for what a user gives. That what a group does not look at (:attr:`.functions.KernelGroup.made`) is a tensor, and of
which extents, was seen when the program was loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tvm import ir, tirx

from ...errors import CompileError

__all__ = ["OWN", "with_own_tensors"]

OWN = "vmkit.own_tensors"
"""The attribute of a group's function: the positions of the arguments of which it takes no more than the address."""

_HEADER = 24  # bytes of a tensor of tvm-ffi before what DLPack describes
_TYPE, _VALUE = 13, 15  # what tvm_struct_get reads of an argument


def with_own_tensors(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """Return the function of a group, in TVM's packed convention, without a look at its own tensors.

    Raises
    ------
    CompileError
        If the convention is none that is known here.
    """
    own = [int(position) for position in function.attrs.get(OWN, [])]
    if not own:
        return function
    args = function.params[1]
    found: set[int] = set()
    body = _replaced(function.body, args, own, found)
    if found != set(own):
        raise CompileError(f"the tensors of kernel group {name} are not to be found in what TVM made of it")
    return function.with_body(body)


def _replaced(statement: tirx.Stmt, args: ir.Var, own: Sequence[int], found: set[int]) -> tirx.Stmt:
    """Return a statement before the computation; `found` takes the positions of own tensors that are bound in it."""
    match statement:
        case tirx.SeqStmt():
            return tirx.SeqStmt(list(_each_replaced(statement.seq, args, own, found)))
        case tirx.AttrStmt() if statement.attr_key != "compute_scope":
            body = _replaced(statement.body, args, own, found)
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
    return statement


def _each_replaced(
    statements: Collection[tirx.Stmt], args: ir.Var, own: Sequence[int], found: set[int]
) -> Iterator[tirx.Stmt]:
    left = iter(statements)
    for statement in left:
        position = _type_read(statement, args)
        if position is None or position not in own:
            yield _replaced(statement, args, own, found)
            continue
        check, handle = next(left, None), next(left, None)
        if not (isinstance(check, tirx.AssertStmt) and isinstance(handle, tirx.Bind)):
            return
        found.add(position)
        yield tirx.Bind(
            handle.var, tirx.handle_add_byte_offset(_of_argument(args, position, _VALUE, "handle"), _HEADER)
        )


def _type_read(statement: tirx.Stmt, args: ir.Var) -> int | None:
    """Return the position of the argument whose type a statement reads; None for all others."""
    value = statement.value if isinstance(statement, tirx.Bind) else None
    if not (isinstance(value, ir.Call) and getattr(value.op, "name", "") == "tirx.tvm_struct_get"):
        return None
    is_type = value.args[0].same_as(args) and int(value.args[2].value) == _TYPE
    return int(value.args[1].value) if is_type else None


def _of_argument(args: ir.Var, position: int, what: int, dtype: str) -> tirx.Expr:
    numbers = [tirx.IntImm("int32", position), tirx.IntImm("int32", what)]
    return ir.Call("tirx.tvm_struct_get", [args, *numbers], ret_ty=dtype)
