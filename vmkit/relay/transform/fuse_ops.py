"""Operators that can be one kernel become a function of their own, marked ``Primitive``.

vmkit's compiler fuses later, in Relax, and does not run this pass; scripts run it to see or to shape what belongs
together. A module with such functions compiles: see :func:`DefuseOps`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import tvm
from tvm.tirx import IntImm

from ..._dataclasses import dataclass
from ..analysis.forward_graph import is_fused_or_external
from ..analysis.fusion_groups import FusionGroup, FusionLimits, fusion_groups
from ..analysis.infer_type import typed
from ..expr_functor import ExprMutator
from ..ir import Call, Constant, Function, Op, RelayExpr, Tuple, TupleGetItem, Type, Var, is_call, post_order
from ..pass_options import relay_option
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["FuseOps", "fused"]

_MOST_OPERATORS = 256

# Operators that give their operand another shape and move nothing.
_RESHAPES = (
    "contrib_reverse_reshape",
    "dyn.expand_dims",
    "dyn.reshape",
    "dyn.squeeze",
    "expand_dims",
    "nn.batch_flatten",
    "reshape",
    "reshape_like",
    "squeeze",
)
# What is written as an operator and computes nothing: marks, and orders to the virtual machine.
_MARKS = ("annotation.", "memory.", "vm.", "on_device", "call_lowered")


@relay_pass(opt_level=0)
def FuseOps(fuse_opt_level: int = -1, link_params: bool | None = None) -> ModuleTransform:
    """Return the pass that makes functions of operators which can be one kernel; see :func:`fused`.

    Parameters
    ----------
    fuse_opt_level : int
        0 makes each operator a function of its own, 1 and above fuse; -1 takes the level of the ``PassContext``.
    link_params : bool, optional
        Whether constants become a part of the functions; otherwise, scalars apart, they are arguments. By default
        what the option ``relay.FuseOps.link_params`` of the ``PassContext`` says, or the module's executor, or False.

    Notes
    -----
    The option ``relay.FuseOps.max_depth`` of the ``PassContext`` is the greatest number of operators in a function, and
    the attribute ``max_function_args`` of the target in scope the greatest number of arguments.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        context = tvm.transform.PassContext.current()
        level = int(context.opt_level) if fuse_opt_level == -1 else fuse_opt_level
        linked = _links_params(mod) if link_params is None else link_params
        limits = FusionLimits(int(context.config.get("relax.FuseOps.max_depth", _MOST_OPERATORS)), _most_arguments())
        return on_functions(typed(mod), lambda function: fused(function, level, limits, linked))

    return on_module


def _links_params(mod: tvm.IRModule) -> bool:
    executor = mod.attrs.get("executor") if mod.attrs else None
    options = getattr(executor, "attrs", None) or {}
    return bool(relay_option("relay.FuseOps.link_params", bool(options.get("link-params", False))))


def _most_arguments() -> int:
    target = tvm.target.Target.current(allow_none=True)
    return 0 if target is None else int(target.attrs.get("max_function_args", 0))


def fused(function: Function, opt_level: int, limits: FusionLimits, link_params: bool = False) -> Function:
    """Return a typed function whose operators are calls of ``Primitive`` functions, each of what can be one kernel.

    Parameters
    ----------
    function : Function
        The function.
    opt_level : int
        At 0 each operator is a function of its own.
    limits : FusionLimits
        How large a function may become.
    link_params : bool
        Whether constants become a part of the functions.
    """
    made = _Fusion(fusion_groups(function, opt_level, limits), link_params).visit(function)
    assert isinstance(made, Function)
    return made


@dataclass
class _Arguments:
    """The parameters of a function that is being made, and what each stands for."""

    params: dict[Any, Var] = field(default_factory=dict)

    def param(self, value: RelayExpr, ty: Type) -> Var:
        return self.params.setdefault(value, Var(f"p{len(self.params)}", ty))


class _Fusion(ExprMutator):
    def __init__(self, groups: dict[RelayExpr, FusionGroup], link_params: bool) -> None:
        super().__init__()
        self.groups = groups
        self.link_params = link_params
        self.arguments: dict[FusionGroup, _Arguments] = {}

    def visit_function(self, fn: Function) -> RelayExpr:
        return fn if is_fused_or_external(fn) else super().visit_function(fn)

    def visit_call(self, call: Call) -> RelayExpr:
        if is_call(call, "annotation.stop_fusion"):
            return self.visit(call.args[0])
        if not isinstance(call.op, Op) or call.op.name.startswith(_MARKS):
            return super().visit_call(call)
        group = self.groups[call]
        made = Call(call.op, self.operands(call.args, group), call.attrs, list(call.type_args), call.span)
        return self.called(group, made, call) if group.root.same_as(call) else made

    def visit_tuple(self, tup: Tuple) -> RelayExpr:
        group = self.groups[tup]
        if group.root.same_as(tup):
            return super().visit_tuple(tup)
        return Tuple(self.operands(tup.fields, group), tup.span)

    def visit_tuple_getitem(self, item: TupleGetItem) -> RelayExpr:
        group = self.groups[item]
        if group.root.same_as(item) and self.groups.get(item.tuple_value) is not group:
            return super().visit_tuple_getitem(item)
        made = TupleGetItem(self.operands([item.tuple_value], group)[0], item.index, item.span)
        return self.called(group, made, item) if group.root.same_as(item) else made

    def operands(self, operands: Iterable[RelayExpr], group: FusionGroup) -> list[RelayExpr]:
        """Return operands of a node of a group: what is not in the group is a parameter of its function."""
        made: list[RelayExpr] = []
        for operand in operands:
            value = self.visit(operand)
            if self.groups.get(operand) is group or (self.link_params and isinstance(value, Constant)):
                made.append(value)
            else:
                made.append(self.arguments.setdefault(group, _Arguments()).param(value, operand.checked_type))
        return made

    def called(self, group: FusionGroup, body: RelayExpr, original: RelayExpr) -> Call:
        """Return the call of a group's function."""
        arguments = self.arguments.get(group, _Arguments())
        has_call = any(isinstance(node, Call) for node in post_order(body))
        attrs = {"Primitive": IntImm("int32", int(has_call))}
        if has_call and _only_reshapes(body):
            attrs["relay.reshape_only"] = IntImm("int32", 1)
        function = Function(list(arguments.params.values()), body, original.checked_type, [], attrs)
        return Call(function, list(arguments.params))


def _only_reshapes(body: RelayExpr) -> bool:
    nodes = [node for node in post_order(body) if not isinstance(node, Var | Op)]
    return all(is_call(node, *_RESHAPES) for node in nodes)
