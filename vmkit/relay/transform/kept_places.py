"""Nodes with the places in their spans that were noted for them while a pass ran."""

from __future__ import annotations

import tvm

from ..ir import Function, RelayExpr, rewrite
from ..ir.places import Noted, keeping
from ..ir.spans import with_span
from .known_type import with_type_of
from .registry import on_functions

__all__ = ["with_kept_places"]


def with_kept_places(mod: tvm.IRModule, noted: Noted) -> tvm.IRModule:
    """Return a module whose nodes have the places that were noted for them, and forget those.

    Between two passes, because a pass that is at work may know nodes by what they are.
    """
    places = dict(noted)
    noted.clear()
    if not places:
        return mod

    def placed(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        return with_span(with_type_of(node, original), places.get(original))

    def of_function(function: Function) -> Function:
        result: Function = rewrite(function, {}, placed)
        return result

    with keeping(False):
        return on_functions(mod, of_function)
