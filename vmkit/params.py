"""Weights: bind them to the parameters of a function by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tvm

from .errors import InputError
from .relay.ir import Constant, Function, TensorType, Var, const, dims, rewrite, with_functions
from .signature import describe

__all__ = ["as_tensors", "bind_params"]

logger = logging.getLogger(__name__)


def as_tensors(params: Mapping[str, Any]) -> dict[str, tvm.runtime.Tensor]:
    """Return arrays, tensors and numbers as tensors by name.

    Raises
    ------
    InputError
        Listing all values that are none of these.
    """
    if not isinstance(params, Mapping):
        raise InputError(f"params map names to arrays, got {describe(params)}")
    tensors, problems = {}, []
    for name, value in params.items():
        try:
            tensors[str(name)] = const(value).data
        except (TypeError, ValueError, OverflowError) as error:
            problems.append(f"  {name}: {describe(value)} is no tensor: {error}")
    if problems:
        raise InputError("\n".join([f"{len(problems)} of the params cannot be used", *problems]))
    return tensors


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
    _check(name, values)
    bound = with_functions(mod)
    bound[name] = _without(function, values)
    return bound


def _check(name: str, values: Mapping[Var, Constant]) -> None:
    problems = []
    for variable, value in values.items():
        expected, got = variable.type_annotation, value.checked_type
        if isinstance(expected, TensorType) and not _fits(expected, got):
            problems.append(f"  {variable.name_hint}: {got}, expected {expected}")
    if problems:
        count = "1 of the params does" if len(problems) == 1 else f"{len(problems)} of the params do"
        raise InputError("\n".join([f"{count} not match @{name}", *problems]))


def _fits(expected: TensorType, got: TensorType) -> bool:
    return (
        expected.dtype == got.dtype
        and len(expected.shape) == len(got.shape)
        and all(dims.equal(a, b) is not False for a, b in zip(expected.shape, got.shape, strict=True))
    )


def _without(function: Function, values: Mapping[Var, Constant]) -> Function:
    body = rewrite(function.body, values)
    params = [p for p in function.params if p not in values]
    return Function(params, body, function.ret_type, list(function.type_params), function.attrs, function.span)
