"""What an operator's lowering works with: emit Relax, compute by TE, read shapes, check at run time.

A lowered value is a Relax expression, or a Python tuple of lowered values for a tuple whose fields are at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import relax, te, tirx
from tvm.ir import Span

from ...errors import CompileError
from ...values.element_types import stored_type
from ..ir import dims
from ..ir.places import noted, place_text, places_in
from ..ir.types import Dim, TensorType, TupleType, Type
from ..op.registry import OpEntry, OpPattern
from .checks import RuntimeChecks
from .read_sizes import ReadSizes
from .repeated_kernels import RepeatedKernels

__all__ = ["LowerContext", "Value", "relax_type"]

Value: TypeAlias = "relax.Expr | tuple[Value, ...]"


class LowerContext:
    """The function being lowered, seen from an operator.

    Attributes
    ----------
    builder : relax.BlockBuilder
        Where bindings go: that of the module's kernels.
    symbols : dict
        The symbolic dimensions of the Relay function, each with the Relax symbol that stands for it here.
    device : int or None
        DLPack's number for the type of device that the program is compiled for; None for several devices.
    current : OpEntry or None
        The operator that is being lowered.
    span : Span or None
        The place of its call.
    types : list of Type
        The Relay types of its arguments, whose element types may be stored as others.
    read_sizes : ReadSizes
        The symbols that stand for numbers in tensors.
    kernels : RepeatedKernels
        The kernels that the module has.
    texts : dict
        The texts of the module's constants, as keys; a lowering adds to them.
    """

    def __init__(
        self,
        kernels: RepeatedKernels,
        checks: RuntimeChecks,
        device: int | None = None,
        texts: dict[str, None] | None = None,
    ) -> None:
        self.builder = kernels.builder
        self.kernels = kernels
        self.checks = checks
        self.device = device
        self.symbols: dict[Any, tirx.Var] = {}
        self.current: OpEntry | None = None
        self.span: Span | None = None
        self.types: list[Type] = []
        self.texts: dict[str, None] = {} if texts is None else texts
        self.read_sizes = ReadSizes()
        self._fresh = 0
        self._origins: dict[tirx.Var, Dim] = {}

    @property
    def operator(self) -> str:
        """What messages call the operator that is being lowered: its name, and the model's node if that is known."""
        if self.current is None:
            raise CompileError("no operator is being lowered here")
        # A place without a line is a node of a model, and not in a text.
        nodes = [repr(place_text(place)) for place in places_in(self.span) if not place.line]
        return f"{self.current.name} of node {', '.join(nodes)}" if nodes else self.current.name

    # -- emitting

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Bind an expression and return its variable. Sizes in its type that may be too large are checked before."""
        if noted() is not None and self.span is not None and isinstance(expr, relax.Call):
            expr = relax.Call(expr.op, list(expr.args), expr.attrs, list(expr.ty_args), self.span)
        expr = self.builder.normalize(expr)
        self._check_sizes(expr.ty)
        return self.builder.emit(expr)

    def _check_sizes(self, ty: relax.Type) -> None:
        condition = self.read_sizes.condition(ty)
        if condition is not None:
            name = self.current.name if self.current is not None else "a call"
            where = ", read from data," if self.read_sizes.symbols else ""
            what = f"the sizes of the result{where} are negative or of more elements than a tensor can have"
            self.require(condition, f"{name}: {what}")

    def te(
        self,
        function: Callable[..., Any],
        *args: Any,
        pattern: OpPattern | None = None,
        name: str | None = None,
    ) -> Any:  # noqa: ANN401 - one expression or a tuple of them, as the function returns
        """Return the value of a TE function of lowered values, computed by one kernel.

        Parameters
        ----------
        function : callable
            Takes a TE tensor for every Relax value among `args`, and everything else as it is; returns a TE tensor
            or a list of them. A kernel has symbols of its own: every dimension that the function uses beside the
            shapes of its tensors must be handed in through `args` (lists may nest), never by closure.
        pattern : OpPattern, optional
            How the kernel may be fused; the current operator's pattern if not given.
        name : str, optional
            The name of the kernel; the current operator's name if not given.
        """
        made = self.current
        if pattern is None:
            pattern = made.pattern if made is not None else OpPattern.OPAQUE
        if name is None:
            name = made.name.replace(".", "_") if made is not None else function.__name__
        call = self.kernels.call(function, [self.tensors(a) for a in args], name, int(pattern))
        value = self.emit(call)
        if isinstance(value.ty, relax.TupleType):
            return tuple(self.emit(relax.TupleGetItem(value, i)) for i in range(len(value.ty.fields)))
        return value

    def tensors(self, value: Any) -> Any:  # noqa: ANN401 - what is no tuple passes as it is
        """Return a value in the form that `te` passes on: tuples become lists."""
        return [self.tensors(v) for v in value] if isinstance(value, tuple) else value

    def materialize(self, value: Value) -> relax.Expr:
        """Return a lowered value as one Relax expression."""
        if isinstance(value, tuple):
            if not value:
                # To Relax the empty tuple is no value: the result of a call would have no register.
                return self.emit(relax.op.call_pure_packed("vm.builtin.make_tuple", ty_args=[relax.AnyType()]))
            return relax.Tuple([self.materialize(v) for v in value])
        return value

    def fields(self, value: Value, count: int | None = None) -> tuple[Any, ...]:
        """Return the fields of a lowered tuple; `count` is how many, for a value that is known to be a tuple only."""
        if isinstance(value, tuple):
            return value
        if isinstance(value.ty, relax.AnyType):
            if count is None:
                raise CompileError(f"the fields of {value} are not known where {self.current} needs them")
            return tuple(self.read_field(value, i) for i in range(count))
        return tuple(self.emit(relax.TupleGetItem(value, i)) for i in range(len(value.ty.fields)))

    def read_field(self, value: Value, index: int, ty: relax.Type | None = None) -> relax.Expr:
        """Return an element, of a type if that is known, of an array of which only that is known."""
        at, types = relax.prim_value(index), [ty or relax.AnyType()]
        return self.emit(relax.op.call_pure_packed("vm.builtin.tuple_getitem", value, at, ty_args=types))

    # -- shapes

    def shape(self, value: relax.Expr) -> list[Dim]:
        """Return the dimensions of a lowered tensor: ints and symbolic integers of this function."""
        shape = value.ty.shape
        if shape is None:
            raise CompileError(f"the shape of {value} is not known where {self.current and self.current.name} needs it")
        return [dims.simplify(d) for d in shape]

    def symbol(self, hint: str = "d") -> tirx.Var:
        """Return a new symbolic dimension of this function."""
        self._fresh += 1
        return tirx.Var(f"{hint}_{self._fresh}", "int64")

    def dims(self, values: Sequence[Dim]) -> list[Dim]:
        """Return dimensions given in the Relay function's symbols in those of this function."""
        return [dims.substitute(v, self.symbols) for v in values]

    def pin(self, value: relax.Expr, shape: Sequence[Dim] | None = None, dtype: str | None = None) -> relax.Expr:
        """Return a tensor with every dimension named, checked at run time.

        Where `shape` (in the Relay function's symbols) gives a dimension, the value must have it; every other
        unknown dimension becomes a new symbol.
        """
        ty = value.ty
        if shape is None and ty.shape is not None:
            return value
        known = list(shape) if shape is not None else [dims.Any()] * ty.ndim
        names = [self.symbol() if dims.is_any(d) else d for d in self.dims(known)]
        pinned = relax.TensorType([dims.as_expr(d) for d in names], dtype or ty.dtype)
        self.read_sizes.add_existing(pinned)
        return self.builder.match_cast(value, pinned)

    def pin_as(self, value: Value, ty: Type) -> Value:
        """Return a value of a Relay type with every dimension of every tensor in it named."""
        if isinstance(ty, TupleType):
            fields = self.fields(value, len(ty.fields))
            return tuple(self.pin_as(v, t) for v, t in zip(fields, ty.fields, strict=True))
        if isinstance(value, tuple) or not isinstance(ty, TensorType):
            return value
        if isinstance(value.ty, relax.AnyType) or value.ty.shape is None:
            shape = [d if self.is_expressible(d) else dims.Any() for d in ty.shape]
            return self.pin(value, shape, stored_type(ty.dtype))
        return value

    def short(self, value: Value) -> Value:
        """Return a value in which every dimension that is a long expression has a symbol of its own.

        The dimensions of a chain of operators would grow with each of them, and TVM's passes take exponential time
        for nested choices. A broadcast is known by the symbol to be one of the same dimensions again.
        """
        return tuple(self.short(v) for v in value) if isinstance(value, tuple) else self.short_tensor(value)

    def short_tensor(self, value: relax.Expr) -> relax.Expr:
        """Return what :meth:`short` does for one expression."""
        shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
        if not isinstance(shape, relax.ShapeExpr) or not any(dims.is_long(d) for d in shape.values):
            return value
        named = [self._named(d) if dims.is_long(d) else d for d in shape.values]
        return self.builder.match_cast(self._of_any_shape(value), relax.TensorType(named, value.ty.dtype))

    def _of_any_shape(self, value: relax.Expr) -> relax.Expr:
        # TVM puts what a symbol is known to be in its place again, so a call hides the shape from it.
        unknown = relax.TensorType(ndim=value.ty.ndim, dtype=value.ty.dtype)
        return self.emit(relax.op.call_pure_packed("vm.builtin.copy", value, ty_args=[unknown]))

    def hidden(self, value: relax.Expr) -> relax.Expr:
        """Return a tensor of whose shape nothing is known any more but the rank."""
        return self.pin(self._of_any_shape(value))

    def _named(self, dim: Dim) -> tirx.Var:
        symbol = self.symbol("s")
        self._origins[symbol] = dim
        self.read_sizes.add_if_derived(symbol, dim)
        return symbol

    def origin(self, dim: Dim) -> Dim:
        """Return the expression for which :meth:`short` put a symbol; every other dimension as it is."""
        return self._origins.get(dim, dim) if isinstance(dim, tirx.Var) else dim

    def is_expressible(self, dim: Dim) -> bool:
        """Say whether every symbol of a Relay dimension has a value in this function."""
        return not dims.is_any(dim) and all(s in self.symbols for s in dims.symbols([dim]))

    def read_dims(self, value: relax.Expr) -> list[Dim]:
        """Return the elements of an integer vector of static length as symbolic dimensions, read at run time.

        The elements must be sizes: Relax simplifies under the assumption that no symbol is negative, so a vector that
        may hold -1 has to be resolved by a kernel first.
        """
        (length,) = self.shape(value)
        if not isinstance(length, int):
            raise CompileError(
                f"{self.current and self.current.name}: the length of the shape vector is not known at compile time, "
                "so the rank of the result is not either"
            )
        if length == 0:
            return []
        if str(value.ty.dtype) != "int64":
            value = self.emit(relax.op.astype(value, "int64"))
        shape = self.emit(relax.op.tensor_to_shape(value))
        names = [self.symbol("v") for _ in range(length)]
        self.builder.match_cast(shape, relax.ShapeType(names))
        self.read_sizes.add(names)
        return list[Dim](names)

    # -- run-time checks

    def require_equal(self, actual: Dim, expected: Dim, message: str) -> None:
        """Check at run time that two integers are equal, unless it is certain now.

        Parameters
        ----------
        actual, expected : dimension
            Over this function's symbols.
        message : str
            The error; ``{actual}`` and ``{expected}`` stand for the two values.
        """
        same = dims.equal(actual, expected)
        if same:
            return
        if same is False:
            raise CompileError(message.format(actual=actual, expected=expected))
        self.checks.emit(self.builder, actual, expected, message)

    def fail(self, message: str) -> None:
        """Raise an error at run time whenever this place is reached."""
        # A check of what the compiler knows it would refuse itself: a kernel gives the number to compare.
        (zero,) = self.read_dims(self.te(lambda: te.compute((1,), lambda i: tirx.const(0, "int64"), "never")))
        self.checks.emit(self.builder, zero, 1, message)

    def require(self, condition: tirx.Expr | bool, message: str) -> None:
        """Check a condition over symbolic integers at run time."""
        self.require_equal(dims.select(condition, 1, 0), 1, message)


def relax_type(ty: Type, symbols: dict[Any, tirx.Var] | None = None) -> relax.Type:
    """Return the Relax type of a Relay type.

    With `symbols`, which is extended, every dimension of a tensor is named; without, a tensor with a dimension that
    is not an int keeps only its rank.
    """
    if isinstance(ty, TupleType) and len(ty.fields) > 0:
        return relax.TupleType([relax_type(f, symbols) for f in ty.fields])
    if not isinstance(ty, TensorType):
        return relax.AnyType()
    shape, dtype = list(ty.shape), stored_type(ty.dtype)
    if symbols is None:
        if all(isinstance(d, int) for d in shape):
            return relax.TensorType([dims.as_expr(d) for d in shape], dtype)
        return relax.TensorType(ndim=len(shape), dtype=dtype)
    for symbol in dims.symbols(shape):
        symbols.setdefault(symbol, tirx.Var(symbol.name, "int64"))
    named = [tirx.Var("any", "int64") if dims.is_any(d) else dims.substitute(d, symbols) for d in shape]
    return relax.TensorType([dims.as_expr(d) for d in named], dtype)
