"""Dense layers whose weights are turned round ahead."""

from __future__ import annotations

import numpy as np
import tvm

from ..analysis.block_sparse import Params
from ..analysis.weights import search_fc_transpose
from ..ir import Function
from ..transform.simplify_fc_transpose import SimplifyFCTranspose
from .run import after

__all__ = ["convert"]


def convert(func: Function, params: Params) -> tuple[Function, Params]:
    """Return a function with ``nn.dense(x, w.T)`` for ``nn.dense(x, transpose(w, [1, 0]))``, and its parameters.

    Parameters
    ----------
    func : Function
        The program.
    params : dict of str to tensor
        Its parameters by name, which are changed: a weight that is turned round gives way to its name with ``.T``.
    """
    names = [name for name in search_fc_transpose(func) if name in params]
    made = after(SimplifyFCTranspose(names), func)
    left = {param.name_hint for param in made.params}
    for name in names:
        params[f"{name}.T"] = tvm.runtime.tensor(np.ascontiguousarray(params[name].numpy().T))
        if name not in left:
            del params[name]
    return made, params
