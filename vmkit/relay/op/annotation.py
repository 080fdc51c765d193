"""Annotations: the value as it is, with a word to the compiler about it.

``stop_fusion`` is heard here: no kernel reaches across it. ``on_device`` and ``device_copy`` are followed where a
program is compiled for several devices (see :func:`.plan_devices.PlanDevices`); where it is compiled for one, they are
checked, and a value that is to be on another is refused. The others spoke to passes of Relay
for training, code generators and hardware, and mean nothing more when a program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm
from tvm import relax, te

from ...errors import CompileError, TypeCheckError
from ...target.device_types import device_name
from ..ir import VirtualDevice
from ..ir.expr import Expr
from ..ir.types import Type
from .attrs import Attrs, Bool, DType, Int, Placement, Str, attrs_node, field
from .fields import REQUIRED
from .registry import OpPattern, Parameters, entry, namespace, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["compiler_begin", "compiler_end", "on_device", "stop_fusion"]

_operator, _operator_names = namespace("annotation.")


def __getattr__(name: str) -> Callable[..., Expr]:
    return _operator(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_operator_names()})


@attrs_node("relay.attrs.CastHintAttrs")
class CastHintAttrs(Attrs):
    """Attributes of annotation.cast_hint."""

    dtype: DType


@attrs_node("relay.attrs.CompilerAttrs")
class CompilerAttrs(Attrs):
    """Attributes of annotation.compiler_begin and annotation.compiler_end."""

    compiler: Str


@attrs_node("relay.attrs.WithFuncIdAttrs")
class WithFuncIdAttrs(Attrs):
    """Attributes of annotation.with_funcid."""

    fid: Int = -1


@attrs_node("relay.attrs.OnDeviceAttrs")
class OnDeviceAttrs(Attrs):
    """Attributes of on_device."""

    virtual_device: Placement | None = field(
        None, script=REQUIRED, doc="A device by name, tvm.device or VirtualDevice."
    )
    constrain_result: Bool = field(False, doc="Whether the value is to be on the device.")
    constrain_body: Bool = field(True, doc="Whether the expression is to be evaluated there.")


@attrs_node("relay.attrs.DeviceCopyAttrs")
class DeviceCopyAttrs(Attrs):
    """Attributes of device_copy."""

    src_virtual_device: Placement = field(doc="Where the value is.")
    dst_virtual_device: Placement = field(doc="Where it is to be.")


@attrs_node("relay.attrs.DebugAttrs")
class DebugAttrs(Attrs):
    """Attributes of debug: the name of a function that Relay's interpreter called."""

    debug_func: Str | None = field(None, doc="No function: there is no interpreter to stop.")


def _same(attrs: Attrs | None, data: Type) -> Type:
    return data


def _value(context: LowerContext, attrs: Attrs | None, data: Value) -> Value:
    return data


def _mark(name: str, attrs: type[Attrs] | None, doc: str) -> None:
    """Register an annotation that means nothing when a program runs."""
    body = {"__doc__": doc, "relation": staticmethod(_same), "lower": staticmethod(_value)}
    operator(name, "data", attrs=attrs, level=10)(type(name, (), body))


_mark("annotation.checkpoint", None, "The value; training computes it anew in the backward pass.")
_mark("annotation.bitpack_start", None, "The value; packing of bits begins here.")
_mark("annotation.bitpack_end", None, "The value; packing of bits ends here.")
_mark("annotation.cast_hint", CastHintAttrs, "The value; quantisation may cast it to dtype.")
_mark("annotation.with_funcid", WithFuncIdAttrs, "The value; partial evaluation knows it as function fid.")
_mark("annotation.compiler_begin", CompilerAttrs, "The value; it enters a region for another code generator.")
_mark("annotation.compiler_end", CompilerAttrs, "The value; it leaves a region for another code generator.")


@operator("annotation.stop_fusion", "data", level=10, pattern=OpPattern.OPAQUE)
class StopFusion:
    """The value, computed before what follows: kernels are not fused across."""

    relation = staticmethod(_same)

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: Value) -> Value:
        if isinstance(data, tuple):
            return tuple(StopFusion.lower(context, attrs, field) for field in data)
        return context.te(lambda x: te.compute(x.shape, lambda *i: x(*i), name="stop_fusion"), data)


_ORDINARY_MEMORY = ("", "global")


