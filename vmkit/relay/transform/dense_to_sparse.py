"""Dense layers become products with sparse weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Call, Function, RelayExpr
from ..op.registry import entry
from .registry import ModuleTransform, per_function, relay_pass
from .weight_parameters import sparse_parameters, weight_name, with_other_weights

__all__ = ["DenseToSparse"]


@relay_pass(opt_level=4)
def DenseToSparse(weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]]) -> ModuleTransform:
    """Return the pass that makes ``nn.dense`` with some parameters ``nn.sparse_dense``.

    Parameters
    ----------
    weight_name : sequence of str
        The names of the weights. Each gives way to three parameters, its name with ``.data``, ``.indices`` and
        ``.indptr``.
    weight_shape : sequence of sequence of int
        For each, the three sizes of the blocks' tensor, and the lengths of the columns and of the row pointers.
        ``relay.analysis.sparse_dense.process_params`` returns both, and makes the parameters' values.
    """
    return per_function(lambda function: _sparse(function, dict(zip(map(str, weight_name), weight_shape, strict=True))))


def _sparse(function: Function, shapes: dict[str, Sequence[int]]) -> Function:
    made = {name: sparse_parameters(name, list(shape)) for name, shape in shapes.items()}

    def change(node: RelayExpr) -> RelayExpr:
        name = weight_name(node, "nn.dense")
        if not isinstance(node, Call) or name not in made:
            return node
        return entry("nn.sparse_dense").call(node.args[0], *made[name])

    return with_other_weights(function, change)
