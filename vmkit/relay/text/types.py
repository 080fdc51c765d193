"""Parse types and dimensions."""

from __future__ import annotations

from typing import Any as AnyValue

from tvm import tirx
from tvm.ir import Expr

from ...errors import suggest
from ..ir import (
    Any,
    FuncType,
    IncompleteType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
    UnrankedType,
    dims,
    scalar_type,
)
from ..ir import Expr as RelayExpr
from ..ir import TypeVar as RelayTypeVar
from ..ir.dim_text import DIM_FUNCTIONS, DIM_OPERATORS
from ..ir.dtype import COMMON_DTYPES, as_dtype
from .cursor import Cursor
from .lexer import Token, describe_token
from .metadata import MetaNodes, MetaTable
from .scopes import Scopes
from .source import Source

__all__ = ["TypeParser"]

# Written as a reference is; no type of a program has a name that is followed by a parenthesis.
_CONTAINERS: dict[str, tuple[type[Type], int]] = {
    "map": (MapType, 2),
    "opt": (OptionalType, 1),
    "seq": (SequenceType, 1),
}
# The arithmetic of dimensions recurses in TVM: what is written by hand or printed is far shorter.
_LONGEST_DIM = 500


class TypeParser(Cursor):
    """Parses ``Tensor[(n, 4), float32]``, ``int32``, ``(T, U)``, ``fn (T) -> U``, ``ref(T)``, ``seq(T)``,
    ``map(K, V)``, ``_``.
    """

    def __init__(self, source: Source, init_meta: MetaNodes | None = None) -> None:
        super().__init__(source)
        self.scopes = Scopes()
        self._dim_operands = 0
        section = next((t for t in self.tokens if t.kind == "metadata"), None)
        self.meta = MetaTable(self, section, init_meta or {})

    def type(self) -> Type:
        """Parse a type."""
        with self.nested():
            token = self.next
            match token.kind:
                case "(":
                    return TupleType(self.sequence("(", ")", self.type))
                case "fn":
                    return self._function_type()
                case "ident":
                    return self._named_type(self.take())
                case "_":
                    self.take()
                    return IncompleteType()
                case "meta":
                    return self.meta.find(self.take(), Type, "a type")
                case "ref":
                    return self._reference_type()
            self.fail(token, f"expected a type, found {describe_token(token)}")

    def annotation(self) -> Type | None:
        """Parse ``: type`` if it comes; ``_`` says nothing."""
        if not self.accept(":"):
            return None
        ty = self.type()
        return None if isinstance(ty, IncompleteType) else ty

    def type_params(self) -> list[RelayTypeVar]:
        """Parse ``[A, B]`` if it comes, and bind the names in the current scope."""
        if self.next.kind != "[":
            return []
        return self.sequence("[", "]", self.type_param)

    def type_param(self) -> RelayTypeVar:
        """Parse the name of a type parameter, and bind it in the current scope."""
        token = self.expect("ident", "the name of a type parameter")
        return self.scopes.types.bind(token.value, RelayTypeVar(token.value))

    def _function_type(self) -> FuncType:
        self.expect("fn")
        with self.scopes.types.scope():
            params = self.type_params()
            arguments = self.sequence("(", ")", self.type)
            self.arrow()
            return FuncType(arguments, self.type(), params)

    def _named_type(self, token: Token) -> Type:
        variable = self.scopes.types.find(token.value)
        if variable is not None:
            if self.next.kind == "[":
                self.fail(self.next, f"type variable {token.value} takes no type arguments")
            return variable
        if token.value == "Tensor":
            return self._tensor_type()
        dtype = as_dtype(token.value)
        if dtype is not None:
            return scalar_type(dtype)
        container = _CONTAINERS.get(token.value)
        if container is not None and self.next.kind == "(":
            kind, count = container
            start = self.next
            parts = self.sequence("(", ")", self.type)
            if len(parts) != count:
                self.fail(start, f"{token.value} takes {count} types, found {len(parts)}")
            return kind(*parts)
        return self.data_type(token)

    def data_type(self, token: Token) -> Type:
        """Parse what follows the name of a type that the program defines."""
        raise NotImplementedError

    def _reference_type(self) -> RefType:
        self.expect("ref")
        return RefType(self._in_parentheses())

    def _in_parentheses(self) -> Type:
        self.expect("(")
        value = self.type()
        self.expect(")")
        return value

    def _tensor_type(self) -> TensorType | UnrankedType:
        self.expect("[")
        start = self.next
        if start.kind in ("?", "_"):
            self.take()
            self.expect(",")
            return UnrankedType(self._tensor_dtype(), start.kind == "_")
        is_or = start.kind == "ident" and start.value == "or"
        shapes = [] if is_or else [self.sequence("(", ")", self.dim)]
        while self.next.kind == "ident" and self.next.value == "or":
            self.take()
            shapes.append(self.sequence("(", ")", self.dim))
        self.expect(",")
        dtype = self._tensor_dtype()
        try:
            ways = [TensorType(shape, dtype) for shape in shapes]
            return UnrankedType(dtype, alternatives=ways) if is_or or len(ways) > 1 else ways[0]
        except (TypeError, ValueError) as error:
            self.fail(start, str(error))

    def _tensor_dtype(self) -> str:
        token = self.expect("ident", "a data type")
        dtype = as_dtype(token.value)
        if dtype is None:
            self.fail(token, f"there is no data type '{token.value}'{suggest(token.value, COMMON_DTYPES)}")
        self.expect("]")
        return dtype

    # -- dimensions

    def dim(self) -> AnyValue:
        """Parse a dimension: an int, ``?``, a name, or arithmetic of those.

        Nodes are made as written, so that what was printed is read back the same.
        """
        self._dim_operands = 0
        return self.dim_operators(self._dim_operand(), 0)

    def dim_operators(self, left: AnyValue, binding: int) -> AnyValue:
        """Parse the operators that follow an operand and bind tighter than `binding`."""
        while True:
            node, own = DIM_OPERATORS.get(self.next.kind, (None, 0))
            if node is None or own <= binding:
                return left
            self.take()
            left = _dim_node(node, [left, self.dim_operators(self._dim_operand(), own)])

    def _dim_operand(self) -> AnyValue:
        with self.nested():
            token = self.take()
            self._dim_operands += 1
            if self._dim_operands > _LONGEST_DIM:
                self.fail(token, f"a dimension has more than {_LONGEST_DIM} operands")
            match token.kind:
                case "number" if isinstance(token.value.value, int):
                    return token.value.value
                case "?":
                    return Any()
                case "ident" if self.next.kind == "(":
                    return self._dim_function(token)
                case "ident":
                    return self.scopes.dim(token.value)
                case "(":
                    inner = self._inner_dim()
                    self.expect(")")
                    return inner
                case "meta":
                    return self._dim_of_metadata(token)
            self.fail(token, f"expected a dimension (an int, '?' or a name), found {describe_token(token)}")

    def _dim_of_metadata(self, token: Token) -> AnyValue:
        found = self.meta.find(token, (int, Expr), "a dimension")
        if isinstance(found, RelayExpr):
            self.fail(token, f"expected a dimension, found an expression ({type(found).__name__})")
        return found

    def _inner_dim(self) -> AnyValue:
        return self.dim_operators(self._dim_operand(), 0)

    def _dim_function(self, token: Token) -> AnyValue:
        node = DIM_FUNCTIONS.get(token.value)
        if node is None:
            self.fail(token, f"there is no function '{token.value}' of dimensions{suggest(token.value, DIM_FUNCTIONS)}")
        operands = self.sequence("(", ")", self._inner_dim)
        expected = 3 if node is tirx.Select else 2
        if len(operands) != expected:
            self.fail(token, f"'{token.value}' takes {expected} dimensions, got {len(operands)}")
        try:
            return _dim_node(node, operands)
        except (TypeError, ValueError) as error:
            self.fail(token, f"'{token.value}' does not take these operands: {str(error).splitlines()[0]}")


def _dim_node(node: type, operands: list[AnyValue]) -> AnyValue:
    if any(dims.is_any(d) for d in operands):
        return Any()
    made = node(*(dims.as_expr(d) for d in operands))
    return dims.simplify(made) if all(isinstance(d, int) for d in operands) else made
