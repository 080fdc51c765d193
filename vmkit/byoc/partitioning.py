"""Cut a program for a code generator, and tell what of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import tvm

from .._dataclasses import dataclass
from ..errors import ModelError
from ..relay import transform
from ..relay.analysis.infer_type import typed
from ..relay.dataflow_pattern.grouping import operator_names
from ..relay.ir import Call, Function, Op, post_order
from .codegen import Codegen, find

__all__ = ["Kept", "Partitioned", "partition"]


@dataclass(frozen=True)
class Kept:
    """Calls of an operator that a code generator did not get.

    Attributes
    ----------
    function, operator : str
        Where the calls stand, and what they call.
    reason : str
        Why they stay.
    count : int
        How many there are.
    """

    function: str
    operator: str
    reason: str
    count: int


@dataclass(frozen=True, eq=False)
class Partitioned:
    """A program that is cut, and what became of its operators; it prints as a table.

    Attributes
    ----------
    module : tvm.IRModule
        The program, to be compiled as any other.
    compiler : str
        The name of the code generator.
    offloaded : dict of str to list of str
        The operators, and composite functions, of each function that the code generator gets.
    kept : list of Kept
        What it does not get, and why.
    """

    module: tvm.IRModule
    compiler: str
    offloaded: dict[str, list[str]]
    kept: list[Kept]

    def __str__(self) -> str:
        taken = sum(map(len, self.offloaded.values()))
        total = taken + sum(each.count for each in self.kept)
        lines = [f"{self.compiler} gets {taken} of {total} calls, in {len(self.offloaded)} functions"]
        lines += [f"  {name}: {', '.join(operators)}" for name, operators in self.offloaded.items()]
        lines += [f"  stays in {k.function}: {k.count} {k.operator}: {k.reason}" for k in self.kept]
        return "\n".join(lines)


def partition(mod: tvm.IRModule | Function, name: str, *, mod_name: str = "default") -> Partitioned:
    """Return a program with functions for a code generator, and what stays outside of them.

    Parameters
    ----------
    mod : tvm.IRModule or relay.Function
        The program.
    name : str
        The code generator, as :func:`codegen` registered it.
    mod_name : str
        A part of the names of the functions.

    Raises
    ------
    CompileError
        When there is no such code generator.
    ModelError
        When the program is something else, such as the path of a model.

    Examples
    --------
    >>> from vmkit import byoc, relay
    >>> x = relay.var("x", shape=(2, 3))
    >>> print(byoc.partition(relay.Function([x], relay.nn.softmax(x + x)), "ccompiler"))
    ccompiler gets 1 of 2 calls, in 1 functions
      tvmgen_default_ccompiler_main_0: add
      stays in main: 1 nn.softmax: ccompiler does not take it
    """
    codegen = find(name)
    if not isinstance(mod, tvm.IRModule | Function):
        raise ModelError(
            f"what is cut is a tvm.IRModule or a relay.Function, not {type(mod).__name__}; "
            f"relay.frontend.from_onnx makes one of an ONNX model"
        )
    cut = typed(tvm.IRModule({"main": mod}) if isinstance(mod, Function) else mod)
    passes = [
        *codegen.preparation(),
        transform.MergeComposite(codegen.patterns()),
        transform.AnnotateTarget(name),
        transform.MergeCompilerRegions(),
        transform.PartitionGraph(mod_name=mod_name),
    ]
    for each in passes:
        cut = each(cut)
    functions = {g: [callee for _, callee in _calls(f)] for g, f in cut.functions.items() if _is_for(f, name)}
    # A region of tuples alone computes nothing.
    idle = [gvar for gvar, operators in functions.items() if not operators or not codegen.is_worth(operators)]
    cut = typed(transform.InlineCompilerFunctionsBoundTo(idle)(cut)) if idle else cut
    offloaded: dict[str, list[str]] = {}
    kept: dict[tuple[str, str, str], int] = {}
    for gvar, function in cut.functions.items():
        if not isinstance(function, Function):
            continue
        if _is_for(function, name):
            offloaded[gvar.name_hint] = [callee for _, callee in _calls(function)]
        if function.attrs.get("Compiler"):
            continue
        for call, callee in _calls(function):
            row = (gvar.name_hint, callee, _reason(codegen, name, call))
            kept[row] = kept.get(row, 0) + 1
    rows = [Kept(*row, count) for row, count in kept.items()]
    return Partitioned(cut, name, offloaded, rows)


def _is_for(function: tvm.ir.BaseFunc, name: str) -> TypeGuard[Function]:
    return isinstance(function, Function) and str(function.attrs.get("Compiler")) == name


def _calls(function: Function) -> Iterator[tuple[Call, str]]:
    """Yield the calls of operators and composite functions, with what they call; composites are not entered."""
    composites = {n for n in post_order(function.body) if isinstance(n, Function) and n.attrs.get("Composite")}
    for node in post_order(function.body, stop=composites):
        if isinstance(node, Call) and isinstance(node.op, Op):
            yield node, node.op.name
        elif isinstance(node, Call) and node.op in composites:
            yield node, str(node.op.attrs["Composite"])


def _reason(codegen: Codegen, name: str, call: Call) -> str:
    assert isinstance(call.op, Op)
    if call.op.name not in codegen.operators:
        is_asked_for = any(call.op.name in operator_names(row[1]) for row in codegen.patterns())
        unfit = f"no pattern of {name} fits here, or its predicate refuses"
        return unfit if is_asked_for else f"{name} does not take it"
    answer = codegen.takes(call)
    if isinstance(answer, str):
        return answer
    return f"what {name} takes around it is not worth a call" if answer else f"{name} does not take this one"
