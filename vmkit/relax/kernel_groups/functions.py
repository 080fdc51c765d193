"""The function that a kernel group becomes: it calls each as a part, at addresses that it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.sym import Analyzer
from tvm.tirx.buffer import buffer_data, is_buffer_var

from ..._dataclasses import dataclass
from ...kernels.builder import WRITTEN_OUT
from ...values.element_types import element_bytes
from ...values.host_memory import ALIGNMENT
from ...values.kernel_needs import STATE, KnownTensor, Need, needs_text
from ..guards import with_divisors
from ..rewrite import substituted, variables_in
from .looks import FEW_BYTES, bytes_used
from .own_tensors import OWN
from .parts import CALLS_PARTS, call_part, told_by_shapes
from .shared_sizes import with_shared_sizes

WORD = 8
"""Bytes of the integers that a workspace is of, whose places and sizes are multiples of an alignment."""

_DATA = 1  # what tvm_struct_get reads of a tensor: the address of its elements

NEEDS = "vmkit.needs"
"""The attribute of a group's function: what it needs of the tensors that it does not look at; see :mod:`.needs`."""

__all__ = [
    "NEEDS",
    "WORD",
    "KernelCall",
    "KernelGroup",
    "Operands",
    "attributes",
    "group_function",
    "kernel_call",
]


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel as a part.

    Parameters
    ----------
    kernel
        The kernel's name in the module.
    args
        What the caller gives for each of its parameters: tensors and numbers.
    sizes
        The sizes that the kernel would have taken from the shapes of its arguments.
    """

    kernel: ir.GlobalVar
    args: tuple[relax.Expr, ...]
    sizes: tuple[tirx.Expr, ...]

    @property
    def tensors(self) -> list[relax.Expr]:
        """The arguments that are tensors."""
        return [arg for arg in self.args if isinstance(arg.ty, relax.TensorType)]

    @property
    def used(self) -> tirx.Expr:
        """How many bytes the call counts for; see :mod:`.looks`."""
        return bytes_used(self.tensors)


@dataclass(frozen=True)
class KernelGroup:
    """Kernel calls to be made by one function.

    Parameters
    ----------
    name
        The function's name in the module.
    calls
        In their order.
    tensors
        What the function is given, in the order of its parameters.
    made
        Those of `tensors` that the program made itself: constants, and memory that was allocated for the group. Those
        of them whose extents are known are not looked at in a call.
    position
        By argument of a call: its position in `tensors`.
    offset
        By argument of a call that is in the workspace: its first byte there.
    size
        Bytes of the workspace that the group needs; 0 if it needs none.
    state
        Which of `tensors` is what the group looks at to know whether to go on; None if it does not.
    """

    name: ir.GlobalVar
    calls: tuple[KernelCall, ...]
    tensors: tuple[relax.Expr, ...]
    made: frozenset[relax.Expr]
    position: Mapping[relax.Expr, int]
    offset: Mapping[relax.Expr, tirx.Expr]
    size: tirx.Expr
    state: relax.Expr | None

    def is_checked(self, tensor: relax.Expr) -> bool:
        """Say whether the function looks at a tensor's type and extents in each call."""
        return tensor not in self.made or not all(isinstance(dim, tirx.IntImm) for dim in tensor.ty.shape.values)

    @property
    def needs(self) -> list[Need]:
        """What the tensors must be, by position; None for those that the function looks at."""
        return [
            STATE if tensor is self.state else None if self.is_checked(tensor) else _known(tensor)
            for tensor in self.tensors
        ]

    @property
    def symbols(self) -> list[ir.Var]:
        """The numbers that the function is given after its tensors."""
        exprs = [size for tensor in self.tensors for size in tensor.ty.shape.values]
        exprs += [size for call in self.calls for size in call.sizes]
        exprs += [arg for call in self.calls for arg in call.args if not isinstance(arg.ty, relax.TensorType)]
        exprs += self.offset.values()
        return list(dict.fromkeys(variables_in(*(e for e in exprs if not isinstance(e, int | tirx.IntImm)))))


