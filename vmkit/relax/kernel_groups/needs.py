"""Functions by which a library tells what its kernel groups need of the tensors that they do not look at."""

from __future__ import annotations

import tvm
from tvm import ir, tirx

from ...kernels.builder import AS_WRITTEN
from ...values.kernel_needs import SUFFIX, TELL
from ..rewrite import with_functions
from .functions import NEEDS

__all__ = ["with_needs"]


def with_needs(kernels: tvm.IRModule) -> tvm.IRModule:
    """Return a module of kernels that has, for each group that needs something, the function that tells it."""
    texts = {gvar.name_hint: f.attrs[NEEDS] for gvar, f in kernels.functions.items() if NEEDS in f.attrs}
    return with_functions(kernels, {ir.GlobalVar(n + SUFFIX): _telling(n + SUFFIX, str(t)) for n, t in texts.items()})


def _telling(name: str, text: str) -> tirx.PrimFunc:
    attrs = ir.make_node("ir.DictAttrs", global_symbol=name, **AS_WRITTEN)
    return tirx.PrimFunc([], tirx.Evaluate(tirx.call_packed(TELL, text)), attrs=attrs)
