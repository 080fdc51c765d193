"""The activations that the gates of recurrent layers may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import relay
from ...._dataclasses import dataclass
from ....relay.ir import Expr
from ..context import Context
from .activation import elu, hard_sigmoid, softplus, softsign, thresholded_relu
from .elementwise import binary

__all__ = ["GateActivation", "gate_activations"]


@dataclass(frozen=True)
class GateActivation:
    """One activation, called with what it is applied to.

    Attributes
    ----------
    apply : callable
        The activation.
    function : str or None
        What vmkit.kernels.gate_functions calls it, with its parameters; None where that has none.
    """

    apply: Callable[[Expr], Expr]
    function: str | None = None

    def __call__(self, x: Expr) -> Expr:
        return self.apply(x)


@dataclass(frozen=True)
class _Kind:
    """How an activation is made of a context and its parameters; what they are where they are not given."""

    make: Callable[..., Expr]
    function: str | None
    defaults: tuple[float, ...] = ()

    def of(self, ctx: Context, given: Sequence[float | None]) -> GateActivation:
        values = [default if value is None else value for value, default in zip(given, self.defaults, strict=False)]
        text = None if self.function is None else ":".join([self.function, *map(str, values)])
        return GateActivation(lambda x: self.make(ctx, x, *values), text)


def _affine(ctx: Context, x: Expr, alpha: float, beta: float) -> Expr:
    return binary(ctx, "add", binary(ctx, "multiply", x, alpha), beta)


def _scaled_tanh(ctx: Context, x: Expr, alpha: float, beta: float) -> Expr:
    return binary(ctx, "multiply", relay.tanh(binary(ctx, "multiply", x, beta)), alpha)


_KINDS: dict[str, _Kind] = {
    "relu": _Kind(lambda ctx, x: relay.nn.relu(x), "relu"),
    "tanh": _Kind(lambda ctx, x: relay.tanh(x), "tanh"),
    "sigmoid": _Kind(lambda ctx, x: relay.sigmoid(x), "sigmoid"),
    "affine": _Kind(_affine, "affine", (1.0, 0.0)),
    "leakyrelu": _Kind(lambda ctx, x, alpha: relay.nn.leaky_relu(x, alpha), "leaky_relu", (0.01,)),
    "thresholdedrelu": _Kind(lambda ctx, x, alpha: thresholded_relu(ctx, x, alpha=alpha), "thresholded_relu", (1.0,)),
    "scaledtanh": _Kind(_scaled_tanh, "scaled_tanh", (1.0, 1.0)),
    "hardsigmoid": _Kind(
        lambda ctx, x, alpha, beta: hard_sigmoid(ctx, x, alpha=alpha, beta=beta), "hard_sigmoid", (0.2, 0.5)
    ),
    "elu": _Kind(lambda ctx, x, alpha: elu(ctx, x, alpha=alpha), None, (1.0,)),
    "softsign": _Kind(lambda ctx, x: softsign(ctx, x), "softsign"),
    "softplus": _Kind(lambda ctx, x: softplus(ctx, x), None),
}


def gate_activations(
    ctx: Context, names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[GateActivation]:
    """Return activations by name; those that take parameters take the next ones that are given."""
    alpha, beta = iter(alphas), iter(betas)
    made = []
    for name in names:
        kind = _KINDS.get(name.lower())
        if kind is None:
            ctx.fail(f"the activation {name!r} is unknown; there are {', '.join(_KINDS)}")
        given: list[Any] = [next(values, None) for values, _ in zip((alpha, beta), kind.defaults, strict=False)]
        made.append(kind.of(ctx, given))
    return made