def kernel_call(
    value: relax.Expr, kernels: Mapping[ir.GlobalVar, tirx.PrimFunc], analyzer: Analyzer
) -> KernelCall | None:
    """Return a call of a kernel whose arguments are known to be what the kernel expects; None for all others."""
    if not (isinstance(value, ir.Call) and isinstance(value.op, ir.GlobalVar) and value.op in kernels):
        return None
    kernel, args = kernels[value.op], tuple(value.args)
    if kernel.attrs.get("tirx.is_host_func", False) or len(args) != len(kernel.params):
        return None
    if not all(_may_take(param, arg) for param, arg in zip(kernel.params, args, strict=True)):
        return None
    known = {p: arg for p, arg in zip(kernel.params, args, strict=True) if not is_buffer_var(p)}
    told = told_by_shapes(kernel)
    known.update({symbol: args[position].ty.shape.values[axis] for symbol, position, axis in told})

    def agrees(expected: tirx.Expr, given: tirx.Expr) -> bool:
        if isinstance(expected, tirx.IntImm) and isinstance(given, tirx.IntImm):
            return bool(expected.value == given.value)
        wanted = substituted(expected, known)
        return bool(tvm_ffi.structural_equal(wanted, given) or analyzer.can_prove_equal(wanted, given))

    for param, arg in zip(kernel.params, args, strict=True):
        sizes = zip(param.ty.shape, arg.ty.shape.values, strict=True) if is_buffer_var(param) else ()
        if not all(agrees(expected, given) for expected, given in sizes):
            return None
    return KernelCall(value.op, args, tuple(known[symbol] for symbol, _, _ in told))


def _may_take(param: ir.Var, arg: relax.Expr) -> bool:
    """Say whether an argument is of the kind that a parameter is for; sizes are not looked at."""
    if not is_buffer_var(param):
        return isinstance(arg.ty, ir.PrimType) and arg.ty == param.ty
    buffer, tensor = param.ty, arg.ty
    if len(buffer.strides) or not (buffer.elem_offset is None or _is_zero(buffer.elem_offset)):
        return False
    if not isinstance(tensor, relax.TensorType) or not isinstance(tensor.shape, relax.ShapeExpr):
        return False
    return len(tensor.shape.values) == len(buffer.shape) and str(tensor.dtype) == str(buffer.dtype)


def _is_zero(expr: tirx.Expr) -> bool:
    return isinstance(expr, tirx.IntImm) and expr.value == 0


def group_function(group: KernelGroup, parts: Mapping[ir.GlobalVar, str], look: str) -> tirx.PrimFunc:
    """Return the function of a group: of its tensors, of the workspace if it needs one, of its symbols.

    Parameters
    ----------
    parts
        The names of the kernels as parts.
    look
        The name of :func:`.looks.look_part`.
    """
    operands = Operands.of(group)
    body, used = [*operands.checks], tirx.IntImm("int64", 0)
    for call in group.calls:
        body.append(operands.call(call, parts))
        used = used + call.used
        if not isinstance(used, tirx.IntImm) or used.value >= FEW_BYTES:
            body += operands.look(group.state, used, look)
            used = tirx.IntImm("int64", 0)
    return tirx.PrimFunc(operands.params, tirx.SeqStmt(with_shared_sizes(body)), attrs=attributes(group))


def attributes(group: KernelGroup) -> ir.DictAttrs:
    """Return the attributes of a group's function."""
    names = [call.kernel.name_hint for call in group.calls]
    own = [position for position, tensor in enumerate(group.tensors) if not group.is_checked(tensor)]
    needs = {NEEDS: needs_text(group.needs), OWN: own} if own else {}
    return ir.make_node(
        "ir.DictAttrs", **{CALLS_PARTS: names, WRITTEN_OUT: True, **needs, "s_tir": True, "tirx.noalias": True}
    )


