"""The functions of a recurrent layer's gates, as quotients: a product of two of them divides only once.

A function is named in text, its parameters after colons: ``"tanh"``, ``"hard_sigmoid:0.2:0.5"``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from tvm import tirx

from .builder import clamped, constant, let
from .vector_math import Quotient, sigmoid_quotient, tanh_quotient

__all__ = ["GATE_FUNCTIONS", "GateFunction", "gate_functions", "limited", "product"]


def _whole(value: tirx.Expr, then: Quotient) -> tirx.Expr:
    return then(value, constant(1.0))


def _relu(x: tirx.Expr, then: Quotient) -> tirx.Expr:
    return let(x, lambda v: _whole(tirx.Select(v < constant(0.0), constant(0.0), v), then))


def _affine(x: tirx.Expr, then: Quotient, alpha: float, beta: float) -> tirx.Expr:
    return _whole(x * constant(alpha) + constant(beta), then)


def _leaky_relu(x: tirx.Expr, then: Quotient, alpha: float) -> tirx.Expr:
    return let(x, lambda v: _whole(tirx.Select(v < constant(0.0), v * constant(alpha), v), then))


def _thresholded_relu(x: tirx.Expr, then: Quotient, alpha: float) -> tirx.Expr:
    return let(x, lambda v: _whole(tirx.Select(v > constant(alpha), v, constant(0.0)), then))


def _scaled_tanh(x: tirx.Expr, then: Quotient, alpha: float, beta: float) -> tirx.Expr:
    return tanh_quotient(x * constant(beta), lambda over, under: then(over * constant(alpha), under))


def _hard_sigmoid(x: tirx.Expr, then: Quotient, alpha: float, beta: float) -> tirx.Expr:
    return let(x * constant(alpha) + constant(beta), lambda v: _whole(clamped(v, 0.0, 1.0), then))


def _softsign(x: tirx.Expr, then: Quotient) -> tirx.Expr:
    return let(x, lambda v: then(v, tirx.Select(v < constant(0.0), constant(0.0) - v, v) + constant(1.0)))


GATE_FUNCTIONS: dict[str, tuple[Callable[..., tirx.Expr], int]] = {
    "sigmoid": (sigmoid_quotient, 0),
    "tanh": (tanh_quotient, 0),
    "relu": (_relu, 0),
    "affine": (_affine, 2),
    "leaky_relu": (_leaky_relu, 1),
    "thresholded_relu": (_thresholded_relu, 1),
    "scaled_tanh": (_scaled_tanh, 2),
    "hard_sigmoid": (_hard_sigmoid, 2),
    "softsign": (_softsign, 0),
}
"""Functions by name, each ``f(x, then, *parameters)`` with its number of parameters; `then` gets the quotient."""


class GateFunction:
    """One function of a gate.

    Parameters
    ----------
    text : str
        Its name and parameters. ValueError where there is no such function.
    """

    def __init__(self, text: str) -> None:
        name, *parameters = text.split(":")
        if name not in GATE_FUNCTIONS or len(parameters) != GATE_FUNCTIONS[name][1]:
            raise ValueError(f"{text!r} is no function of a gate; there are {', '.join(GATE_FUNCTIONS)}")
        self._function, _ = GATE_FUNCTIONS[name]
        self._parameters = tuple(float(p) for p in parameters)

    def quotient(self, x: tirx.Expr, then: Quotient) -> tirx.Expr:
        """Return an expression of the dividend and divisor of the function's value."""
        return self._function(x, then, *self._parameters)

    def __call__(self, x: tirx.Expr) -> tirx.Expr:
        return self.quotient(x, operator.truediv)


def gate_functions(text: str, count: int) -> tuple[GateFunction, ...]:
    """Return the functions that a text names, separated by spaces; ValueError where they are not so many."""
    functions = tuple(GateFunction(each) for each in text.split())
    if len(functions) != count:
        raise ValueError(f"{count} functions of gates are needed, not {text!r}")
    return functions


def product(f: GateFunction, x: tirx.Expr, g: GateFunction, y: tirx.Expr) -> tirx.Expr:
    """Return ``f(x) * g(y)`` by one division."""
    return f.quotient(x, lambda over, under: g.quotient(y, lambda o, u: (over * o) / (under * u)))


def limited(x: tirx.Expr, clip: float) -> tirx.Expr:
    """Return the sum of a gate, within `clip` of 0."""
    return let(x, lambda v: clamped(v, -clip, clip))
