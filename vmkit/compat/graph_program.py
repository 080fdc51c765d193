"""The program behind a graph: fused as Relay did, with its constants as parameters, or node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm

from vmkit.compiler.stages import relay_module
from vmkit.compiler.vm_compiler import compile
from vmkit.relay import transform
from vmkit.relay.expr_functor import ExprMutator
from vmkit.relay.ir import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from vmkit.relay.params import bind_params
from vmkit.runtime.machine import VirtualMachine
from vmkit.target.plan import TargetPlan

from .._dataclasses import dataclass
from .build_choices import Executor
from .graph_json import Graph, graph_of
from .memory_plan import graph_order

__all__ = ["Node", "Source"]


@dataclass(frozen=True)
class Node:
    """A node of a graph that computes something.

    Attributes
    ----------
    expr : Expr
        The value.
    arguments : tuple of Expr
        What it is computed from.
    function : callable
        Computes it from the values of those.
    """

    expr: RelayExpr
    arguments: tuple[RelayExpr, ...]
    function: Callable[..., Any]


class Source:
    """What a model was built from.

    Attributes
    ----------
    ir_mod : tvm.IRModule
        The program.
    params : mapping of str to array
        What was bound to its parameters.
    plan : TargetPlan
        What it was compiled for.
    executor : Executor
        What was chosen to run it.
    """

    def __init__(self, ir_mod: tvm.IRModule, params: Mapping[str, Any], plan: TargetPlan, executor: Executor) -> None:
        self.ir_mod, self.params, self.plan, self.executor = ir_mod, params, plan, executor
        # The graph is made when it is asked for, which may be outside the context of the build.
        context = tvm.transform.PassContext.current()
        self._passes = (context.opt_level, list(context.required_pass), list(context.disabled_pass))

    def fused(self) -> tvm.IRModule:
        """Return the program with its parameters as constants, and operators fused as Relay did."""
        mod = bind_params(relay_module(self.ir_mod), self.params)
        simplified = [transform.SimplifyInference(), transform.FastMath(), transform.FlattenAtrousConv()]
        passes = [transform.InferType(), *simplified, transform.FuseOps()]
        with tvm.transform.PassContext(*self._passes):
            return tvm.transform.Sequential(passes)(mod)

    def graph(self, mod_name: str, program: str) -> Graph:
        """Return the program as a graph."""
        return graph_of(self.fused(), mod_name, {"program": program})

    def without_params(self) -> Source:
        """Return the program with the constants of its graph as parameters behind the others, called as they are."""
        main = transform.typed(self.fused())["main"]
        constants = [node for node in graph_order(main) if isinstance(node, Constant)]
        named = {c: Var(f"p{at}", c.checked_type) for at, c in enumerate(constants)}
        body = _Replace(named).visit(main.body)
        function = Function([*main.params, *named.values()], body, main.ret_type, main.type_params, main.attrs)
        return Source(tvm.IRModule({"main": function}), {}, self.plan, self.executor)

    def nodes(self, devices: Sequence[tvm.runtime.Device]) -> tuple[Function, list[Node]]:
        """Return the function of the graph, and its nodes that compute, each by itself on a device."""
        main = transform.typed(self.fused())["main"]
        calls = [node for node in graph_order(main) if isinstance(node, Call)]
        names: dict[Any, str] = {}
        module = tvm.IRModule({})
        for call in calls:
            callee = call.op if isinstance(call.op, Function) else call
            if callee not in names:
                names[callee] = "main" if not names else f"node{len(names)}"
                module[names[callee]] = _alone(call)
        if not calls:
            return main, []
        machine = VirtualMachine(compile(module, self.plan), list(devices) or "cpu")
        return main, [
            Node(c, tuple(c.args), _of(machine, names[c.op if isinstance(c.op, Function) else c])) for c in calls
        ]


def _of(machine: VirtualMachine, name: str) -> Callable[..., Any]:
    return lambda *values: machine.invoke(name, *values)


def _alone(call: Call) -> Function:
    """Return a call as a function of its arguments."""
    params = [Var(f"x{at}", argument.checked_type) for at, argument in enumerate(call.args)]
    return Function(params, Call(call.op, params, call.attrs))


class _Replace(ExprMutator):
    """Puts variables in the place of constants of the graph; those inside kernels stay."""

    def __init__(self, by: Mapping[Any, Var]) -> None:
        super().__init__()
        self.by = by

    def visit_constant(self, const: Constant) -> RelayExpr:
        return self.by.get(const, const)

    def visit_function(self, fn: Function) -> RelayExpr:
        return fn


def value_of(expr: RelayExpr, known: dict[Any, Any]) -> Any:  # noqa: ANN401 - tensors, and tuples of values
    """Return the value of a tuple, of a field of one, or of what has been computed."""
    match expr:
        case Tuple():
            return tuple(value_of(part, known) for part in expr.fields)
        case TupleGetItem():
            return value_of(expr.tuple_value, known)[expr.index]
        case Constant():
            return expr.data
    return known[expr]
