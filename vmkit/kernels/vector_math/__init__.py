"""Functions of float32, and one of float64, as arithmetic that vectors have.

LLVM calls the C library for them, element by element. Here they are polynomials and quotients of polynomials, fitted by
least squares to a relative error near float32's own. The errors that functions state are relative, and were measured
over a hundred thousand numbers of their range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tvm
import tvm_ffi
from tvm import tirx

from . import doubles
from .angles import acos, asin, atan, cos, sin, tan
from .exponential import Quotient, erf, exp, exp_up_to_one, log, sigmoid, sigmoid_quotient, tanh, tanh_quotient
from .hyperbolic import acosh, asinh, atanh, cosh, sinh
from .nested import with_stored_arguments
from .power import LOGARITHM, POWER, as_functions, logarithm, power, power_of_calls
from .remainder import fmod
from .rounding import ROUNDINGS, is_half

__all__ = [
    "Quotient",
    "exponential_up_to_one",
    "is_up_to_one",
    "sigmoid_quotient",
    "tanh_quotient",
    "with_vector_math",
]

_UP_TO_ONE = "vmkit.exp_up_to_one"

_FUNCTIONS: dict[str, Callable[..., tirx.Expr]] = {
    "fmodf": fmod,
    "tirx.acos": acos,
    "tirx.acosh": acosh,
    "tirx.asin": asin,
    "tirx.asinh": asinh,
    "tirx.atan": atan,
    "tirx.atanh": atanh,
    "tirx.cos": cos,
    "tirx.cosh": cosh,
    "tirx.erf": erf,
    "tirx.exp": exp,
    "tirx.log": log,
    "tirx.log10": lambda x: log(x, 1 / math.log(10)),
    "tirx.log2": lambda x: log(x, 1 / math.log(2)),
    "tirx.sigmoid": sigmoid,
    "tirx.sin": sin,
    "tirx.sinh": sinh,
    "tirx.tan": tan,
    "tirx.tanh": tanh,
    _UP_TO_ONE: exp_up_to_one,
    POWER: power,
}

_OF_DOUBLES: dict[str, Callable[..., tirx.Expr]] = {"tirx.tanh": doubles.tanh, LOGARITHM: logarithm}
# What stands for a function of this module where its arguments have names.
_AS_CALLS: dict[str, Callable[..., tirx.Expr]] = {_UP_TO_ONE: tirx.exp, POWER: power_of_calls}
_OF = {"float32": _FUNCTIONS, "float64": _OF_DOUBLES}


def exponential_up_to_one(argument: tirx.Expr) -> tvm.ir.Call:
    """Return a call for the exponential of a float32 that is not above 0, which :func:`with_vector_math` writes out."""
    return tirx.call_pure_extern("float32", _UP_TO_ONE, argument)


def is_up_to_one(call: tvm.ir.Call) -> bool:
    """Say whether a call is one of :func:`exponential_up_to_one`."""
    is_extern = getattr(call.op, "name", "") == "tirx.call_pure_extern"
    return is_extern and str(getattr(call.args[0], "value", "")) == _UP_TO_ONE


def with_vector_math(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel whose calls of the C library's functions are arithmetic."""
    body = tvm_ffi.structural_map(function.body, (tvm.ir.Call, _apart))
    body = with_stored_arguments(body, lambda call: _named(call)[0] in _known(call))
    return function.with_body(tvm_ffi.structural_map(body, (tvm.ir.Call, _replaced)))


def _apart(call: tvm.ir.Call) -> tvm.ir.Call:
    """Return a call as one of a function of another one, where both can be written out."""
    return call if any(map(_has_named_value, call.args)) else as_functions(call)


def _named(call: tvm.ir.Call) -> tuple[str, list[tirx.Expr]]:
    """Return the name of the function that a call is of, and what it is called with."""
    name, arguments = getattr(call.op, "name", ""), list(call.args)
    if name == "tirx.call_pure_extern":
        name, *arguments = arguments
        name = str(getattr(name, "value", name))
    return name, arguments


def _known(call: tvm.ir.Call) -> dict[str, Callable[..., tirx.Expr]]:
    """Return the functions by name of what a call returns; that may be a pointer, which is of no data type."""
    return _OF.get(str(getattr(call.ty, "dtype", "")), {})


def _replaced(call: tvm.ir.Call) -> tirx.Expr:
    name, arguments = _named(call)
    known = _known(call)
    if name in ROUNDINGS and known is _FUNCTIONS and is_half(arguments[0]):
        return ROUNDINGS[name](arguments[0])
    if name not in known:
        return call
    # TVM inlines what is named here, ten times and more: a function of a function would grow out of bounds.
    if any(map(_has_named_value, arguments)):
        return _AS_CALLS[name](*arguments) if name in _AS_CALLS else call
    return known[name](*arguments)


def _has_named_value(expr: tirx.Expr) -> bool:
    found: list[tirx.Let] = []
    tvm_ffi.structural_walk(expr, (tirx.Let, found.append))
    return bool(found)
