"""How TVM's TIR passes are run over the functions that compute sizes.

Those are stores of integer expressions, one after the other, without loops, blocks or buffers of their own. What TVM's
passes for kernels change in them LLVM does itself, and they take a third of the time of compiling a program of many
unknown sizes.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline

__all__ = ["SHAPES"]

SHAPES = "vmkit.shapes"


def _pipeline() -> tuple[Any, Any, Any]:
    _, finalize_host, finalize_device = get_tir_pipeline("default")
    lower = tvm.transform.Sequential(
        [
            tirx.transform.FlattenBuffer(),
            # A choice that divides must not divide by what it does not choose.
            s_tir.transform.RewriteUnsafeSelect(),
            tirx.transform.AnnotateEntryFunc(),
            tirx.transform.SplitHostDevice(),
            tirx.transform.MakePackedAPI(),
        ]
    )
    return lower, finalize_host, finalize_device


register_tir_pipeline(SHAPES, _pipeline)
