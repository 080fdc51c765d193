"""Values whose rank is known only when the model runs.

Where the rank matters, what is done is imported once for each rank that can occur, and chosen at run time: by the rank
of a tensor, or by the length of a vector that decides it. Where ranks have to stand side by side, in what a function
gives or a loop carries, the value is one of Relay's unranked type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from ... import relay
from ...errors import ModelError
from ...relay.ir import Any as AnyDim
from ...relay.ir import Expr, TensorType, UnrankedType
from ...relay.op import build
from .context import Context
from .known import constant
from .outcome import Condition, Failure, Fork, Outcome, attempt, join, then
from .run_time_axes import pinned, size_along
from .typing import typed

__all__ = [
    "MOST_DIMENSIONS",
    "by_length",
    "by_size",
    "is_unranked",
    "leaf_count",
    "settled",
    "ways",
    "ways_of",
    "within",
]

MOST_DIMENSIONS = 8
"""The highest rank that a value whose rank is known only at run time may have."""


def is_unranked(value: Expr | None) -> bool:
    """Say whether a value is a tensor whose rank is known only when the model runs."""
    return value is not None and isinstance(typed(value).checked_type_, UnrankedType)


def ways_of(ty: UnrankedType) -> list[TensorType]:
    """Return the types, one for each rank, that a tensor may have."""
    known = list(ty.alternatives)
    return known or [TensorType([AnyDim()] * rank, ty.dtype) for rank in range(MOST_DIMENSIONS + 1)]


def ways(value: Expr, name: str) -> Outcome:
    """Return a tensor whose rank is known only at run time as one for each rank; `name` is what messages call it."""
    types = ways_of(typed(value).checked_type_)
    tensors = [typed(build("unranked.as", value, shape=list(ty.shape))) for ty in types]
    rank = build("unranked.rank", value)
    outcome: Outcome = [tensors[-1]]
    for ty, tensor in reversed(list(zip(types[:-1], tensors[:-1], strict=True))):
        this = typed(relay.equal(rank, constant(np.int64(len(ty.shape)))))
        outcome = Fork(Condition.of(this, f"the rank of {name!r} being {len(ty.shape)}"), [tensor], outcome)
    return outcome


def settled(outcome: Outcome) -> list[Expr | None]:
    """Return the values of an outcome, as unranked ones where they differ in rank."""
    lists = list(_leaves(outcome))
    mixed = [len({_kind(v) for v in column if v is not None}) > 1 for column in zip(*lists, strict=True)]

    def made(values: list[Expr | None]) -> Outcome:
        return [
            typed(build("unranked.of", v)) if is_mixed and v is not None and not is_unranked(v) else v
            for v, is_mixed in zip(values, mixed, strict=True)
        ]

    together = then(outcome, made)
    assert isinstance(together, list), "values of one kind are joined"
    return together


def within(value: Expr, reason: str) -> Expr:
    """Return a tensor as an unranked one; the run fails with a reason where it has more than the most dimensions."""
    return typed(build("unranked.of", value, most=MOST_DIMENSIONS, message=reason))


def leaf_count(outcome: Outcome) -> int:
    """Return how many ways an outcome has."""
    return sum(1 for _ in _leaves(outcome))


def _leaves(outcome: Outcome) -> Iterable[list[Expr | None]]:
    match outcome:
        case Fork(_, true, false):
            yield from _leaves(true)
            yield from _leaves(false)
        case Failure(error):
            raise error
        case _:
            yield outcome


def _kind(value: Expr) -> int:
    """Return the rank of a value; values of one are joined."""
    ty = typed(value).checked_type_
    return len(ty.shape) if isinstance(ty, TensorType) else -1


def by_length(
    ctx: Context, x: Expr, lengths: Sequence[int], name: str, step: Callable[[Expr], Outcome | Expr | Sequence[Expr]]
) -> Outcome:
    """Return what a step gives for a tensor whose last size decides a rank and is one of several.

    Parameters
    ----------
    ctx : Context
        The node.
    x : Expr
        The tensor, such as a vector of axes.
    lengths : sequence of int
        What its last size may be.
    name : str
        What messages call that size.
    step : callable
        Takes the tensor with this size known.
    """
    *leading, length = ctx.shape(x)
    if isinstance(length, int):
        return _outcome(step(x))
    size = typed(size_along(ctx, x, -1))
    return by_size(size, lengths, name, lambda number: step(typed(pinned(ctx, x, [*leading, number]))))


def _outcome(made: Outcome | Expr | Sequence[Expr]) -> Outcome:
    """Return what a step gives as an outcome."""
    if isinstance(made, Fork | Failure):
        return made
    return [None if v is None else typed(v) for v in ([made] if isinstance(made, Expr) else made)]


def by_size(
    size: Expr, sizes: Sequence[int], name: str, step: Callable[[int], Outcome | Expr | Sequence[Expr]]
) -> Outcome:
    """Return what a step gives for the size that an int64 scalar has at run time, which must be one of several.

    Parameters
    ----------
    size : Expr
        The scalar.
    sizes : sequence of int
        What it may be.
    name : str
        What messages call it.
    step : callable
        Takes one of the sizes.
    """
    if not sizes:
        raise ModelError(f"{name} can have no value here")

    def taken(number: int) -> Outcome:
        return _outcome(step(number))

    made = {number: attempt(partial(taken, number)) for number in sizes}
    good = {number: way for number, way in made.items() if not isinstance(way, Failure)}
    wrong = {number: way.error for number, way in made.items() if isinstance(way, Failure)}
    if not good:
        raise next(iter(wrong.values()))
    reasons = "".join(f"; it cannot be {number}: {error}" for number, error in wrong.items())
    spelled = " or ".join(map(str, good))
    outcome: Outcome = Failure(ModelError(f"{name} is not {spelled}{reasons}"))
    for number, way in reversed(good.items()):
        this = typed(relay.equal(size, constant(np.int64(number))))
        outcome = join(Condition.of(this, f"{name} being {number}"), way, outcome)
    return outcome
