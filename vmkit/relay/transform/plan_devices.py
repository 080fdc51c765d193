"""Every value gets a device, and is copied where it goes from one to another.

The result says it all: functions have the devices of parameters and results as attributes, ``device_copy`` stands
where a value goes over, and ``on_device``, of body and result, where a value is not where what it stands in is.
"""

from __future__ import annotations

from typing import Any, cast

import tvm
from tvm.target import Target

from ..._dataclasses import dataclass
from ...stack import on_deep_stack
from ...target import TargetPlan, canonical_target
from ...target.device_types import CPU, numbered_name
from ...target.plan import Targets, without_host
from ..analysis.device_plan import DevicePlan, Use, plan_devices
from ..analysis.forward_graph import is_fused_or_external
from ..analysis.infer_type import infer_module, typed
from ..ir import (
    PARAM_DEVICES,
    RESULT_DEVICE,
    Call,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    RelayExpr,
    TupleGetItem,
    Var,
    VirtualDevice,
    children,
    is_call,
    pattern_vars,
    rewrite,
    with_functions,
)
from ..ir.visit import rebuilt
from ..op.registry import entry
from .registry import ModuleTransform, relay_pass

__all__ = ["DeviceConfig", "PlanDevices", "with_fixed_results"]


_HOST = VirtualDevice(CPU, 0)


@dataclass(frozen=True)
class DeviceConfig:
    """What :func:`PlanDevices` needs to know of what is compiled for.

    Attributes
    ----------
    plan : TargetPlan
        The targets.
    default : VirtualDevice
        Where values are that nothing is said of.
    host : VirtualDevice
        Where shapes are.
    """

    plan: TargetPlan
    default: VirtualDevice
    host: VirtualDevice = _HOST

    @classmethod
    def of(cls, config: DeviceConfig | Targets | None) -> DeviceConfig:
        """Return itself, or what follows from targets.

        The default device is that of the option ``relay.fallback_device_type`` of the ``PassContext``, which is
        TVM's ``relax.fallback_device_type``, or that of the primary target.
        """
        if isinstance(config, DeviceConfig):
            return config
        plan = canonical_target(config)
        chosen = tvm.transform.PassContext.current().config.get("relax.fallback_device_type")
        target = plan.primary if chosen is None else plan.for_device(int(chosen))
        return cls(plan, VirtualDevice(*plan.devices[plan.targets.index(target)]))

    def target_of(self, place: VirtualDevice) -> Target:
        """Return the target of a device; TargetError where there is none."""
        found = self.plan.for_device(numbered_name(place.device_type, max(place.virtual_device_id, 0)))
        # A CPU is its own host: TVM compiles its kernels for that.
        bare = without_host(found)
        return Target(bare, host=bare) if place.device_type == CPU else found


@relay_pass(opt_level=0)
def PlanDevices(config: DeviceConfig | Targets | None = None) -> ModuleTransform:
    """Return the pass that finds a device for every value, and copies values where they change it.

    Parameters
    ----------
    config : optional
        What is compiled for: a :class:`DeviceConfig`, or targets in a form that
        :func:`vmkit.target.canonical_target` takes.

    Raises
    ------
    ModelError
        Where a value that cannot be copied, such as a function, is to be on two devices.
    """
    known = DeviceConfig.of(config)

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = with_fixed_results(typed(mod))
        plan = plan_devices(mod, known.default, known.host)
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and not is_fused_or_external(function):
                result[gvar] = cast("Function", on_deep_stack(_Capture(plan).visit, function))
        return infer_module(result)

    return on_module


