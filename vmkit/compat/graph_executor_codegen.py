"""``tvm.relay.backend.graph_executor_codegen``: a program's graph, its kernels, and its parameters, not built yet."""

from __future__ import annotations

from typing import Any

import tvm

from vmkit.compiler.handed import Handed
from vmkit.compiler.stages import lower, run_stage
from vmkit.executor import TargetLike
from vmkit.relay.ir import Function, with_functions
from vmkit.target import canonical_target

from .graph_json import graph_of

__all__ = ["GraphExecutorCodegen"]


class GraphExecutorCodegen:
    """Makes a graph and kernels of a program.

    Parameters
    ----------
    mod : None
        Relay's builder of modules, of which there is none.
    target : optional
        What to compile for; see :func:`vmkit.target.canonical_target`.
    """

    def __init__(self, mod: None, target: TargetLike) -> None:
        self._plan = canonical_target(target)

    def codegen(
        self, ir_module: tvm.IRModule, func: Function | None = None
    ) -> tuple[str, dict[tvm.target.Target, tvm.IRModule], dict[str, Any]]:
        """Return the graph in JSON, the kernels by target, and the constants by name.

        The virtual machine runs the kernels, in an order of its own: their names are not those of the graph's nodes.

        Parameters
        ----------
        ir_module : tvm.IRModule
            The program.
        func : Function, optional
            What is ``main``; by default that of the module.

        Raises
        ------
        ModelError
            When the program has control flow or sizes that are known at run time only.
        """
        mod = with_functions(ir_module)
        if func is not None:
            mod["main"] = func
        graph = graph_of(mod)
        program = run_stage(self._plan, lambda options: lower(Handed(mod), {}, self._plan, options))
        kernels = program.code.kernels if program.code.kernels is not None else tvm.IRModule({})
        return graph.json, {self._plan.primary: kernels}, graph.params
