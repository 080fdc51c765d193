"""Expressions of kernels as C99: the operators, the functions of ``math.h``, and inline functions for what C lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
import tvm_ffi
from tvm import tirx

from .._tvm.nodes import TensorLoad
from ..errors import CompileError
from .c_names import MATH
from .c_numbers import (
    HALF_FUNCTIONS,
    HALF_NEEDS,
    ROUNDED,
    c_type,
    float_text,
    int_text,
    is_half,
    number_text,
    value_type,
)

__all__ = ["ExpressionWriter"]

_ARITHMETIC = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.Div: "/", tirx.Mod: "%"}
_COMPARISONS = {tirx.EQ: "==", tirx.NE: "!=", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">="}
_LOGIC = {tirx.And: "&&", tirx.Or: "||"}
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
# What TVM has as nodes of their own and, in older kernels, as calls.
_OF_NODES = {
    tirx.BitwiseAnd: "bitwise_and",
    tirx.BitwiseOr: "bitwise_or",
    tirx.BitwiseXor: "bitwise_xor",
    tirx.BitwiseNot: "bitwise_not",
    tirx.LShift: "shift_left",
    tirx.RShift: "shift_right",
}
_EXTREMES = {tirx.Max: ("max", ">"), tirx.Min: ("min", "<")}


class ExpressionWriter:
    """Writes expressions of one file; `helpers` are the inline functions that they need, by name and in their order.

    Parameters
    ----------
    kernel : str
        What errors name.
    names : mapping of Var to str
        The names of variables and of buffers.
    stored : mapping of Var to str
        The data types of the buffers' elements in memory, where they are narrower than in the kernel.
    known : mapping of Var to number
        The buffers of one element that is known.
    helpers : dict of str to str
        Is added to.
    """

    def __init__(
        self,
        kernel: str,
        names: Mapping[tvm.ir.Var, str],
        stored: Mapping[tvm.ir.Var, str],
        known: Mapping[tvm.ir.Var, int | float],
        helpers: dict[str, str],
    ) -> None:
        self.kernel, self.names, self.stored, self.known, self.helpers = kernel, names, stored, known, helpers

    def fail(self, what: str) -> CompileError:
        """Return the error that a kernel has what C lacks."""
        return CompileError(f"kernel {self.kernel}: {what}")

    def half(self, name: str) -> str:
        """Return the name of a function of float16, which the file then has with those that it calls."""
        for needed in (*HALF_NEEDS.get(name, ()), name):
            self.helpers.setdefault(needed, HALF_FUNCTIONS[needed])
        return name

    def element(self, buffer: tvm.ir.Var, indices: list[tirx.Expr]) -> str:
        """Return an element of a buffer."""
        (index,) = indices
        return f"{self.names[buffer]}[{_bare(self.text(index))}]"

    def text(self, expr: tirx.Expr) -> str:
        """Return an expression as C, in parentheses where it has operators."""
        match expr:
            case tirx.IntImm():
                return int_text(int(expr.value), _dtype(expr))
            case tirx.FloatImm():
                value_type(_dtype(expr))
                return float_text(float(expr.value), _dtype(expr))
            case TensorLoad() if expr.source in self.known:
                return number_text(self.known[expr.source], _dtype(expr))
            case TensorLoad():
                loaded = self.element(expr.source, list(expr.indices))
                if is_half(_dtype(expr)):
                    return f"{self.half('float_of_half')}({loaded})"
                return f"({c_type(_dtype(expr))}){loaded}" if expr.source in self.stored else loaded
            case tvm.ir.Var():
                return self.names[expr]
            case tirx.Cast():
                return self.cast(expr)
            case tirx.Select():
                return f"({self.text(expr.condition)} ? {self.text(expr.true_value)} : {self.text(expr.false_value)})"
            case tirx.Not():
                return f"(!{self.text(expr.a)})"
            case tirx.Let():
                # Of an index whose sign is not known; it is short.
                return self.text(tvm_ffi.structural_map(expr.body, (tvm.ir.Var, lambda v: _either(v, expr))))
            case tvm.ir.Call():
                return self.call(expr)
        return self.binary(expr)

    def binary(self, expr: tirx.Expr) -> str:
        """Return an operation on two values."""
        kind, dtype = type(expr), _dtype(expr)
        if kind in _EXTREMES:
            return self.extreme(*_EXTREMES[kind], dtype, self.text(expr.a), self.text(expr.b))
        if kind in _COMPARISONS or kind in _LOGIC:
            return f"({self.text(expr.a)} {(_COMPARISONS | _LOGIC)[kind]} {self.text(expr.b)})"
        if kind in _OF_NODES:
            args = [getattr(expr, side) for side in ("a", "b") if hasattr(expr, side)]
            return self.operation(_OF_NODES[kind], dtype, args)
        if kind not in _ARITHMETIC:
            raise self.fail(f"there is no C for {kind.__name__}")
        return self.wrapped(f"({self.text(expr.a)} {_ARITHMETIC[kind]} {self.text(expr.b)})", dtype)

    def wrapped(self, text: str, dtype: str) -> str:
        """Return the result of an operation in its own type: C computes with int what is shorter."""
        if is_half(dtype):
            return f"{self.half('rounded_to_half')}({_bare(text)})"
        is_short = dtype in ("int8", "int16", "uint8", "uint16")
        return f"({c_type(dtype)}){text}" if is_short else text

    def extreme(self, name: str, sign: str, dtype: str, a: str, b: str) -> str:
        """Return the larger or smaller of two values: the second one, where they do not compare."""
        ctype = value_type(dtype)
        helper = f"{name}_{dtype}"
        self.helpers[helper] = f"static inline {ctype} {helper}({ctype} a, {ctype} b) {{ return a {sign} b ? a : b; }}"
        return f"{helper}({_bare(a)}, {_bare(b)})"

    def cast(self, expr: tirx.Cast) -> str:
        """Return a value in another type."""
        value, dtype = self.text(expr.value), _dtype(expr)
        if dtype == "bool":
            return f"({value} != 0)"
        if is_half(dtype):
            rounded = "half_of_double" if _dtype(expr.value) == "float64" else "rounded_to_half"
            return f"{self.half(rounded)}({_bare(value)})"
        return f"({c_type(dtype)}){value}"

    def call(self, expr: tvm.ir.Call) -> str:
        """Return the call of a function or of an operation that TVM has as one."""
        name = str(getattr(expr.op, "name", expr.op)).partition(".")[2]
        args, dtype = list(expr.args), _dtype(expr)
        if name in ("call_pure_extern", "call_extern"):
            return self.external(str(args[0].value), dtype, args[1:])
        if name == "if_then_else":
            return "({} ? {} : {})".format(*map(self.text, args))
        if name == "likely":
            return self.text(args[0])
        if name in _BITS or name in _OPERATIONS:
            return self.operation(name, dtype, args)
        plain = {"isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite"}.get(name, name)
        called = self.function(f"{plain}f" if plain in MATH and dtype in ("float16", "float32") else plain, args)
        return self.wrapped(called, dtype)

    def external(self, name: str, dtype: str, args: list[tirx.Expr]) -> str:
        """Return the call of a function by name: of a floored quotient or its rest, or of ``math.h``."""
        if name not in ("floordiv", "floormod"):
            return self.wrapped(self.function(name, args), dtype)
        ctype, helper = c_type(dtype), f"{name}_{dtype}"
        is_inexact = "" if dtype.startswith("u") else " (a % b != 0 && (a < 0) != (b < 0))"
        body = {
            "floordiv": f"return ({ctype})(a / b{' -' + is_inexact if is_inexact else ''});",
            "floormod": f"return ({ctype})({'a % b' if not is_inexact else 'a % b +' + is_inexact + ' * b'});",
        }[name]
        self.helpers[helper] = f"static inline {ctype} {helper}({ctype} a, {ctype} b) {{ {body} }}"
        return f"{helper}({', '.join(_bare(self.text(arg)) for arg in args)})"

    def operation(self, name: str, dtype: str, args: list[tirx.Expr]) -> str:
        """Return an operation on bits, or another that TVM has as a call."""
        if name in _BITS:
            return f"({self.text(args[0])} {_BITS[name]} {self.text(args[1])})"
        return _OPERATIONS[name](self, dtype, args)

    def function(self, name: str, args: list[tirx.Expr]) -> str:
        """Return the call of a function of ``math.h``."""
        if name == "nearbyintf":
            self.helpers.setdefault("rounded_float32", ROUNDED)
            return f"rounded_float32({_bare(self.text(args[0]))})"
        known = name in MATH or (name.endswith("f") and name[:-1] in MATH)
        if not known and name not in ("isnan", "isinf", "isfinite", "abs", "llabs"):
            raise self.fail(f"it calls {name}, which is no function of C's math.h")
        return f"{name}({', '.join(_bare(self.text(arg)) for arg in args)})"


def _shift_left(writer: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    # Of a negative number only as an unsigned one.
    unsigned = c_type(dtype if dtype.startswith("u") else f"u{dtype}")
    return f"({c_type(dtype)})(({unsigned}){writer.text(args[0])} << {writer.text(args[1])})"


def _shift_right(writer: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    return writer.wrapped(f"({writer.text(args[0])} >> {writer.text(args[1])})", dtype)


def _bitwise_not(writer: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    return writer.wrapped(f"(~{writer.text(args[0])})", dtype)


def _reinterpret(writer: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    source, target = _dtype(args[0]), dtype
    if is_half(target):
        return f"{writer.half('float_of_half')}((uint16_t){writer.text(args[0])})"
    if is_half(source):
        return f"({c_type(target)}){writer.half('half_of_float')}({_bare(writer.text(args[0]))})"
    helper = f"{target}_of_{source}"
    writer.helpers[helper] = (
        f"static inline {c_type(target)} {helper}({c_type(source)} bits) "
        f"{{ {c_type(target)} value; memcpy(&value, &bits, sizeof value); return value; }}"
    )
    return f"{helper}({_bare(writer.text(args[0]))})"


def _absolute(writer: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    value = writer.text(args[0])
    if dtype.startswith("float"):
        return f"{'fabs' if dtype == 'float64' else 'fabsf'}({_bare(value)})"
    return writer.extreme("max", ">", dtype, value, f"(-{value})")


def _large_unsigned(_: ExpressionWriter, dtype: str, args: list[tirx.Expr]) -> str:
    low, high = (int(arg) for arg in args)
    return int_text((high << 32) + low, dtype)


_OPERATIONS: Mapping[str, Callable[[ExpressionWriter, str, list[tirx.Expr]], str]] = {
    "abs": _absolute,
    "bitwise_not": _bitwise_not,
    "fabs": _absolute,
    "large_uint_imm": _large_unsigned,
    "reinterpret": _reinterpret,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}


def _either(variable: tvm.ir.Var, bound: tirx.Let) -> tirx.Expr:
    return bound.value if variable.same_as(bound.var) else variable


def _dtype(expr: tirx.Expr) -> str:
    return str(expr.ty.dtype)


def _bare(text: str) -> str:
    """Return an expression without parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