def with_fixed_results(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a typed module in which ``on_device`` at the end of a function and of what a Let binds fixes the result.

    There a choice of the result's device leads to copies that nobody asked for. A field of a tuple on a device is
    taken before it is copied.
    """

    def fixed(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(node, TupleGetItem) and is_call(node.tuple_value, "on_device"):
            held = node.tuple_value
            return Call(held.op, [TupleGetItem(held.args[0], node.index, node.span)], held.attrs, [], held.span)
        if isinstance(node, Let):
            return Let(node.var, _fixed(node.value), node.body, node.span)
        if isinstance(node, Function) and not is_fused_or_external(node):
            return rebuilt(node, [*node.params, _fixed_end(node.body)])
        return node

    changed = {v: rewrite(f, {}, fixed) for v, f in mod.functions.items() if isinstance(f, Function)}
    return infer_module(with_functions(mod, {**dict(mod.functions.items()), **changed}))


def _fixed_end(expr: RelayExpr) -> RelayExpr:
    chain: list[Let] = []
    while isinstance(expr, Let):
        chain.append(expr)
        expr = expr.body
    result = _fixed(expr)
    for let in reversed(chain):
        result = Let(let.var, let.value, result, let.span)
    return result


def _fixed(expr: RelayExpr) -> RelayExpr:
    if not is_call(expr, "on_device") or not expr.attrs.constrain_body or expr.attrs.constrain_result:
        return expr
    return _on_device(expr.args[0], expr.attrs.virtual_device)


def _on_device(value: RelayExpr, device: VirtualDevice) -> Call:
    return entry("on_device").call(value, virtual_device=device, constrain_result=True, constrain_body=True)


def _is_same(one: VirtualDevice, other: VirtualDevice) -> bool:
    return _key(one) == _key(other)


def _key(device: VirtualDevice) -> tuple[int, int, str]:
    return device.device_type, device.virtual_device_id, device.memory_scope


class _Capture:
    """Writes what a plan says into one function."""

    def __init__(self, plan: DevicePlan) -> None:
        self.plan = plan
        self.made: dict[Any, RelayExpr] = {}

    def visit(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression with devices written into all below it."""
        if expr not in self.made:
            made = self.captured(expr)
            if expr in self.plan.made_at:
                made = _copied(made, self.plan.made_at[expr].device, self.plan.device(expr))
            self.made[expr] = made
        return self.made[expr]

    def captured(self, expr: RelayExpr) -> RelayExpr:
        uses = self.plan.uses.get(expr, [])
        if isinstance(expr, Let):
            return self.captured_lets(expr)
        if is_call(expr, "on_device"):
            # What it asked for is said of its body, and by a copy where the result is elsewhere.
            return self.placed(uses[0], self.plan.source(expr).device)
        if is_call(expr, "device_copy"):
            return self.captured_copy(expr, uses[0])
        if isinstance(expr, Function):
            return self.captured_function(expr, uses)
        around = self.plan.source(expr).device
        here = iter(self.placed(use, around) for use in uses)
        binders = _binders(expr)
        parts = [part if part in binders else next(here) for part in children(expr)]
        return rebuilt(expr, parts) if parts else expr

    def captured_lets(self, let: Let) -> RelayExpr:
        chain: list[tuple[Let, RelayExpr]] = []
        node: RelayExpr = let
        while isinstance(node, Let):
            value, body = self.plan.uses[node]
            chain.append((node, self.placed(value, None)))
            node = body.value
        result = self.placed(body, self.plan.device(let))
        for each, made in reversed(chain):
            result = Let(each.var, made, result, each.span)
        return result

    def captured_copy(self, call: Call, use: Use) -> RelayExpr:
        source, to = self.plan.device(use.value), self.plan.source(call).device
        value = self.visit(use.value)
        if _is_same(source, to):
            return value
        return _copied(value, source, to)

    def captured_function(self, function: Function, uses: list[Use]) -> RelayExpr:
        if not uses:
            return function
        result = self.plan.device(function)
        attrs = {
            **(dict(function.attrs.items()) if function.attrs else {}),
            PARAM_DEVICES: [self.plan.device(param) for param in function.params],
            RESULT_DEVICE: result,
        }
        body = self.placed(uses[0], result)
        types = list(function.type_params)
        return Function(list(function.params), body, function.ret_type, types, attrs, function.span)

    def placed(self, use: Use, around: VirtualDevice | None) -> RelayExpr:
        """Return a value where it is used, inside an expression whose result is on the device `around`."""
        value = self.visit(use.value)
        if isinstance(value, GlobalVar | Op | Constructor):
            return value
        want = use.domain.device
        is_anywhere = isinstance(use.value, Constant) and not use.is_copied
        have = want if is_anywhere else self.plan.device(use.value)
        if not _is_same(have, want):
            value = _copied(value, have, want)
        is_said = around is not None and _is_same(want, around)
        return value if is_said else _said(value, want)


def _binders(expr: RelayExpr) -> set[Any]:
    """Return the parts of an expression that no plan places: what it binds, and operators."""
    if isinstance(expr, Match):
        return {variable for clause in expr.clauses for variable in pattern_vars(clause.lhs)}
    return {expr.op} if isinstance(expr, Call) and isinstance(expr.op, Op | Constructor) else set()


def _said(value: RelayExpr, device: VirtualDevice) -> RelayExpr:
    """Return a value that says where it is, which a variable does by itself."""
    if isinstance(value, Var | GlobalVar | Function):
        return value
    if is_call(value, "on_device") and _is_same(value.attrs.virtual_device, device):
        return value
    return _on_device(value, device)


def _copied(value: RelayExpr, source: VirtualDevice, to: VirtualDevice) -> RelayExpr:
    """Return a copy of a value on another device."""
    return entry("device_copy").call(_said(value, source), src_virtual_device=source, dst_virtual_device=to)
