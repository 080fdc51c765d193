"""Weights: bind them to the parameters of a function by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from ..errors import InputError
from ..values.element_types import numpy_dtype
from ..values.tensors import as_tensors
from .ir import Constant, Function, TensorType, Type, Var, const, dims, rewrite, with_functions

__all__ = ["bind_params", "bind_params_by_name"]

logger = logging.getLogger(__name__)


def bind_params(mod: tvm.IRModule, params: Mapping[str, Any], name: str = "main") -> tvm.IRModule:
    """Return a module in which parameters of one function have become constants.

    Parameters
    ----------
    mod : tvm.IRModule
        The Relay module; it is not changed.
    params : mapping
        Arrays by parameter name. A name that the function does not have is logged and ignored, as Relay did.
    name : str
        The function.

    Raises
    ------
    InputError
        When two parameters share a name, or arrays do not have the declared types; all of them are listed.
    """
    return _bound(mod, params, name)


def _bound(mod: tvm.IRModule, params: Mapping[str, Any], name: str, *, any_dtype: bool = False) -> tvm.IRModule:
    if not params:
        return mod
    function = mod[name]
    by_name: dict[str, Var] = {}
    for parameter in function.params:
        if parameter.name_hint in by_name and parameter.name_hint in params:
            raise InputError(f"Multiple args in the function have name {parameter.name_hint}")
        by_name[parameter.name_hint] = parameter
    unknown = [n for n in params if n not in by_name]
    if unknown:
        logger.warning("params that @%s has no parameter for are not used: %s", name, ", ".join(sorted(unknown)))
    values = {by_name[n]: const(v) for n, v in as_tensors(params).items() if n in by_name}
    _check(name, values, any_dtype=any_dtype)
    bound = with_functions(mod)
    bound[name] = _without(function, values)
    return bound


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """Return a function in which the parameters of these names have become constants.

    Parameters
    ----------
    func : Function
        The function; it is not changed.
    params : mapping
        Arrays by parameter name; names that the function does not have are logged and ignored. An array of another
        data type than the declared one, which Relay let pass, is converted where every element stays what it is, and
        otherwise keeps its own: type inference then says whether the function takes that.

    Raises
    ------
    InputError
        When two parameters share a name, or arrays do not have the declared shapes.
    """
    declared = {p.name_hint: p.type_annotation for p in func.params}
    values = {name: _without_loss(value, declared.get(name)) for name, value in as_tensors(params).items()}
    return _bound(tvm.IRModule({"main": func}), values, "main", any_dtype=True)["main"]


def _without_loss(value: tvm.runtime.Tensor, declared: Type | None) -> tvm.runtime.Tensor:
    """Return a tensor of the declared data type, or as it is where that cannot hold its elements."""
    if not isinstance(declared, TensorType) or declared.dtype == str(value.dtype) or declared.dtype == "string":
        return value
    array = value.numpy()
    with np.errstate(all="ignore"):
        converted = array.astype(numpy_dtype(declared.dtype))
        is_same = np.array_equal(converted.astype(array.dtype), array)
    return as_tensors({"": converted})[""] if is_same else value


def _check(name: str, values: Mapping[Var, Constant], *, any_dtype: bool) -> None:
    problems = []
    for variable, value in values.items():
        expected, got = variable.type_annotation, value.checked_type
        if isinstance(expected, TensorType) and not _fits(expected, got, any_dtype=any_dtype):
            problems.append(f"  {variable.name_hint}: {got}, expected {expected}")
    if problems:
        count = "1 of the params does" if len(problems) == 1 else f"{len(problems)} of the params do"
        raise InputError("\n".join([f"{count} not match @{name}", *problems]))


def _fits(expected: TensorType, got: Type, *, any_dtype: bool) -> bool:
    return (
        isinstance(got, TensorType)
        and (any_dtype or expected.dtype == got.dtype)
        and len(expected.shape) == len(got.shape)
        and all(dims.equal(a, b) is not False for a, b in zip(expected.shape, got.shape, strict=True))
    )


def _without(function: Function, values: Mapping[Var, Constant]) -> Function:
    body = rewrite(function.body, values)
    params = [p for p in function.params if p not in values]
    return Function(params, body, function.ret_type, list(function.type_params), function.attrs, function.span)
