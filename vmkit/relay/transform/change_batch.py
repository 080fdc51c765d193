"""Parameters of another batch size, and all types that follow from it."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import OptionError
from ..ir import Dim, Function, TensorType, Var, rewrite
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["ChangeBatch"]


@relay_pass(opt_level=1)
def ChangeBatch(data: Mapping[Var, int], batch_size: Dim = 16) -> ModuleTransform:
    """Return the pass that gives parameters another batch size; all other types are inferred anew.

    Parameters
    ----------
    data : mapping of Var to int
        The parameters, and which of the axes of each is the batch.
    batch_size : int or dimension
        The size that these axes get; ``relay.Any()`` for any.

    Raises
    ------
    OptionError
        For a variable that is no tensor of a declared type, or that has no such axis.
    """
    changed = {variable: _with_batch(variable, axis, batch_size) for variable, axis in data.items()}

    def change(function: Function) -> Function:
        ours = {variable: changed[variable] for variable in function.params if variable in changed}
        if not ours:
            return function
        # What was declared of the result holds for the old batch.
        open_result = Function(
            list(function.params), function.body, None, list(function.type_params), function.attrs, function.span
        )
        return rewrite(open_result, ours)

    return per_function(change)


def _with_batch(variable: Var, axis: int, batch_size: Dim) -> Var:
    ty = variable.type_annotation
    if not isinstance(ty, TensorType):
        raise OptionError(f"%{variable.name_hint} must be declared as a tensor to get another batch size, not {ty}")
    shape = list(ty.shape)
    if not -len(shape) <= axis < len(shape):
        raise OptionError(f"%{variable.name_hint} has {len(shape)} axes; there is no axis {axis} for the batch")
    shape[axis] = batch_size
    return Var(variable.name_hint, TensorType(shape, ty.dtype), variable.span)
