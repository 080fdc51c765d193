"""``tvm.testing.aot``: reference results; the C that it built and ran for boards is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from vmkit.executor import TargetLike
from vmkit.relay.ir import Function

from .gone import gone
from .graph_executor import GraphModule, build

__all__ = ["AOTCompiledTestModel", "AOTTestModel", "AOTTestRunner", "compile_and_run", "generate_ref_data"]

_INSTEAD = "relay.build compiles a model for this machine, and vmkit.compile(model, target='c') gives kernels in C"

AOTCompiledTestModel, AOTDataLinkage, AOTTestModel, AOTTestRunner, compile_and_run, compile_models, run_and_check = (
    gone(f"tvm.testing.aot.{name}", _INSTEAD)
    for name in (
        *("AOTCompiledTestModel", "AOTDataLinkage", "AOTTestModel", "AOTTestRunner", "compile_and_run"),
        *("compile_models", "run_and_check"),
    )
)


def generate_ref_data(
    mod: tvm.IRModule | Function,
    input_data: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    target: TargetLike = "llvm",
) -> dict[str, np.ndarray]:
    """Return what a model computes, by the names of its outputs: ``output``, or ``output0``, ``output1`` ...

    Parameters
    ----------
    mod : IRModule or Function
        The model.
    input_data : mapping of str to array
        Its inputs.
    params : mapping of str to array, optional
        Its parameters.
    target : optional
        What to compile for.
    """
    module = GraphModule(build(mod, target, params=params)["default"](tvm.cpu()))
    module.run(**input_data)
    count = module.get_num_outputs()
    names = ["output"] if count == 1 else [f"output{i}" for i in range(count)]
    return {name: module.get_output(i).numpy() for i, name in enumerate(names)}
