"""Functions by which a library tells what its kernel groups need of the tensors that they do not look at."""

from __future__ import annotations

import tvm
from tvm import ir, tirx

from ...kernels.builder import WRITTEN_OUT
from ...values.kernel_needs import SUFFIX, TELL
from ..rewrite import with_functions
from .functions import NEEDS

__all__ = ["with_needs"]


def with_needs(kernels: tvm.IRModule) -> tvm.IRModule:
    """Return a module of kernels that has, for each group that needs something, the function that tells it."""
    texts = {gvar.name_hint: f.attrs[NEEDS] for gvar, f in kernels.functions.items() if NEEDS in f.attrs}
    return with_functions(kernels, {ir.GlobalVar(n + SUFFIX): _telling(n + SUFFIX, str(t)) for n, t in texts.items()})


def _telling(name: str, text: str) -> tirx.PrimFunc:
    # TVM takes what the function that it declares last says of overlaps for the others of a module, too.
    marks = {WRITTEN_OUT: True, "tirx.is_scheduled": True, "tirx.noalias": True}
    attrs = ir.make_node("ir.DictAttrs", global_symbol=name, **marks)
    return tirx.PrimFunc([], tirx.Evaluate(tirx.call_packed(TELL, text)), attrs=attrs)