def _require_here(context: LowerContext, *places: VirtualDevice | None) -> None:
    """Check that a program that is compiled for one device has its values there."""
    for place in places:
        if place is not None and place.memory_scope not in _ORDINARY_MEMORY:
            raise CompileError(
                f"{context.operator} names the memory {place.memory_scope!r}: programs use the ordinary memory of "
                "their device alone; take the annotation out"
            )
        if place is None or not place.is_constrained or context.device is None:
            continue
        if place.device_type != context.device or place.virtual_device_id > 0:
            raise CompileError(
                f"{context.operator} names {place}, but the program is compiled for {device_name(context.device)}: "
                "all of a program runs on one device; take the annotation out, or compile for the device that it names"
            )


def _on_device(context: LowerContext, attrs: OnDeviceAttrs, data: Value) -> Value:
    _require_here(context, attrs.virtual_device)
    return data


def _device_copy(context: LowerContext, attrs: DeviceCopyAttrs, data: Value) -> Value:
    if context.device is None:
        return _moved(context, attrs.dst_virtual_device, data)
    _require_here(context, attrs.src_virtual_device, attrs.dst_virtual_device)
    return data


def _moved(context: LowerContext, place: VirtualDevice, data: Value) -> Value:
    """Return a tensor, or a tuple of them, copied to a device."""
    if isinstance(data, tuple):
        return tuple(_moved(context, place, field) for field in data)
    if isinstance(data.ty, relax.TupleType):
        return _moved(context, place, context.fields(data))
    where = [relax.prim_value(place.device_type), relax.prim_value(max(place.virtual_device_id, 0))]
    return context.emit(relax.op.call_pure_packed("vm.builtin.to_device", data, *where, ty_args=[data.ty]))


# What a device is given as; anything else is refused with the attribute's name.
Given: TypeAlias = tvm.runtime.Device | VirtualDevice | str


def _device(given: Given) -> Given:
    """Return a device that is given by its name; TargetError, a ValueError as in Relay, where there is none."""
    return VirtualDevice.of(given) if isinstance(given, str) else given


@operator(
    "on_device",
    "data",
    attrs=OnDeviceAttrs,
    level=10,
    pure=False,
    parameters=Parameters(
        "body device constrain_result constrain_body", renamed={"body": "data", "device": "virtual_device"}
    ),
)
class OnDevice:
    """The value, evaluated on a device: one of those for which the program is compiled.

    Where neither the result nor the body is to be there, any device will do.
    """

    @staticmethod
    def make(body: Expr, device: Given, constrain_result: bool, constrain_body: bool) -> Expr:
        constraints = {"constrain_result": constrain_result, "constrain_body": constrain_body}
        made = entry("on_device").call(body, virtual_device=_device(device), **constraints)
        if constrain_result or constrain_body:
            return made
        return entry("on_device").call(body, virtual_device=VirtualDevice(-1, -1), **constraints)

    relation = staticmethod(_same)
    lower = staticmethod(_on_device)


@operator(
    "device_copy",
    "data",
    attrs=DeviceCopyAttrs,
    level=10,
    pure=False,
    parameters=Parameters(
        "data src_device dst_device",
        renamed={"src_device": "src_virtual_device", "dst_device": "dst_virtual_device"},
    ),
)
class DeviceCopy:
    """The value, moved from one device to another: the program is compiled for both."""

    @staticmethod
    def make(data: Expr, src_device: Given, dst_device: Given) -> Expr:
        source, target = _device(src_device), _device(dst_device)
        return entry("device_copy").call(data, src_virtual_device=source, dst_virtual_device=target)

    relation = staticmethod(_same)
    lower = staticmethod(_device_copy)


@operator(
    "debug",
    "program",
    attrs=DebugAttrs,
    level=1,
    parameters=Parameters("expr debug_func", renamed={"expr": "program"}),
)
class Debug:
    """The value; where Relay's interpreter stopped for its debugger, compiled programs go on, as they did in Relay."""

    @staticmethod
    def make(expr: Expr, debug_func: Callable[..., Any] | None) -> Expr:
        if debug_func is not None:
            raise TypeCheckError(
                "debug_func got the state of Relay's interpreter, which is not here; leave it out, and look at a value "
                "by making it a result"
            )
        return entry("debug").call(expr, debug_func=None)

    relation = staticmethod(_same)
    lower = staticmethod(_value)


on_device = entry("on_device").builder
stop_fusion = entry("annotation.stop_fusion").builder
compiler_begin = entry("annotation.compiler_begin").builder
compiler_end = entry("annotation.compiler_end").builder
