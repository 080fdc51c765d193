"""Running a pass over one function."""

from __future__ import annotations

import tvm

from ..ir import Function

__all__ = ["after"]


def after(run: tvm.transform.Pass, function: Function) -> Function:
    """Return what a pass makes of a function."""
    return run(tvm.IRModule({"main": function}))["main"]
