"""On which device each value of a program is: constraints are collected from what the program says, and solved.

An operator has its operands and result on one device, which differs from call to call; so has everything else that is
made of parts, but for the variables that Lets bind and the parameters of functions, which have devices of their own.
``on_device`` and ``device_copy`` are where values may go from one device to another. Where the program asks for two
devices at once, the value is copied at that use. What nothing says is where its function's result, the body of its Let
or, in the end, the default is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import tvm

from ..._dataclasses import dataclass
from ...errors import ModelError
from ...stack import on_deep_stack
from ..ir import (
    PARAM_DEVICES,
    RESULT_DEVICE,
    Call,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    VirtualDevice,
    is_call,
    pattern_vars,
)
from .device_domains import Conflict, Domain
from .forward_graph import is_fused_or_external

__all__ = ["DevicePlan", "Use", "plan_devices"]

# Operators whose operands are not all where the result is. For each operand: "result", "host" or "any"; then where the
# result is: "host", "said" by the attributes, or "any".
_SPECIAL: dict[str, tuple[tuple[str, ...], str]] = {
    "shape_of": (("any",), "host"),
    "vm.shape_of": (("any",), "host"),
    "vm.reshape_tensor": (("result", "host"), "any"),
    "vm.shape_func": (("any", "host", "host"), "host"),
    "memory.alloc_storage": (("host", "host", "host"), "said"),
    "memory.alloc_tensor": (("result", "host", "host"), "any"),
    "memory.kill": (("any",), "any"),
}


@dataclass(frozen=True, eq=False)
class Use:
    """A place where an expression uses another, and the domain in which it is used."""

    value: RelayExpr
    domain: Domain
    is_copied: bool = False
    """Whether the value goes from its own domain to that of the use, by a copy where they differ."""


class DevicePlan:
    """Where the values of a module are.

    Parameters
    ----------
    mod : tvm.IRModule
        The module, typed.
    default, host : VirtualDevice
        Where values are that nothing is said of, and where shapes are.
    """

    def __init__(self, mod: tvm.IRModule, default: VirtualDevice, host: VirtualDevice) -> None:
        self.mod, self.default, self.host = mod, default, host
        self.domains: dict[Any, Domain] = {}
        self.uses: dict[Any, list[Use]] = {}
        # Where a value is made that is copied to where it is used, all uses of it being there.
        self.made_at: dict[Any, Domain] = {}
        self.free: list[Call] = []
        self.where = ""

    def device(self, expr: RelayExpr) -> VirtualDevice:
        """Return where the value of an expression is."""
        return self.domain(expr).device

    def domain(self, expr: RelayExpr) -> Domain:
        """Return the domain of an expression."""
        found = self.domains.get(expr)
        if found is None:
            ty = expr.checked_type if not isinstance(expr, GlobalVar) else self.mod[expr].checked_type
            found = self.domains[expr] = Domain(ty)
        return found

    # -- collecting constraints

    def solve(self) -> None:
        """Find the devices of all expressions."""
        functions = {v: f for v, f in self.mod.functions.items() if isinstance(f, Function)}
        for gvar, function in functions.items():
            self.where = f"@{gvar.name_hint}"
            self.agree(function, self.domain(gvar), self.domain(function))
            self.declare(function)
        for gvar, function in functions.items():
            self.where = f"@{gvar.name_hint}"
            self.visit(function)
        for call in self.free:
            # on_device that constrains neither side allows a copy, and asks for none.
            with suppress(Conflict):
                self.domain(call.args[0]).unify(self.source(call))
        for function in functions.values():
            if not is_fused_or_external(function):
                self.default_below(function)

    def visit(self, expr: RelayExpr) -> None:
        """Collect the constraints of an expression and of all below it, each once: its own before those below."""
        if expr in self.uses or isinstance(expr, Op | Constructor | GlobalVar | Var | Constant):
            return
        self.uses[expr] = []
        self.uses[expr] = [self.flow(expr, use) for use in self.used_by(expr)]
        for use in self.uses[expr]:
            self.visit(use.value)

    def flow(self, user: RelayExpr, use: Use) -> Use:
        """Bring a value to where it is used: it is there, or has to be copied."""
        own = self.domain(use.value)
        # A constant is wherever it is used, which may be in several places.
        if use.is_copied or isinstance(use.value, Constant):
            return use
        try:
            own.unify(use.domain)
        except Conflict as conflict:
            if not is_copyable(use.value.checked_type):
                raise self.error(user, conflict) from None
            return Use(use.value, use.domain, is_copied=True)
        return use

    def source(self, expr: RelayExpr) -> Domain:
        """Return the domain in which the value of an expression is made."""
        return self.made_at.get(expr) or self.domain(expr)

    def made_in(self, expr: RelayExpr, domain: Domain) -> None:
        """Let the value of an expression be made in a domain: it is used there, or has to be copied."""
        try:
            domain.unify(self.domain(expr))
        except Conflict as conflict:
            if not is_copyable(expr.checked_type):
                raise self.error(expr, conflict) from None
            self.made_at[expr] = domain

    def agree(self, expr: RelayExpr, *domains: Domain) -> None:
        """Let domains be one."""
        for each in domains[1:]:
            try:
                domains[0].unify(each)
            except Conflict as conflict:
                raise self.error(expr, conflict) from None

    def error(self, expr: RelayExpr, conflict: Conflict) -> ModelError:
        text = str(expr)
        shown = text if len(text) <= 120 else f"{text[:117]}..."
        return ModelError(
            f"in {self.where}: a value is to be on {conflict} at once, and cannot be copied from one to the other: "
            f"{shown}; say with on_device where it is, or copy what it is made of"
        )

    def used_by(self, expr: RelayExpr) -> Iterator[Use]:
        """Yield the uses of an expression, having put the domains together that its form says are one."""
        own = self.domain(expr)
        match expr:
            case Call(op=Op()):
                yield from self.used_by_operator(expr)
            case Call(op=Constructor()):
                yield from (Use(arg, own) for arg in expr.args)
            case Call():
                yield from self.used_by_call(expr)
            case Tuple():
                yield from (Use(field, own) for field in expr.fields)
            case TupleGetItem():
                yield Use(expr.tuple_value, own)
            case If():
                yield from (Use(part, own) for part in (expr.cond, expr.true_branch, expr.false_branch))
            case Let():
                self.agree(expr, self.domain(expr.var), self.domain(expr.value))
                yield Use(expr.value, self.domain(expr.var))
                yield Use(expr.body, own)
            case Match():
                for clause in expr.clauses:
                    self.agree(expr, own, *(self.domain(v) for v in pattern_vars(clause.lhs)))
                yield Use(expr.data, own)
                yield from (Use(clause.rhs, own) for clause in expr.clauses)
            case RefCreate():
                yield Use(expr.value, own)
            case RefRead():
                yield Use(expr.ref, own)
            case RefWrite():
                yield Use(expr.ref, own)
                yield Use(expr.value, own)
            case Function():
                yield from self.used_by_function(expr)

    def used_by_function(self, function: Function) -> Iterator[Use]:
        result = self.declare(function)
        if not is_fused_or_external(function):
            yield Use(function.body, result)

    def declare(self, function: Function) -> Domain:
        """Put a function's parameters and result where its attributes say; return the domain of the result."""
        domain = self.domain(function).root
        assert domain.result is not None
        for param, cell, place in zip(function.params, domain.params, param_devices(function), strict=True):
            self.agree(function, self.domain(param), cell)
            self.put(function, cell, place)
        self.put(function, domain, result_device(function))
        return domain.result

    def used_by_call(self, call: Call) -> Iterator[Use]:
        self.visit(call.op)
        domain = self.domain(call.op).root
        if domain.result is None:
            raise ModelError(f"in {self.where}: what is called is no function: {call.op}")
        self.made_in(call, domain.result)
        yield Use(call.op, domain)
        yield from (Use(arg, cell) for arg, cell in zip(call.args, domain.params, strict=True))

    def used_by_operator(self, call: Call) -> Iterator[Use]:
        own = self.domain(call)
        if is_call(call, "on_device"):
            yield self.used_by_on_device(call)
        elif is_call(call, "device_copy"):
            source, to = call.attrs.src_virtual_device, call.attrs.dst_virtual_device
            self.made_in(call, Domain.at(placed(to)))
            self.put(call, self.domain(call.args[0]), source)
            yield Use(call.args[0], self.source(call), is_copied=True)
        elif call.op.name in _SPECIAL:
            operands, result = _SPECIAL[call.op.name]
            places = {"host": self.host, "said": getattr(call.attrs, "virtual_device", None), "any": None}
            place = places[result]
            if place is not None:
                self.made_in(call, Domain.at(placed(place)))
            for arg, where in zip(call.args, operands, strict=True):
                yield Use(
                    arg, {"result": self.source(call), "host": Domain.at(self.host)}.get(where) or self.domain(arg)
                )
        else:
            yield from (Use(arg, own) for arg in call.args)

    def used_by_on_device(self, call: Call) -> Use:
        body, attrs = call.args[0], call.attrs
        is_plain = is_copyable(body.checked_type)
        if attrs.constrain_result:
            self.made_in(call, self.on(call, attrs.virtual_device))
        if attrs.constrain_body:
            try:
                self.domain(body).put(placed(attrs.virtual_device))
            except Conflict as conflict:
                if not is_plain:
                    raise self.error(call, conflict) from None
                # It is elsewhere already: the copy is on the device, and so is the result.
                self.made_in(call, self.on(call, attrs.virtual_device))
        elif is_plain:
            self.free.append(call)
        return Use(body, self.source(call), is_copied=is_plain)

    def on(self, expr: RelayExpr, place: VirtualDevice) -> Domain:
        """Return the domain of a value of an expression's type whose result is on a device."""
        made = Domain(expr.checked_type)
        made.put(placed(place))
        return made

    def put(self, expr: RelayExpr, domain: Domain, place: VirtualDevice) -> None:
        """Let a value be where an expression says."""
        try:
            domain.put(placed(place))
        except Conflict as conflict:
            raise self.error(expr, conflict) from None

    # -- what nothing is said of

    def default_below(self, function: Function) -> None:
        """Place what is free in a function, from the outside in."""
        domain = self.domain(function).root
        waiting: list[RelayExpr] = [function]
        seen: set[Any] = set()
        while waiting:
            expr = waiting.pop()
            if expr in seen or isinstance(expr, Op | Constructor):
                continue
            seen.add(expr)
            domain = self.domain(expr)
            if isinstance(expr, Function):
                root = domain.root
                assert root.result is not None
                root.result.default(self.default)
                for param in root.params:
                    param.default(root.result.device)
            domain.default(self.default)
            if isinstance(expr, Let):
                self.domain(expr.var).default(domain.device)
            waiting += [use.value for use in reversed(self.uses.get(expr, ()))]


