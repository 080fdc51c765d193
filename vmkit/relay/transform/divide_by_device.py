"""A planned program is divided: what other devices compute becomes functions that are compiled for these.

Control flow, calls of functions, copies between devices and what the first device computes stay where they are. In
each scope, operators on another device that can be computed one after the other become one function, a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ..._dataclasses import dataclass
from ...errors import CompileError
from ...stack import on_deep_stack
from ..analysis.device_plan import DevicePlan, is_copyable, plan_devices
from ..analysis.forward_graph import is_fused_or_external
from ..analysis.infer_type import infer_module
from ..expr_functor import ExprMutator
from ..ir import (
    DEVICE_PART,
    PARAM_DEVICES,
    RESULT_DEVICE,
    Call,
    Clause,
    Constant,
    Function,
    If,
    Let,
    Match,
    Op,
    RelayExpr,
    Tuple,
    TupleGetItem,
    Var,
    VirtualDevice,
    free_vars,
    is_call,
    post_order,
    rewrite,
    with_functions,
)
from ..op.registry import entry
from .a_normal_form import ToANormalForm
from .defuse_ops import DefuseOps
from .plan_devices import DeviceConfig, PlanDevices

__all__ = ["DevicePart", "divided", "names_other_devices", "require_default_device"]


@dataclass(frozen=True)
class DevicePart:
    """What one device computes at a stretch.

    Attributes
    ----------
    name : str
        By which the program calls it.
    device : VirtualDevice
        Where it is computed, and where its arguments and results are.
    function : Function
        What it computes.
    """

    name: str
    device: VirtualDevice
    function: Function


def names_other_devices(mod: tvm.IRModule, default: VirtualDevice) -> bool:
    """Say whether a program places anything on another device than the default one."""
    for function in mod.functions.values():
        if not isinstance(function, Function):
            continue
        for node in post_order(function):
            if any(place.is_constrained and not _is_on(place, default) for place in _said_by(node)):
                return True
    return False


def require_default_device(mod: tvm.IRModule, default: VirtualDevice) -> None:
    """Raise CompileError if a function's attributes place something on another device than the only one.

    What ``on_device`` and ``device_copy`` say is looked at where they are lowered.
    """
    for gvar, function in mod.functions.items():
        if not isinstance(function, Function):
            continue
        for node in post_order(function):
            places = _said_by(node) if isinstance(node, Function) else ()
            other = next((place for place in places if place.is_constrained and not _is_on(place, default)), None)
            if other is not None:
                raise CompileError(
                    f"a parameter or the result of @{gvar.name_hint}, or of a function in it, is to be on {other}, but "
                    f"the program is compiled for {default} alone: compile for a dictionary of targets, or take the "
                    f"attributes {PARAM_DEVICES} and {RESULT_DEVICE} away"
                )


def _said_by(node: RelayExpr) -> Iterator[VirtualDevice]:
    if is_call(node, "on_device"):
        yield node.attrs.virtual_device
    elif is_call(node, "device_copy"):
        yield from (node.attrs.src_virtual_device, node.attrs.dst_virtual_device)
    elif isinstance(node, Function) and node.attrs:
        yield from node.attrs.get(PARAM_DEVICES) or ()
        if (result := node.attrs.get(RESULT_DEVICE)) is not None:
            yield result


def _is_on(place: VirtualDevice, device: VirtualDevice) -> bool:
    return place.device_type == device.device_type and max(place.virtual_device_id, 0) == device.virtual_device_id


def divided(mod: tvm.IRModule, config: DeviceConfig) -> tuple[tvm.IRModule, list[DevicePart]]:
    """Return a typed module as what the default device runs, which calls parts, and the parts.

    Raises
    ------
    ModelError
        Where a value is to be on two devices and cannot be copied.
    CompileError
        Where a device has no target, or is to run what is compiled for the default device alone.
    """
    for each in (DefuseOps(), PlanDevices(config), ToANormalForm()):
        mod = each(mod)
    mod = infer_module(with_functions(mod, {v: _with_plain_constants(f) for v, f in mod.functions.items()}))
    plan = plan_devices(mod, config.default, config.host)
    called = {node for f in mod.functions.values() for node in post_order(f) if isinstance(node, GlobalVar)}
    parts: list[DevicePart] = []
    result = with_functions(mod)
    for gvar, function in mod.functions.items():
        if isinstance(function, Function) and not is_fused_or_external(function):
            dividing = _Dividing(plan, config, result, parts)
            is_entry = gvar not in called or gvar.name_hint == "main"
            result[gvar] = on_deep_stack(dividing.function, function, is_entry)
    return infer_module(result), parts


def _with_plain_constants(function: tvm.ir.BaseFunc) -> tvm.ir.BaseFunc:
    """Return a function whose constants stand where they are used, so that each use has its own device."""
    if not isinstance(function, Function) or is_fused_or_external(function):
        return function
    return cast("Function", _WithPlainConstants().visit(function))


class _WithPlainConstants(ExprMutator):
    def visit_let(self, let: Let) -> RelayExpr:
        if not isinstance(let.value, Constant):
            return super().visit_let(let)
        self.memo_map[let.var] = let.value
        return self.visit(let.body)


@dataclass
class _Stretch:
    """Bindings of one device that follow each other."""

    device: VirtualDevice
    bindings: list[tuple[Var, RelayExpr]] = field(default_factory=list)


class _Dividing:
    def __init__(self, plan: DevicePlan, config: DeviceConfig, mod: tvm.IRModule, parts: list[DevicePart]) -> None:
        self.plan, self.config, self.mod, self.parts = plan, config, mod, parts
        # What stands for a variable: another, or a constant.
        self.names: dict[Any, RelayExpr] = {}

    def function(self, function: Function, is_entry: bool = False) -> Function:
        """Return a function in which other devices' operators are calls of parts."""
        params, body = list(function.params), function.body
        copies: list[tuple[Var, RelayExpr]] = []
        if is_entry:
            # Who calls from outside gives everything on the first device.
            for at, param in enumerate(params):
                device = self.plan.device(param)
                if not self.is_here(device) and is_copyable(param.checked_type):
                    params[at] = Var(param.name_hint, param.checked_type)
                    copies.append((param, _moved(params[at], self.config.default, device)))
        made = _bound(copies, self.scope(body))
        attrs = {k: v for k, v in function.attrs.items() if k not in (PARAM_DEVICES, RESULT_DEVICE)}
        return Function(params, made, function.ret_type, list(function.type_params), attrs, function.span)

    def is_here(self, device: VirtualDevice) -> bool:
        return _is_on(device, self.config.default)

    def scope(self, expr: RelayExpr) -> RelayExpr:
        """Return an expression in A-normal form divided, its Lets in an order with few changes of the device."""
        chain: list[tuple[Var, RelayExpr]] = []
        while isinstance(expr, Let):
            chain.append((expr.var, expr.value))
            expr = expr.body
        stretches: list[_Stretch] = []
        waiting: list[tuple[Var, RelayExpr, VirtualDevice]] = []
        for variable, value in chain:
            if self.is_name(variable, value):
                continue
            original, value = value, self.renamed(value)
            if _is_movable(value):
                waiting.append((variable, value, self.device_of(variable, value)))
                continue
            stretches += _ordered(waiting, self.config.default)
            waiting = []
            copies: list[tuple[Var, RelayExpr]] = []
            made = self.within(self.with_constants(original, value, copies))
            stretches.append(_Stretch(self.device_of(variable, value), [*copies, (variable, made)]))
        stretches += _ordered(waiting, self.config.default)
        result = self.within(self.renamed(expr))
        return self.joined(stretches, result)

    def with_constants(self, original: RelayExpr, value: RelayExpr, copies: list[tuple[Var, RelayExpr]]) -> RelayExpr:
        """Return a value of whose operands the constants are where they are used; their `copies` are added to."""
        moved: dict[Any, RelayExpr] = {}
        for use in self.plan.uses.get(original, ()):
            device = use.domain.device
            if isinstance(use.value, Constant) and not self.is_here(device):
                copy = moved[use.value] = Var("copied")
                copies.append((copy, _moved(use.value, self.config.default, device)))
        return rewrite(value, moved) if moved and not isinstance(value, If | Match | Function) else value

    def is_name(self, variable: Var, value: RelayExpr) -> bool:
        """Note what a variable stands for, and say whether it does for no value of its own."""
        if is_call(value, "on_device"):
            value = value.args[0]
        is_said = isinstance(value, Var) or (isinstance(value, Constant) and self.is_here(self.plan.device(variable)))
        if is_said:
            self.names[variable] = self.names.get(value, value)
        return is_said

    def renamed(self, value: RelayExpr) -> RelayExpr:
        if is_call(value, "on_device"):
            value = value.args[0]
        if isinstance(value, If | Match | Function):
            return value  # what is inside is renamed when it is divided
        return rewrite(value, self.names)

    def device_of(self, variable: Var, value: RelayExpr) -> VirtualDevice:
        """Return the device that computes a value: the first runs what is no operator."""
        if isinstance(value, Constant | Tuple | TupleGetItem):
            return self.plan.device(variable) if is_copyable(variable.checked_type) else self.config.default
        if not isinstance(value, Call) or not isinstance(value.op, Op) or is_call(value, "device_copy"):
            return self.config.default
        if is_call(value, "shape_of", "vm.shape_of"):
            return self.config.default
        device = self.plan.device(variable)
        if not self.is_here(device) and entry(value.op).has_effect:
            raise CompileError(
                f"{value.op.name} changes a value in place, which {self.config.default} alone does in a program on "
                f"several devices; it is to run on {device}: take it off with on_device"
            )
        return device

    def within(self, value: RelayExpr) -> RelayExpr:
        """Return a value with the scopes inside it divided."""
        match value:
            case If():
                cond = self.names.get(value.cond, value.cond)
                return If(cond, self.scope(value.true_branch), self.scope(value.false_branch), value.span)
            case Match():
                clauses = [Clause(c.lhs, self.scope(c.rhs)) for c in value.clauses]
                return Match(self.names.get(value.data, value.data), clauses, value.complete, value.span)
            case Function() if not is_fused_or_external(value):
                return self.function(value)
        return value

    def joined(self, stretches: Sequence[_Stretch], result: RelayExpr) -> RelayExpr:
        """Return stretches as Lets around a result, those of other devices as calls of parts."""
        needed = set(free_vars(result))
        bindings: list[tuple[Var, RelayExpr]] = []
        for stretch in reversed(stretches):
            made = stretch.bindings if self.is_here(stretch.device) else self.called(stretch, needed)
            needed |= {v for _, value in made for v in free_vars(value)}
            bindings = [*made, *bindings]
        return _bound(bindings, result)

    def called(self, stretch: _Stretch, needed: Iterable[Var]) -> list[tuple[Var, RelayExpr]]:
        """Return the bindings of a stretch as a call of a part, of which the variables are fields."""
        outputs = [variable for variable, _ in stretch.bindings if variable in needed]
        if not outputs:
            return []
        body = _bound(stretch.bindings, outputs[0] if len(outputs) == 1 else Tuple(outputs))
        inputs = free_vars(body)
        own = {v: Var(v.name_hint, v.checked_type) for v in inputs}
        number = len(self.parts)
        name = f"vmkit.part{number}_on_{str(stretch.device).replace(':', '')}"
        function = Function(list(own.values()), rewrite(body, cast("dict[Any, RelayExpr]", own)))
        self.parts.append(DevicePart(name, stretch.device, function))
        place = GlobalVar(f"part{number}")
        attrs = {DEVICE_PART: name, "SkipOptimization": 1}
        self.mod[place] = Function(function.params, function.body, None, [], attrs)
        call = Call(place, inputs)
        if len(outputs) == 1:
            return [(outputs[0], call)]
        made = Var("made")
        return [(made, call), *((v, TupleGetItem(made, i)) for i, v in enumerate(outputs))]


