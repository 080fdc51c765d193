"""Convolutions, and what they are asked for with, get the layouts that a user prefers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import OptionError, suggest
from ..ir import Call, Function, Op, RelayExpr, Tuple, TupleGetItem, TupleType, rewrite
from ..op.registry import REGISTRY, entry
from .converted_layout import Converted, Layouts, LayoutValue, Several, fields_of, is_plain_layout
from .known_type import type_of, with_type_of
from .layout_rules import follow, with_attrs
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["ConvertLayout"]

# The kernel layout that Relay's operators take with a data layout, where a user writes "default".
_KERNELS = {
    **{"NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI"},
    **{"NCW": "OIW", "NWC": "WIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO"},
}
_KERNELS_BY_OPERATOR = {
    "nn.conv1d_transpose": {"NCW": "IOW", "NWC": "WIO"},
    "nn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWIO"},
    "nn.conv3d_transpose": {"NCDHW": "IODHW", "NDHWC": "DHWOI"},
}


@relay_pass(opt_level=3)
def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> ModuleTransform:
    """Return the pass that changes the layouts of operators, and of what follows them as far as that goes.

    Parameters
    ----------
    desired_layouts : mapping
        For the name of an operator, the layouts wanted: of the data and of the kernel, ``"default"`` for the kernel
        layout that goes with the data's; of the data alone for pooling and resizing.

    Examples
    --------
    >>> from vmkit import relay
    >>> relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}).info.name
    'ConvertLayout'
    """
    for name, wanted in desired_layouts.items():
        if name not in REGISTRY:
            raise OptionError(f"desired_layouts: there is no operator {name!r}{suggest(name, REGISTRY)}")
        if isinstance(wanted, str) or not wanted or wanted[0] == "default":
            raise OptionError(f"desired_layouts of {name}: a list that begins with the data layout, not {wanted!r}")
    desired = {name: [str(w) for w in wanted] for name, wanted in desired_layouts.items()}
    return per_function(lambda function: _Converter(desired).rewritten(function))


class _Converter:
    def __init__(self, desired: Mapping[str, list[str]]) -> None:
        self.desired = desired
        self.layouts = Layouts()
        # What the program knows as an expression, by its value in another layout.
        self.values: dict[RelayExpr, LayoutValue] = {}

    def rewritten(self, function: Function) -> Function:
        return rewrite(function, {}, self.replaced)

    def replaced(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        """Return a node as the program knows it, and note its value; unused restorations come to nothing."""
        value = self.value(node, original)
        if value is None:
            has_type = getattr(original, "checked_type_", None) is not None
            return with_type_of(node, original) if has_type else node
        result = self.layouts.restored(value)
        type_of(result)
        self.values[result] = value
        return result

    def value(self, node: RelayExpr, original: RelayExpr) -> LayoutValue | None:
        if isinstance(node, Tuple):
            fields = [self.values.get(f, f) for f in node.fields]
            return Several(fields) if any(isinstance(f, Converted) for f in fields) else None
        if isinstance(node, TupleGetItem):
            whole = self.values.get(node.tuple_value)
            return whole.fields[node.index] if isinstance(whole, Several) else None
        if not (isinstance(node, Call) and isinstance(node.op, Op)):
            return None
        values = [self.seen(a) for a in node.args]
        if node.op.name in self.desired:
            return self.asked(node, values)
        first = next((h for v in values for h in _converted_in(v)), None)
        if first is None or not (is_plain_layout(first.old) and is_plain_layout(first.new)):
            return None
        if getattr(node, "checked_type_", None) is None:
            node.checked_type_ = original.checked_type_
        return follow(self.layouts, node, values, first)

    def seen(self, arg: RelayExpr) -> LayoutValue:
        if arg in self.values:
            return self.values[arg]
        ty = getattr(arg, "checked_type_", None)
        return fields_of(arg, len(ty.fields)) if isinstance(ty, TupleType) else arg

    def asked(self, call: Call, values: Sequence[LayoutValue]) -> LayoutValue | None:
        """Return the value of a call that a user wants in a layout."""
        names = {f.name for f in call.attrs.declared}
        data_name = "data_layout" if "data_layout" in names else "layout"
        old, new = getattr(call.attrs, data_name), self.desired[call.op.name][0]
        has_kernel = "kernel_layout" in names
        if has_kernel and not (self.names_kernel(call) or is_plain_layout(call.attrs.kernel_layout)):
            return None  # a kernel in blocks was laid out for the data's layout as it is
        kernel = self.kernel_layout(call, new) if has_kernel else ""
        if (has_kernel and old == new and kernel == call.attrs.kernel_layout) or not _is_convertible(call, old, new):
            return None
        inputs = list(entry(call.op).inputs)
        args = [self.layouts.restored(v) for v in values]
        changes = {data_name: new}
        for data in {0, inputs.index("offset") if "offset" in inputs else 0}:
            args[data] = self.layouts.as_layout(values[data], old, new)
        if has_kernel:
            weight = inputs.index("weight")
            args[weight] = self.layouts.as_layout(values[weight], call.attrs.kernel_layout, kernel)
            changes["kernel_layout"] = kernel
        if getattr(call.attrs, "out_layout", "") or ("out_layout" in names and not has_kernel):
            changes["out_layout"] = new
        made = Call(call.op, args, with_attrs(call, **changes), span=call.span)
        type_of(made)
        return made if old == new else Converted(made, old, new)

    def names_kernel(self, call: Call) -> bool:
        """Say whether the user named a kernel layout for the operator of a call."""
        return self.desired[call.op.name][1:] not in ([], ["default"])

    def kernel_layout(self, call: Call, data_layout: str) -> str:
        name, own = call.op.name, call.attrs.kernel_layout
        wanted = self.desired[name][1] if len(self.desired[name]) > 1 else "default"
        if wanted == "default":
            table = _KERNELS_BY_OPERATOR.get(name, _KERNELS)
            if data_layout not in table:
                raise OptionError(f"{name}: no kernel layout goes with {data_layout} by default; name one")
            wanted = table[data_layout]
            if name.endswith("conv2d") and data_layout == "NHWC" and _is_depthwise(call):
                wanted = "HWOI"
        if sorted(own) != sorted(wanted):
            raise OptionError(f"{name}: a kernel in {own} cannot be had in {wanted}")
        return wanted


def _is_convertible(call: Call, old: str, new: str) -> bool:
    if getattr(call.attrs, "out_layout", "") not in ("", old):
        return False
    return is_plain_layout(old) and is_plain_layout(new) and sorted(old) == sorted(new)


def _converted_in(value: LayoutValue) -> list[Converted]:
    if isinstance(value, Converted):
        return [value]
    return [f for f in value.fields if isinstance(f, Converted)] if isinstance(value, Several) else []


def _is_depthwise(call: Call) -> bool:
    shape = type_of(call.args[1]).shape
    axis = call.attrs.kernel_layout.index("I")
    return call.attrs.groups > 1 and isinstance(shape[axis], int) and shape[axis] == 1
