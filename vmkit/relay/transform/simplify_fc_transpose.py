"""Dense layers take weights that were turned round ahead."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.weights import search_fc_transpose
from ..ir import Call, Function, RelayExpr, TensorType, Var, is_call
from .registry import ModuleTransform, per_function, relay_pass
from .weight_parameters import with_other_weights

__all__ = ["SimplifyFCTranspose"]


@relay_pass(opt_level=4)
def SimplifyFCTranspose(target_weight_name: Sequence[str]) -> ModuleTransform:
    """Return the pass that makes ``nn.dense(x, transpose(w, [1, 0]))`` the same of a parameter ``w.T``.

    Parameters
    ----------
    target_weight_name : sequence of str
        The names of the weights, such as :func:`relay.analysis.search_fc_transpose` finds. What is bound to each must
        be turned round and bound to the name with ``.T``; ``relay.data_dep_optimization.simplify_fc_transpose`` does
        both.
    """
    wanted = {str(name) for name in target_weight_name}

    def simplified(function: Function) -> Function:
        names = wanted & set(search_fc_transpose(function))
        made: dict[str, Var] = {}

        def change(node: RelayExpr) -> RelayExpr:
            if not is_call(node, "nn.dense") or not is_call(node.args[1], "transpose"):
                return node
            weight = node.args[1].args[0]
            if not isinstance(weight, Var) or weight.name_hint not in names:
                return node
            name, ty = weight.name_hint, weight.checked_type
            made.setdefault(name, Var(f"{name}.T", TensorType(list(reversed(ty.shape)), ty.dtype)))
            return Call(node.op, [node.args[0], made[name]], node.attrs, span=node.span)

        return with_other_weights(function, change) if names else function

    return per_function(simplified)
