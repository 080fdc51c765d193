"""Reverse-mode differentiation of functions of tensors.

A function is first written as one expression: calls of functions and lets are taken in, so that what is left are calls
of operators, tuples and Ifs, and what was bound is shared. Then each node hands the gradient with regard to its value
on to its parts, from the result to the parameters; operators say how (:mod:`.gradients`). The branches of an
If are differentiated with regard to what they share with the rest of the program, each inside a branch of a new If.

Nothing is computed twice: the expressions of the function itself appear in the gradient as they are. Those inside of
branches are copied, for a value that a branch and something outside of it use would be computed before the If, always.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm.ir import GlobalVar, Op

from ...errors import ModelError, OptionError
from ...stack import on_deep_stack
from ..analysis.infer_type import infer_expr, inferred
from ..analysis.scopes import Scope, scopes
from ..ir import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    post_order,
    with_functions,
)
from ..op.attached import PRIMAL_GRADIENT, attached
from ..op.registry import build
from . import gradients  # noqa: F401 - attaches those of the operators
from .gradients.flat import Flat
from .gradients.sums import GradientSum, field_of_any, typed_field, zeros_of

__all__ = ["gradient"]

_MODES = ("higher_order", "first_order")


def gradient(expr: Function | GlobalVar, mod: tvm.IRModule | None = None, mode: str = "higher_order") -> Function:
    """Return the function that computes a function and its gradient with regard to each parameter.

    Parameters
    ----------
    expr : Function or GlobalVar
        A function of tensors, or of tuples of them, whose result is a tensor or a tuple of tensors.
    mod : tvm.IRModule, optional
        Where the global functions are that it calls; they must not call themselves.
    mode : "higher_order" or "first_order"
        Relay's two ways, which have one result here: first order is for functions without closures and control flow,
        and refuses an If.

    Returns
    -------
    Function
        Of the same parameters, to ``(result, (gradient of the first parameter, ...))``. A gradient is that of the sum
        of all elements of the result, and has the parameter's type; that of integers is 0. Its own gradient can be
        taken, if those of the operators in it are known.

    Raises
    ------
    ModelError
        When an operator has no gradient (see :func:`vmkit.relay.op.register_gradient`), when a function calls itself,
        or when there are references, data types or functions as values.
    OptionError
        When there is no such mode.

    Examples
    --------
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(3,))
    >>> made = relay.transform.gradient(relay.Function([x], relay.exp(x)))
    >>> [type(part).__name__ for part in made.body.fields]
    ['Call', 'Tuple']
    """
    if mode not in _MODES:
        raise OptionError(f"mode must be one of {', '.join(map(repr, _MODES))}, not {mode!r}")
    module = mod if mod is not None else tvm.IRModule({})
    function = module[expr] if isinstance(expr, GlobalVar) else expr
    if not isinstance(function, Function):
        raise ModelError(f"a gradient is taken of a Function or GlobalVar, not of a {type(expr).__name__}")
    if function.type_params:
        raise ModelError("the gradient of a function over type variables cannot be taken; apply it to types first")
    return on_deep_stack(_gradient, function, module, mode)


def _gradient(function: Function, module: tvm.IRModule, mode: str) -> Function:
    own = GlobalVar("gradient_of")
    typed = inferred(with_functions(module, {**dict(module.functions.items()), own: function}))[own]
    params = [Var(p.name_hint, p.checked_type) for p in typed.params]
    body = Flat(module, mode).expression(typed.body, dict(zip(typed.params, params, strict=True)))
    forward = Function(params, body)
    infer_expr(forward, module)
    for name, ty in (("the result", body.checked_type), *((p.name_hint, p.type_annotation) for p in params)):
        if not all(isinstance(part, TensorType) for part in _leaves(ty)):
            raise ModelError(f"a gradient is one of tensors, and of tuples of them; {name} is {ty}")
    backward = _Backward(body)
    found = backward.of(body, _ones(body), params)
    grads = [_cast_to(found[p].total(p), p) if p in found else zeros_of(p, p.checked_type) for p in params]
    types = [body.checked_type, TupleType([p.checked_type for p in params])]
    made = Function(params, Tuple([body, Tuple(grads)]), TupleType(types))
    infer_expr(made, module)
    return made


def _leaves(ty: Type) -> Iterator[Type]:
    if isinstance(ty, TupleType):
        for field in ty.fields:
            yield from _leaves(field)
    else:
        yield ty


def _is_floating(ty: Type) -> bool:
    return any(isinstance(part, TensorType) and part.dtype.startswith(("float", "bfloat")) for part in _leaves(ty))


def _ones(expr: RelayExpr) -> Expr:
    if isinstance(expr.checked_type, TupleType):
        return Tuple([_ones(typed_field(expr, i)) for i in range(len(expr.checked_type.fields))])
    return build("ones_like", expr)


def _cast_to(grad: Expr, param: Var) -> Expr:
    """Return the gradient of a parameter; one of integers is 0, whatever was counted."""
    return grad if _is_floating(param.checked_type) else zeros_of(param, param.checked_type)


Gradients: TypeAlias = dict[Any, GradientSum]


class _Backward:
    """Hand gradients on from a typed expression to what it is made of."""

    def __init__(self, body: RelayExpr) -> None:
        self.scopes: dict[Any, Scope] = dict(scopes(body))
        self.active: set[Any] = set()
        for node in post_order(body):
            self._note_activity(node)

    def _note_activity(self, node: RelayExpr) -> None:
        """Note an expression that depends on parameters, other than in steps: others get no gradient."""
        if isinstance(node, Op | GlobalVar) or not _is_floating(node.checked_type):
            return
        if isinstance(node, Var) or any(part in self.active for part in _inputs(node)):
            self.active.add(node)

    def of(self, root: RelayExpr, grad: Expr, ends: Iterable[RelayExpr]) -> Gradients:
        """Return what `ends` are handed when an expression has a gradient; what they are made of gets nothing."""
        stop = set(ends)
        sums: Gradients = {root: GradientSum()}
        sums[root].add(grad, root.checked_type)
        for node in self._users_first(root, stop):
            if node in sums and node not in stop:
                self._hand_on(node, sums)
        return {end: sums[end] for end in stop if end in sums}

    def _users_first(self, root: RelayExpr, stop: set[Any]) -> list[RelayExpr]:
        order: list[RelayExpr] = []
        seen: set[Any] = set()
        stack: list[tuple[RelayExpr, bool]] = [(root, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                order.append(node)
            elif node not in seen and node in self.active:
                seen.add(node)
                stack.append((node, True))
                if node not in stop:
                    stack += [(part, False) for part in self._parts(node)]
        return order[::-1]

    def _parts(self, node: RelayExpr) -> list[RelayExpr]:
        return self._shared(node) if isinstance(node, If) else _inputs(node)

    def _shared(self, node: If) -> list[RelayExpr]:
        """Return what the branches of an If use and do not compute themselves, as far as it gets a gradient."""
        depth = self.scopes[node].depth
        found: dict[Any, None] = {}
        seen: set[Any] = set()
        waiting: list[RelayExpr] = [node.true_branch, node.false_branch]
        while waiting:
            part = waiting.pop()
            if part in seen or part not in self.active:
                continue
            seen.add(part)
            if isinstance(part, Var) or self.scopes[part].depth <= depth:
                found[part] = None
            else:
                waiting += [part.true_branch, part.false_branch] if isinstance(part, If) else _inputs(part)
        return list(found)

    def _hand_on(self, node: RelayExpr, sums: Gradients) -> None:
        def of(part: RelayExpr) -> GradientSum:
            return sums.setdefault(part, GradientSum())

        match node:
            case Tuple():
                for index, field in enumerate(node.fields):
                    of(field).add(field_of_any(sums[node].total(node), index), field.checked_type)
            case TupleGetItem():
                whole = of(node.tuple_value)
                whole.at(node.index).add(sums[node].total(node), node.checked_type)
            case If():
                shared = self._shared(node)
                for part, grad in zip(shared, self._of_branches(node, sums[node].total(node), shared), strict=True):
                    of(part).add(grad, part.checked_type)
            case Call():
                for arg, grad in zip(node.args, _of_call(node, sums[node].total(node)), strict=True):
                    if arg in self.active:
                        of(arg).add(grad, arg.checked_type)

    def _of_branches(self, node: If, grad: Expr, shared: Sequence[RelayExpr]) -> list[Expr]:
        branches = []
        for branch in (node.true_branch, node.false_branch):
            own = self._copied(branch, shared)
            found = self.of(own, grad, shared) if own in self.active else {}
            branches.append(Tuple([found[p].total(p) if p in found else zeros_of(p, p.checked_type) for p in shared]))
        both = If(node.cond, branches[0], branches[1])
        return [TupleGetItem(both, index) for index in range(len(shared))]

    def _copied(self, branch: RelayExpr, shared: Sequence[RelayExpr]) -> RelayExpr:
        """Return what a branch computes, again; it has the same types, scopes and activity."""
        done: dict[Any, RelayExpr] = {part: part for part in shared}
        depth = self.scopes[branch].depth if branch not in done else 0
        for node in post_order(branch, stop=done):
            if isinstance(node, Var | Constant | Op | GlobalVar) or self.scopes[node].depth < depth:
                done[node] = node
                continue
            made = _copy(node, done)
            made.checked_type_ = node.checked_type_
            done[node] = made
            self.scopes[made] = self.scopes[node]
            if node in self.active:
                self.active.add(made)
        return done[branch]


def _inputs(node: RelayExpr) -> list[RelayExpr]:
    """Return the parts of an expression that its value depends on smoothly, if on any."""
    match node:
        case Call():
            return list(node.args)
        case Tuple():
            return list(node.fields)
        case TupleGetItem():
            return [node.tuple_value]
        case If():
            return [node.true_branch, node.false_branch]
    return []


def _copy(node: RelayExpr, done: Mapping[Any, RelayExpr]) -> Expr:
    match node:
        case Call():
            return Call(node.op, [done[arg] for arg in node.args], node.attrs, list(node.type_args), node.span)
        case Tuple():
            return Tuple([done[field] for field in node.fields])
        case TupleGetItem():
            return TupleGetItem(done[node.tuple_value], node.index)
        case If():
            return If(done[node.cond], done[node.true_branch], done[node.false_branch])
    raise AssertionError(f"{type(node).__name__} is no expression of tensors")


def _of_call(call: Call, grad: Expr) -> Sequence[Expr]:
    rule = attached(call.op, PRIMAL_GRADIENT)
    name = call.op.name
    if rule is None:
        raise ModelError(f"operator {name} has no gradient; attach one with relay.op.register_gradient({name!r})")
    grads = list(rule(call, grad))
    if len(grads) != len(call.args):
        raise ModelError(f"the gradient of {name} gave {len(grads)} expressions for {len(call.args)} arguments")
    return grads
