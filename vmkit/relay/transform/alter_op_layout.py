"""Calls of operators give way to calls that scripts prefer, in other layouts."""

from __future__ import annotations

from ...errors import ModelError
from ..ir import Call, RelayExpr
from ..op.attached import ALTER_OP_LAYOUT, attached
from .known_type import type_of
from .layout_rewriter import LayoutRewriter, placeholders
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["AlterOpLayout"]


@relay_pass(opt_level=3)
def AlterOpLayout() -> ModuleTransform:
    """Return the pass that puts other calls, mostly in other layouts, in the place of operators' calls.

    Which ones, functions say that are attached to operators with ``relay.op.register_alter_op_layout``; without any the
    pass changes nothing, since vmkit chooses layouts itself when it compiles. What follows a call goes on in its layout
    as far as operators can, and where layouts do not fit, a ``layout_transform`` is put in between.
    """
    return per_function(lambda function: _Alterer().rewritten(function))


class _Alterer(LayoutRewriter):
    def altered(self, call: Call, args: list[RelayExpr], known: Call) -> Call | None:
        hook = attached(call.op, ALTER_OP_LAYOUT)
        made = None if hook is None else hook(call.attrs, args, placeholders(known), type_of(known))
        if made is not None and not isinstance(made, Call):
            raise ModelError(f"FTVMAlterOpLayout of {call.op.name} must return a call or None, not {made}")
        return made
