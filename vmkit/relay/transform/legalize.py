"""Calls of operators give way to what computes the same on a target that lacks them."""

from __future__ import annotations

from ...errors import ModelError
from ..ir import Call, Op, RelayExpr, rewrite
from ..op.attached import LEGALIZE, attached
from .known_type import type_of, with_type_of
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["Legalize"]


@relay_pass(opt_level=1)
def Legalize(legalize_map_attr_name: str = LEGALIZE) -> ModuleTransform:
    """Return the pass that puts legal calls in the place of operators' calls.

    Parameters
    ----------
    legalize_map_attr_name : str
        The key under which functions are attached to operators: ``f(attrs, inputs, types) -> Call or None``, with the
        types of the inputs and, last, of the result. ``relay.op.register_legalize`` attaches them under the default.
    """

    def legal(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not (isinstance(original, Call) and isinstance(original.op, Op)):
            return with_type_of(node, original)
        hook = attached(original.op, legalize_map_attr_name)
        types = [] if hook is None else [type_of(part) for part in (*original.args, original)]
        made = None if hook is None else hook(original.attrs, list(node.args), types)
        if made is None:
            return with_type_of(node, original)
        if not isinstance(made, Call):
            raise ModelError(
                f"{legalize_map_attr_name} of {original.op.name}: only a call can take the place of a call, not {made}"
            )
        type_of(made)
        return made

    return per_function(lambda function: rewrite(function, {}, legal))
