"""The program of an expression: its types are checked, it gets a name for each value, and is written and run."""

from __future__ import annotations

import ast
from typing import Any

import tvm
from tvm.target import Target

from ..errors import InputError
from ..relay import transform
from ..relay.ir import Function, GlobalVar, RelayExpr, TupleWrapper, free_vars, with_functions
from ..relay.transform.fresh_copy import fresh_copy
from ..stack import on_deep_stack
from .converter import Converter

__all__ = ["OUTPUT", "run_as_python", "to_python"]

OUTPUT = "_py_out"
"""The variable that holds the value of the expression once the program has run."""

_FUNCTION = "expression_as_python"


def to_python(
    expr: RelayExpr | TupleWrapper, mod: tvm.IRModule | None = None, target: str | Target = "llvm"
) -> ast.Module:
    """Return a program in Python that computes an expression.

    Functions of Relay are functions of Python, and values are named so that they are computed in Relay's order, each
    once. ``ast.unparse`` shows the program as text; it imports all that it needs.

    Parameters
    ----------
    expr : Expr, Function or GlobalVar
        What to compute; it has no free variables.
    mod : tvm.IRModule, optional
        The global functions and the data types that it uses.
    target : str or Target
        What the operators are compiled for, each when it is first called with arguments of a type.

    Returns
    -------
    ast.Module
        The program. It puts the value into the variable ``_py_out``.

    Raises
    ------
    InputError
        For an expression with free variables.
    TypeCheckError
        For one that has no type.
    """
    whole = expr.astuple() if isinstance(expr, TupleWrapper) else expr
    unbound = [] if isinstance(whole, GlobalVar) else free_vars(whole)
    if unbound:
        raise InputError(f"the expression has free variables: {', '.join(f'%{v.name_hint}' for v in unbound)}")
    return on_deep_stack(_converted, whole, mod if mod is not None else tvm.IRModule({}), target)


def run_as_python(
    expr: RelayExpr | TupleWrapper, mod: tvm.IRModule | None = None, target: str | Target = "llvm"
) -> Any:
    """Return the value of an expression, computed by the program that :func:`to_python` writes.

    Tensors are TVM tensors, tuples are tuples, values of data types and references are :class:`vmkit.ADT` and
    :class:`vmkit.RefValue`, and functions are functions of Python.
    """
    code = compile(to_python(expr, mod, target), "<Relay as Python>", "exec")
    names: dict[str, Any] = {}
    # Loops of Relay are recursion, which Python's own stack ends early.
    on_deep_stack(exec, code, names)
    return names[OUTPUT]


def _converted(expr: RelayExpr, mod: tvm.IRModule, target: str | Target) -> ast.Module:
    whole = with_functions(mod)
    name = _FUNCTION
    while any(known.name_hint == name for known in whole.get_global_vars()):
        name += "_"
    # Types are written into the copy, and not into what other expressions of the caller's may share.
    whole[name] = Function([], expr if isinstance(expr, GlobalVar) else fresh_copy(expr))
    typed = transform.InferType()(transform.RemoveUnusedFunctions([name])(whole))
    named = transform.ToANormalForm()(typed)
    return Converter(named, target).program(named[name].body, OUTPUT)