def _is_movable(value: RelayExpr) -> bool:
    """Say whether it does not matter when, among its neighbours, a value is computed."""
    if isinstance(value, Constant | Tuple | TupleGetItem) or is_call(value, "device_copy"):
        return True
    return isinstance(value, Call) and isinstance(value.op, Op) and entry(value.op).is_pure


def _ordered(waiting: list[tuple[Var, RelayExpr, VirtualDevice]], first: VirtualDevice) -> Iterator[_Stretch]:
    """Yield bindings in stretches, each of all that its device can compute by then."""
    left = list(waiting)
    device = first
    while left:
        unbound = {variable for variable, _, _ in left}
        stretch, later = _Stretch(device), []
        for variable, value, where in left:
            if _is_on(where, device) and unbound.isdisjoint(free_vars(value)):
                stretch.bindings.append((variable, value))
                unbound.remove(variable)
            else:
                later.append((variable, value, where))
        if stretch.bindings:
            yield stretch
        left = later
        ready = (where for _, value, where in left if unbound.isdisjoint(free_vars(value)))
        device = next(ready, first)


def _moved(value: RelayExpr, source: VirtualDevice, to: VirtualDevice) -> Call:
    return entry("device_copy").call(value, src_virtual_device=source, dst_virtual_device=to)


def _bound(bindings: Sequence[tuple[Var, RelayExpr]], body: RelayExpr) -> RelayExpr:
    for variable, value in reversed(bindings):
        body = Let(variable, value, body)
    return body