@dataclass(frozen=True)
class Operands:
    """What the function of a group has in its own names.

    Parameters
    ----------
    params
        Its parameters.
    checks
        What is looked at before the first kernel is called: that the workspace is large enough.
    address
        Returns the address of a tensor among the arguments of the group's calls.
    renamed
        Returns a number in the function's own symbols.
    """

    params: list[ir.Var]
    checks: list[tirx.Stmt]
    address: Callable[[relax.Expr], tirx.Expr]
    renamed: Callable[[tirx.Expr], tirx.Expr]

    @staticmethod
    def of(group: KernelGroup) -> Operands:
        """Return those of a group."""
        symbols = {symbol: tirx.Var(symbol.name, symbol.ty) for symbol in group.symbols}

        def renamed(expr: tirx.Expr) -> tirx.Expr:
            return substituted(with_divisors(expr), symbols)

        tensors = [_buffer(t, renamed) if group.is_checked(t) else tirx.Var("own", "handle") for t in group.tensors]
        length = tirx.Var("words", "int64")
        workspace = tirx.decl_buffer((length,), "int64", "workspace", data_alignment=ALIGNMENT, layout=None)

        def address(arg: relax.Expr) -> tirx.Expr:
            if arg in group.offset:
                return tirx.handle_add_byte_offset(buffer_data(workspace), renamed(group.offset[arg]))
            tensor = tensors[group.position[arg]]
            return buffer_data(tensor) if is_buffer_var(tensor) else _data_of(tensor)

        params = [*tensors, *([workspace] if group.offset else []), *symbols.values()]
        checks = [_is_within(renamed(group.size), length)] if group.offset else []
        return Operands(params, checks, address, renamed)

    def call(self, call: KernelCall, parts: Mapping[ir.GlobalVar, str]) -> tirx.Stmt:
        """Return the call of a kernel as a part."""
        args = [self.address(a) if isinstance(a.ty, relax.TensorType) else self.renamed(a) for a in call.args]
        return call_part(parts[call.kernel], [*args, *map(self.renamed, call.sizes)])

    def look(self, state: relax.Expr | None, used: tirx.Expr, look: str) -> list[tirx.Stmt]:
        """Return the look whether to go on, by the part of that name, once so many bytes have been used."""
        return [] if state is None else [call_part(look, [self.address(state), self.renamed(used)])]


def _known(tensor: relax.Expr) -> KnownTensor:
    dtype = tvm.DataType(str(tensor.ty.dtype))
    return KnownTensor((dtype.type_code, dtype.bits, dtype.lanes), tuple(int(dim) for dim in tensor.ty.shape.values))


def _is_within(size: tirx.Expr, length: ir.Var) -> tirx.Stmt:
    """Return the check that a workspace of `length` words has `size` bytes."""
    fits = tirx.all(size >= tirx.IntImm("int64", 0), size <= length * WORD)
    # TVM names the first two the other way round.
    return tirx.AssertStmt(fits, ir.StringImm("ValueError"), [ir.StringImm("the workspace has too few bytes")])


def _data_of(tensor: ir.Var) -> tirx.Expr:
    """Return the address of the elements of a tensor that is known to be as it should."""
    return ir.Call(
        "tirx.tvm_struct_get", [tensor, tirx.IntImm("int32", 0), tirx.IntImm("int32", _DATA)], ret_ty="handle"
    )


def _buffer(tensor: relax.Expr, renamed: Callable[[tirx.Expr], tirx.Expr]) -> ir.Var:
    ty = tensor.ty
    name = tensor.name if isinstance(tensor, ir.Var) else "constant"
    shape, dtype = [renamed(size) for size in ty.shape.values], str(ty.dtype)
    return tirx.decl_buffer(shape, dtype, name, data_alignment=element_bytes(dtype), layout=None)
