"""What type inference found out about a program, put into its nodes or into a copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm.ir import BaseFunc, GlobalVar, Type

from ..ir import Function, RelayExpr, Var, children, post_order, with_functions
from ..ir.visit import rebuilt, same_nodes

__all__ = ["Facts", "fill", "with_facts"]

Facts: TypeAlias = dict[str, Any]
"""Fields of a node and their values: its type, and what follows from it."""


def fill(expr: RelayExpr, facts: Facts) -> None:
    """Write what is known of a node into it."""
    for name, value in facts.items():
        setattr(expr, name, value)


def with_facts(mod: tvm.IRModule, facts: Mapping[Any, Facts]) -> tvm.IRModule:
    """Return a module whose nodes have what is known of them; those that have it already are the module's own."""
    done: dict[Any, RelayExpr] = {}
    result: dict[GlobalVar, BaseFunc] = {}
    is_changed = False
    for gvar, function in mod.functions.items():
        made: Any = _with_facts(function, facts, done) if isinstance(function, Function) else function
        is_changed |= not made.same_as(function)
        result[gvar] = made
    return with_functions(mod, result) if is_changed else mod


def _with_facts(function: Function, facts: Mapping[Any, Facts], done: dict[Any, RelayExpr]) -> RelayExpr:
    for node in post_order(function, stop=done):
        parts, known = children(node), facts.get(node)
        if isinstance(node, Var) and known is not None and _is_same(node.type_annotation, known["type_annotation"]):
            # A variable is known by its identity, also to the caller: one that says its type already stays itself.
            node.checked_type_ = known["checked_type_"]
        new = [done[part] for part in parts]
        if same_nodes(new, parts) and (known is None or _has(node, known)):
            done[node] = node
            continue
        done[node] = rebuilt(node, new)
        fill(done[node], known or {})
    return done[function]


def _has(node: RelayExpr, facts: Facts) -> bool:
    return all(_is_same(getattr(node, name), value) for name, value in facts.items())


def _is_same(a: Type | tvm_ffi.Array | None, b: Type | tvm_ffi.Array) -> bool:
    return a is not None and (a is b or bool(tvm_ffi.structural_equal(a, b)))
