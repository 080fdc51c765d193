"""Gradients of elementwise operators of one input, and of several that are broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir import Call, Expr
from .terms import call, gradient_of, number, unbroadcast, zeros

__all__: list[str] = []


def _unary(*names: str) -> Callable[[Callable[[Expr, Call, Expr], Expr]], None]:
    """Attach to operators what takes the input, the result and the gradient of the result."""

    def decorate(rule: Callable[[Expr, Call, Expr], Expr]) -> None:
        gradient_of(*names)(lambda made, grad: [rule(made.args[0], made, grad)])

    return decorate


def _one(like: Expr) -> Expr:
    return number(1.0, like)


_unary("exp", "fast_exp")(lambda x, y, g: g * y)
_unary("log")(lambda x, y, g: g / x)
_unary("log2")(lambda x, y, g: g / (x * number(math.log(2.0), x)))
_unary("log10")(lambda x, y, g: g / (x * number(math.log(10.0), x)))
_unary("sin")(lambda x, y, g: g * call("cos", x))
_unary("cos")(lambda x, y, g: -(g * call("sin", x)))
_unary("tan")(lambda x, y, g: g * (_one(x) + y * y))
_unary("sinh")(lambda x, y, g: g * call("cosh", x))
_unary("cosh")(lambda x, y, g: g * call("sinh", x))
_unary("tanh", "fast_tanh")(lambda x, y, g: g * (_one(x) - y * y))
_unary("asin")(lambda x, y, g: g / call("sqrt", _one(x) - x * x))
_unary("acos")(lambda x, y, g: -(g / call("sqrt", _one(x) - x * x)))
_unary("atan")(lambda x, y, g: g / (_one(x) + x * x))
_unary("asinh")(lambda x, y, g: g / call("sqrt", x * x + _one(x)))
_unary("acosh")(lambda x, y, g: g / call("sqrt", x * x - _one(x)))
_unary("atanh")(lambda x, y, g: g / (_one(x) - x * x))
_unary("sqrt")(lambda x, y, g: g * number(0.5, x) / y)
_unary("rsqrt")(lambda x, y, g: -(g * number(0.5, x) * y * y * y))
_unary("sigmoid")(lambda x, y, g: g * y * (_one(x) - y))
_unary("erf", "fast_erf")(lambda x, y, g: g * number(2.0 / math.sqrt(math.pi), x) * call("exp", -(x * x)))
_unary("negative")(lambda x, y, g: -g)
_unary("abs")(lambda x, y, g: g * call("sign", x))
_unary("copy", "annotation.checkpoint", "annotation.stop_fusion")(lambda x, y, g: g)
_unary("nn.relu")(lambda x, y, g: call("where", call("greater", x, zeros(x)), g, zeros(g)))
_unary("nn.leaky_relu")(lambda x, y, g: call("where", call("greater", x, zeros(x)), g, g * number(y.attrs.alpha, x)))
# Steps: their gradient is 0 wherever it exists.
_unary("ceil", "floor", "round", "trunc", "sign", "zeros_like", "ones_like")(lambda x, y, g: zeros(x))


@_unary("clip")
def _(x: Expr, y: Call, g: Expr) -> Expr:
    least, largest = number(y.attrs.a_min, x), number(y.attrs.a_max, x)
    is_inside = call("logical_and", call("greater_equal", x, least), call("less_equal", x, largest))
    return call("where", is_inside, g, zeros(g))


@_unary("cast")
def _(x: Expr, y: Call, g: Expr) -> Expr:
    return call("cast_like", g, x)


@gradient_of("cast_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, other = made.args
    return [call("cast_like", grad, data), zeros(other)]


@gradient_of("full_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, value = made.args
    return [zeros(data), call("cast_like", call("sum", grad), value)]


def _binary(*names: str) -> Callable[[Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]], None]:
    """Attach to operators what takes both inputs, the result and its gradient, before broadcasting is undone."""

    def decorate(rule: Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]) -> None:
        def gradient(made: Call, grad: Expr) -> list[Expr]:
            found = rule(made.args[0], made.args[1], made, grad)
            return [unbroadcast(g, each, made) for g, each in zip(found, made.args, strict=True)]

        gradient_of(*names)(gradient)

    return decorate


_binary("add")(lambda a, b, y, g: (g, g))
_binary("subtract")(lambda a, b, y, g: (g, -g))
_binary("multiply")(lambda a, b, y, g: (g * b, g * a))
_binary("divide")(lambda a, b, y, g: (g / b, -(g * y / b)))
_binary("floor_divide", "trunc_divide")(lambda a, b, y, g: (zeros(g), zeros(g)))
_binary("floor_mod")(lambda a, b, y, g: (g, -(g * call("floor", a / b))))
_binary("mod", "trunc_mod")(lambda a, b, y, g: (g, -(g * call("trunc", a / b))))


@_binary("power")
def _(a: Expr, b: Expr, y: Expr, g: Expr) -> tuple[Expr, Expr]:
    # The logarithm is that of the base where it is positive; elsewhere the power is 0, or no function of the exponent.
    is_positive = call("greater", a, zeros(a))
    logarithm = call("where", is_positive, call("log", call("where", is_positive, a, call("ones_like", a))), zeros(a))
    return g * b * call("power", a, b - _one(b)), g * y * logarithm


# Where both are equal each has half of it, so that the sum is that of a value that is used once.
def _larger(a: Expr, b: Expr, y: Expr, g: Expr) -> tuple[Expr, Expr]:
    half, nothing = g * number(0.5, a), zeros(g)
    at_a, at_b = call("equal", a, y), call("equal", b, y)
    of_a = call("where", at_a, call("where", at_b, half, g), nothing)
    of_b = call("where", at_b, call("where", at_a, half, g), nothing)
    return of_a, of_b


_binary("maximum", "minimum")(_larger)


@gradient_of("where")
def _(made: Call, grad: Expr) -> list[Expr]:
    condition, x, y = made.args
    nothing = zeros(grad)
    return [
        zeros(condition),
        unbroadcast(call("where", condition, grad, nothing), x, made),
        unbroadcast(call("where", condition, nothing, grad), y, made),
    ]
