"""What Relay kept beside its build function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from .ir import Function

__all__ = ["bind_params_by_name"]


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """Return a function in which the parameters of these names have become constants.

    Parameters
    ----------
    func : Function
        The function; it is not changed.
    params : mapping
        Arrays by parameter name; names that the function does not have are logged and ignored.

    Raises
    ------
    InputError
        When two parameters share a name, or arrays do not have the declared types.
    """
    # What loads and checks weights stands above Relay.
    from ..params import bind_params

    return bind_params(tvm.IRModule({"main": func}), params)["main"]
