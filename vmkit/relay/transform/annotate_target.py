"""Mark which code generator each operator is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..analysis.infer_type import typed
from ..ir import (
    Call,
    Function,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    post_order,
    rewrite,
)
from ..ir.visit import children, rebuilt
from ..op.annotation import compiler_begin, compiler_end
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["DEFAULT_COMPILER", "AnnotateTarget", "annotation_of", "supports"]

# What is compiled as usual.
DEFAULT_COMPILER = "default"


@relay_pass(opt_level=0)
def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> ModuleTransform:
    """Return the pass that puts ``compiler_begin`` and ``compiler_end`` around what code generators take.

    A code generator takes an operator whose attribute ``target.<name>``, a function of the call that
    ``tvm.ir.register_op_attr`` registered, says so; and a function marked ``Composite`` with a name that begins with
    its own. All other calls are annotated as ``default``. Annotations for other code generators that are there
    already stay, so that the pass can run again.

    Parameters
    ----------
    targets : str or list of str
        The names of code generators. Of several that take an operator, the first gets it.
    include_non_call_ops : bool
        Whether tuples, their fields, references and calls of local functions are annotated, too: for what all that
        they use is for, or as ``default``. Otherwise they stand between regions.
    """
    names = [targets] if isinstance(targets, str) else [str(name) for name in targets]
    return lambda mod: on_functions(typed(mod), lambda function: _Annotator(names, include_non_call_ops).run(function))


def supports(target: str, call: RelayExpr) -> bool:
    """Say whether a code generator takes a call, whose type is known, by the attribute of its operator."""
    if not (isinstance(call, Call) and isinstance(call.op, Op)):
        return False
    key = f"target.{target}"
    takes: Any = call.op.get_attr(key) if call.op.has_attr(key) else None
    return takes is not None and bool(takes(call))


def annotation_of(node: RelayExpr) -> str | None:
    """Return the code generator that an annotation names; None for any other expression."""
    if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _ANNOTATIONS:
        return str(node.attrs.compiler)
    return None


_ANNOTATIONS = ("annotation.compiler_begin", "annotation.compiler_end")


def _is_begin(node: RelayExpr) -> bool:
    return annotation_of(node) is not None and node.op.name == _ANNOTATIONS[0]


def _is_end(node: RelayExpr) -> bool:
    return annotation_of(node) is not None and node.op.name == _ANNOTATIONS[1]


def _is_closed(node: RelayExpr) -> bool:
    """Say whether an expression is a function that is made as a whole, whose inside is nobody else's."""
    return isinstance(node, Function) and any(node.attrs.get(key) for key in ("Composite", "Compiler", "Primitive"))


class _Annotator:
    """Annotates one function."""

    def __init__(self, targets: Sequence[str], include_non_calls: bool) -> None:
        self.targets = targets
        self.include_non_calls = include_non_calls
        # What each annotated expression is for.
        self.target_of: dict[Any, str] = {}
        self.rules: dict[type, Callable[[Any, Any], RelayExpr]] = {
            Call: self.call,
            Function: self.function,
            If: lambda new, _: rebuilt(new, [self.ended(part) for part in children(new)]),
            Let: self.let,
            Match: self.match,
            **dict.fromkeys((RefCreate, RefRead, RefWrite, Tuple, TupleGetItem), self.value),
        }

    def run(self, function: Function) -> Function:
        closed = {node: node for node in post_order(function) if _is_closed(node)}
        return rewrite(function, closed, self.replace)

    def replace(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        rule = self.rules.get(type(node))
        return node if rule is None else rule(node, original)

    def call(self, call: Call, original: Call) -> RelayExpr:
        if _is_begin(call):
            return call
        if _is_end(call):
            (value,) = call.args
            return compiler_end(value, self.target_of.setdefault(value, call.attrs.compiler))
        if not isinstance(call.op, Op | Function):
            if not self.include_non_calls:
                return Call(
                    call.op, [self.ended(arg) for arg in call.args], call.attrs, list(call.type_args), call.span
                )
            target = DEFAULT_COMPILER
        else:
            target = next(self.candidates(call, original))
        args, _ = self.annotated(list(call.args), target)
        made = rebuilt(call, [call.op, *args])
        self.target_of[made] = target
        return made

    def candidates(self, call: Call, original: Call) -> Iterator[str]:
        """Yield what a call may be for, the best first."""
        # One that an earlier run has annotated keeps its place.
        earlier = annotation_of(call.args[0]) if len(call.args) and _is_begin(call.args[0]) else None
        if earlier is not None and earlier != DEFAULT_COMPILER:
            yield earlier
        if isinstance(call.op, Function):
            owner, dot, _ = str(call.op.attrs.get("Composite") or "").partition(".")
            yield from (name for name in self.targets if dot and name == owner)
        else:
            yield from (name for name in self.targets if supports(name, original))
        yield DEFAULT_COMPILER

    def value(self, new: RelayExpr, _: RelayExpr) -> RelayExpr:
        """Annotate what computes nothing: it is for what all its parts are for."""
        if not self.include_non_calls:
            return rebuilt(new, [self.ended(part) for part in children(new)])
        parts, target = self.annotated(children(new), None)
        made = rebuilt(new, parts)
        if parts:
            self.target_of[made] = target
        return made

    def function(self, new: Function, _: Function) -> Function:
        return Function(
            list(new.params), self.ended(new.body), new.ret_type, list(new.type_params), new.attrs, new.span
        )

    def let(self, new: Let, _: Let) -> Let:
        # A function that is bound is no value that crosses a border.
        value = new.value if isinstance(new.value, Function) else self.bound(new.value)
        return Let(new.var, value, self.ended(new.body), new.span)

    def bound(self, value: RelayExpr) -> RelayExpr:
        if not self.include_non_calls:
            return self.ended(value)
        (begun,), _ = self.annotated([value], None)
        return begun

    def match(self, new: Match, _: Match) -> RelayExpr:
        results = {clause.rhs for clause in new.clauses} | {new.data}
        return rebuilt(new, [self.ended(part) if part in results else part for part in children(new)])

    def ended(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression with the end of its region behind it, if it is in one."""
        target = self.target_of.get(expr)
        # What is computed of nothing, such as zeros, stands for itself like a variable.
        if target is None or (isinstance(expr, Call) and not len(expr.args)) or _is_end(expr):
            return expr
        made = compiler_end(expr, target)
        self.target_of[made] = target
        return made

    def annotated(self, args: Sequence[RelayExpr], target: str | None) -> tuple[list[RelayExpr], str]:
        """Return arguments between an end and a begin, and what they are for: `target`, or what all of them come from.

        Annotations of other code generators stay; those of ``default`` are made anew.
        """
        sources: list[str] = []
        open_args: list[tuple[RelayExpr, bool]] = []
        for arg in args:
            source = self.target_of.get(arg, DEFAULT_COMPILER)
            if _is_begin(arg):
                inner = arg.args[0]
                source = annotation_of(inner) or DEFAULT_COMPILER if _is_end(inner) else DEFAULT_COMPILER
                is_done = annotation_of(arg) != DEFAULT_COMPILER
                open_args.append((arg if is_done else inner, is_done))
            else:
                open_args.append((self.ended(arg), False))
            sources.append(source)
        common = sources[0] if sources and all(each == sources[0] for each in sources) else DEFAULT_COMPILER
        chosen = common if target is None else target
        return [arg if is_done else compiler_begin(arg, chosen) for arg, is_done in open_args], chosen
