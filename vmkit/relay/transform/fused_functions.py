"""The kernels that a program comes apart into."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm.ir import GlobalVar

from ..ir import Function, post_order
from .fuse_ops import FuseOps
from .simplify_inference import SimplifyInference

__all__ = ["extract_fused_functions"]


def extract_fused_functions(mod: tvm.IRModule) -> dict[GlobalVar, Function]:
    """Return the functions that :func:`FuseOps` makes of ``main``, of equal ones the first.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.

    Returns
    -------
    dict of GlobalVar to Function
        Each under the number that says what it computes, as its name.
    """
    fused = FuseOps(3)(SimplifyInference()(mod))
    found: dict[str, Function] = {}
    for node in post_order(fused["main"]):
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            found.setdefault(str(tvm_ffi.structural_hash(node)), node)
    return {GlobalVar(name): function for name, function in found.items()}