def placed(place: VirtualDevice) -> VirtualDevice:
    """Return a device that a program names with its number: 0 where none is said."""
    if place.is_constrained and place.virtual_device_id < 0:
        return VirtualDevice(place.device_type, 0, place.memory_scope)
    return place


def is_copyable(ty: Type) -> bool:
    """Say whether values of a type can be copied from one device to another: tensors and tuples of them."""
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(is_copyable, ty.fields)))


def param_devices(function: Function) -> list[VirtualDevice]:
    """Return where the parameters of a function are said to be."""
    found = function.attrs.get(PARAM_DEVICES) if function.attrs else None
    return [VirtualDevice(-1, -1)] * len(function.params) if found is None else list(found)


def result_device(function: Function) -> VirtualDevice:
    """Return where the result of a function is said to be."""
    found = function.attrs.get(RESULT_DEVICE) if function.attrs else None
    return VirtualDevice(-1, -1) if found is None else found


def plan_devices(mod: tvm.IRModule, default: VirtualDevice, host: VirtualDevice) -> DevicePlan:
    """Return where the values of a typed module are; see :class:`DevicePlan`.

    Raises
    ------
    ModelError
        Where a value that cannot be copied, such as a function, is to be on two devices.
    """
    plan = DevicePlan(mod, default, host)
    on_deep_stack(plan.solve)
    return plan
