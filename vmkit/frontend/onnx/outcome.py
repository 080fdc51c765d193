"""What importing a graph gives: its outputs, or a decision between outputs that are of different ranks.

The branches of an ONNX If may give tensors of different ranks, on which operators mean different things. What works on
them is then imported once for each branch, until the results agree again; a branch after which the rest of the model
makes no sense becomes a check at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._dataclasses import dataclass
from ...errors import ModelError, TypeCheckError
from ...relay.ir import Dim, Expr, If, Let, TensorType, Tuple, TupleGetItem, Type, UnrankedType, Var, dims
from ...relay.ir.type_solver import TypeSolver
from ...relay.op import build
from .known import constant, is_symbolic, known_value, sizes
from .typing import typed

__all__ = ["Condition", "Failure", "Fork", "Outcome", "attempt", "equally_known", "join", "same_rank", "then"]


@dataclass(frozen=True)
class Condition:
    """A boolean scalar: its expression, and its value over symbolic dimensions when that is known."""

    expr: Expr
    symbolic: Dim | None
    text: str

    @staticmethod
    def of(expr: Expr, text: str) -> Condition:
        """Return the condition that a boolean scalar expression is; `text` names it in messages."""
        value = known_value(expr) if is_symbolic(expr) else None
        return Condition(expr, None if value is None else value.item(), text)

    def negated(self) -> Condition:
        """Return the opposite condition."""
        if self.symbolic is None:
            return Condition(typed(build("logical_not", self.expr)), None, f"not {self.text}")
        opposite = dims.select(dims.as_expr(self.symbolic) == 0, 1, 0)
        return Condition(sizes(opposite, "bool"), opposite, f"not {self.text}")

    def guard(self, value: Expr, reason: str) -> Expr:
        """Return a value that is computed only where the condition holds; the run fails with the reason otherwise."""
        message = reason.replace("{", "{{").replace("}", "}}")
        nothing = constant(np.zeros((), "bool"))
        if self.symbolic is None:
            check = build("dyn.require", nothing, self.expr, message=message)
        else:
            check = build("require", nothing, condition=self.symbolic, message=message)
        # The check comes before all that the value needs, whose own checks know less of the reason.
        checked = Var("checked", typed(check).checked_type_)
        checked.checked_type_ = check.checked_type_
        return typed(Let(checked, check, value))


@dataclass(frozen=True)
class Failure:
    """A branch that cannot be imported."""

    error: ModelError


@dataclass(frozen=True)
class Fork:
    """Outcomes of different ranks, chosen at run time."""

    condition: Condition
    true: Outcome
    false: Outcome


Outcome = list[Expr | None] | Fork | Failure


def attempt(step: Callable[[], Outcome]) -> Outcome:
    """Return what a step gives, or its failure."""
    try:
        return step()
    except ModelError as error:
        if isinstance(error, NotImplementedError):
            raise
        return Failure(error)
    except TypeCheckError as error:
        return Failure(ModelError(str(error)))


def then(
    outcome: Outcome, step: Callable[[list[Expr | None]], Outcome], fit: Callable[[Expr, Expr], bool] | None = None
) -> Outcome:
    """Go on from every list of values of an outcome, and join what comes of it.

    `fit` says which values of two ways may become one; those of one data type and rank may if it is not given.
    """
    match outcome:
        case Fork(condition, true, false):
            return join(condition, attempt(lambda: then(true, step, fit)), attempt(lambda: then(false, step, fit)), fit)
        case Failure(error):
            raise error
    return step(outcome)


def join(
    condition: Condition, true: Outcome, false: Outcome, fit: Callable[[Expr, Expr], bool] | None = None
) -> Outcome:
    """Return one outcome for two, chosen by a condition; `fit` is as for :func:`then`."""
    fits = fit or same_rank
    match true, false:
        case Failure(first), Failure(second):
            raise ModelError(f"neither branch of {condition.text} can be imported:\n  {first}\n  {second}")
        case Failure(error), _:
            return _guarded(condition.negated(), false, f"{condition.text}: {error}")
        case _, Failure(error):
            return _guarded(condition, true, f"not {condition.text}: {error}")
        case list(), list() if all(a is None or b is None or fits(a, b) for a, b in zip(true, false, strict=True)):
            return _joined(condition, true, false)
    return Fork(condition, true, false)


def _guarded(condition: Condition, outcome: Outcome, otherwise: str) -> Outcome:
    reason = f"the model cannot run at these sizes or values, for which {otherwise}"

    def guard(values: list[Expr | None]) -> Outcome:
        # A value that is known should stay so, and what is known of a shape.
        given = [i for i, value in enumerate(values) if value is not None]
        open_ = [i for i in given if known_value(values[i]) is None]
        chosen = [i for i in open_ if not _may_be_shape(values[i])] or open_[-1:] or given[-1:]
        guarded = list(values)
        # Under one check, so that nothing which two of them need is computed before it.
        fields = [value for i in chosen if (value := values[i]) is not None]
        if len(fields) == 1:
            guarded[chosen[0]] = condition.guard(fields[0], reason)
        elif fields:
            checked = condition.guard(typed(Tuple(fields)), reason)
            for field, index in enumerate(chosen):
                guarded[index] = typed(TupleGetItem(checked, field))
        return guarded

    return then(outcome, guard)


def _may_be_shape(value: Expr | None) -> bool:
    """Say whether a value may be a shape, or an element of one."""
    ty = None if value is None else typed(value).checked_type_
    return isinstance(ty, TensorType) and ty.dtype == "int64" and len(ty.shape) <= 1


def same_rank(a: Expr, b: Expr) -> bool:
    """Say whether two values are of one rank; ModelError when their data types differ."""
    x, y = typed(a).checked_type_, typed(b).checked_type_
    if not isinstance(x, TensorType | UnrankedType) or not isinstance(y, TensorType | UnrankedType):
        return _are_alike(x, y)
    if x.dtype != y.dtype:
        raise ModelError(f"the branches of an If give {x} and {y}; their data types must be the same")
    return _rank(x) == _rank(y)


def equally_known(a: Expr, b: Expr) -> bool:
    """Say whether two values are of one rank, and nothing that the rank of another may depend on differs between them.

    This is what numbers are, and how many integers a vector has: a shape.
    """
    if not same_rank(a, b):
        return False
    known = known_value(a), known_value(b)
    if known != (None, None):
        return _are_equal(*known)
    x, y = a.checked_type_, b.checked_type_
    is_shape = isinstance(x, TensorType) and x.dtype in ("int32", "int64") and len(x.shape) == 1
    return not is_shape or dims.equal(x.shape[0], y.shape[0]) is True


def _are_equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None or a.shape != b.shape:
        return False
    if object in (a.dtype, b.dtype):
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return all(
            isinstance(p, str) == isinstance(q, str) and (p == q if isinstance(p, str) else bool(dims.equal(p, q)))
            for p, q in pairs
        )
    return np.array_equal(a, b)


def _rank(ty: Type) -> int:
    """Return the rank of a tensor, -1 for one that is known at run time only."""
    return len(ty.shape) if isinstance(ty, TensorType) else -1


def _are_alike(a: Type, b: Type) -> bool:
    """Say whether two sequences, or two optional values, can be one value."""
    try:
        TypeSolver().unify(a, b, join=True)
    except TypeCheckError:
        raise ModelError(f"the branches of an If give {a} and {b}, which cannot be one value") from None
    return True


def _joined(condition: Condition, true: Sequence[Expr | None], false: Sequence[Expr | None]) -> list[Expr | None]:
    results: list[Expr | None] = [None] * len(true)
    open_: list[tuple[int, Expr, Expr]] = []
    for index, (a, b) in enumerate(zip(true, false, strict=True)):
        if a is None or b is None:
            continue
        results[index] = a if a.same_as(b) else _selected(condition, a, b)
        if results[index] is None:
            open_.append((index, a, b))
    if len(open_) == 1:
        ((index, left, right),) = open_
        results[index] = typed(If(condition.expr, left, right))
    elif open_:
        both = typed(If(condition.expr, Tuple([a for _, a, _ in open_]), Tuple([b for _, _, b in open_])))
        for field, (index, _, _) in enumerate(open_):
            results[index] = typed(TupleGetItem(both, field))
    return results


def _selected(condition: Condition, a: Expr, b: Expr) -> Expr | None:
    """Return the choice between two values known over sizes, as such a value; None if they are not."""
    if condition.symbolic is None or not (is_symbolic(a) or is_symbolic(b)):
        return None
    x, y = known_value(a), known_value(b)
    if x is None or y is None or x.shape != y.shape:
        return None
    holds: Any = dims.as_expr(condition.symbolic) != 0
    chosen = np.frompyfunc(lambda p, q: dims.select(holds, int(p) if isinstance(p, np.generic) else p, q), 2, 1)(x, y)
    return sizes(chosen, a.checked_type.dtype)
