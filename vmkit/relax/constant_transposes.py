"""Constants that a Relax program transposes are transposed when compiling.

Importers of other formats leave a dense layer's weight as it was written, (out, in), and transpose it before the
product: each run would move all of it.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import ir, relax
from tvm.runtime import Tensor

from ..values.host_memory import native_array, to_cpu_tensor
from .aliases import is_call
from .rewrite import on_bindings, on_functions, with_branches

__all__ = ["with_transposed_constants"]

Made = dict[tuple[Tensor, tuple[int, ...]], ir.GenericConst]


def with_transposed_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which the transpose of a constant is a constant, one for all that take the same one."""
    made: Made = {}

    def changed(sequence: relax.SeqExpr) -> relax.SeqExpr:
        return on_bindings(sequence, lambda binding: [_transposed(with_branches(binding, changed), made)])

    new = on_functions(mod, lambda _, function: changed(function.body))
    # Puts the constant where its variable stands.
    return relax.transform.CanonicalizeBindings()(new) if made else mod


def _transposed(binding: relax.Binding, made: Made) -> relax.Binding:
    value = binding.value
    if not isinstance(binding, relax.VarBinding) or not is_call(value, "relax.permute_dims"):
        return binding
    constant = value.args[0]
    if not isinstance(constant, ir.GenericConst) or constant.ty.vdevice is not None:
        return binding
    data = constant.value
    array = native_array(data) if isinstance(data, Tensor) else None
    if array is None:
        return binding
    axes = tuple(range(array.ndim))[::-1] if value.attrs.axes is None else tuple(map(int, value.attrs.axes))
    if (data, axes) not in made:
        made[data, axes] = relax.const(to_cpu_tensor(np.transpose(array, axes)))
    return relax.VarBinding(binding.var, made[data, axes])
