"""Convolutions, and what they are asked for with, get the layouts that a user prefers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from ...errors import ModelError, OptionError, suggest
from ..ir import Call, Function, RelayExpr, TensorType, Type
from ..op.attached import CONVERT_OP_LAYOUT, attached
from ..op.nn.layout import Layout
from ..op.registry import REGISTRY
from .inferred_layout import holds_whole_blocks
from .known_type import type_of
from .layout_config import LayoutConfig
from .layout_rewriter import LayoutRewriter, placeholders
from .layout_rules import with_attrs
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["ConvertLayout"]

_log = logging.getLogger(__name__)

# The kernel layout that Relay's operators take with a data layout, where a user writes "default".
_KERNELS = {
    **{"NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI"},
    **{"NCW": "OIW", "NWC": "WIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO"},
}
_KERNELS_BY_OPERATOR = {
    "nn.conv1d_transpose": {"NCW": "IOW", "NWC": "WIO"},
    "nn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWIO"},
    "qnn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWIO"},
    "nn.conv3d_transpose": {"NCDHW": "IODHW", "NDHWC": "DHWOI"},
}


@relay_pass(opt_level=3)
def ConvertLayout(
    desired_layouts: Mapping[str, Sequence[str]],
    *,
    kept: Callable[[Function], Collection[RelayExpr]] | None = None,
) -> ModuleTransform:
    """Return the pass that changes the layouts of operators, and of what follows them as far as that goes.

    A function that a script attached with ``relay.op.register_convert_op_layout`` makes the change for its operator;
    :class:`LayoutConfig` says which convolutions stay.

    Parameters
    ----------
    desired_layouts : mapping
        For the name of an operator, the layouts wanted: of the data and of the kernel, ``"default"`` for the kernel
        layout that goes with the data's; of the data alone for pooling and resizing. In blocks, such as ``NCHW4c`` with
        ``OIHW4i4o``, a convolution becomes ``nn.contrib_conv2d_NCHWc`` where they divide its channels. An operator that
        names no layout is left as it is.
    kept : callable, optional
        Takes a typed function, and returns the calls in it that stay as they are.

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
        if attached(REGISTRY[name].op, CONVERT_OP_LAYOUT) is None and not _data_field(name):
            _log.warning("desired_layouts of %s: the operator has no layout of its own, and stays as it is", name)
    desired = {name: [str(w) for w in wanted] for name, wanted in desired_layouts.items()}
    return per_function(
        lambda function: _Converter(desired, () if kept is None else kept(function)).rewritten(function)
    )


def _fields(name: str) -> set[str]:
    attrs = REGISTRY[name].attrs
    return set() if attrs is None else {f.name for f in attrs.declared}


def _data_field(name: str) -> str:
    """Return the attribute in which an operator has the layout of its data, or an empty text."""
    return next((each for each in ("data_layout", "layout") if each in _fields(name)), "")


class _Converter(LayoutRewriter):
    def __init__(self, desired: Mapping[str, list[str]], kept: Collection[RelayExpr]) -> None:
        super().__init__()
        self.desired = desired
        self.kept = kept
        self.is_kept = False

    def replaced(self, node: RelayExpr, original: RelayExpr) -> RelayExpr:
        self.is_kept = original in self.kept
        return super().replaced(node, original)

    def altered(self, call: Call, args: list[RelayExpr], known: Call) -> Call | None:
        wanted = self.desired.get(call.op.name)
        if wanted is None or self.is_kept:
            return None
        hook = attached(call.op, CONVERT_OP_LAYOUT)
        if hook is not None:
            made = hook(call.attrs, args, placeholders(known), wanted)
            if made is not None and not isinstance(made, Call):
                raise ModelError(f"FTVMConvertOpLayout of {call.op.name} must return a call or None")
            return made
        if call.op.name == "nn.conv2d" and LayoutConfig.current is not None and LayoutConfig.current.check_skip():
            return None
        if not _data_field(call.op.name):
            return None
        return _converted(call, args, known, wanted)


def _converted(call: Call, args: list[RelayExpr], known: Call, wanted: Sequence[str]) -> Call | None:
    """Return a call with the layouts wanted, or None where it has them, or cannot."""
    name, fields = call.op.name, _fields(call.op.name)
    data_field = _data_field(name)
    old, new = Layout.of(getattr(call.attrs, data_field)), Layout.of(wanted[0])
    out = getattr(call.attrs, "out_layout", "")
    if "kernel_layout" not in fields:
        if not _is_convertible(old, new, type_of(known.args[0])) or out not in ("", old.text):
            return None
        changes = {data_field: new.text} | ({"out_layout": new.text} if "out_layout" in fields else {})
        return Call(call.op, args, with_attrs(call, **changes), span=call.span)
    if name == "nn.conv2d_backward_weight":
        return _converted_gradient(call, args, new, wanted)
    if out not in ("", old.text):
        return None
    # A kernel in blocks was laid out for the data's layout as it is.
    own = Layout.of(call.attrs.kernel_layout)
    if _is_blocked(own) and list(wanted[1:]) in ([], ["default"]):
        return None
    kernel = Layout.of(_kernel_layout(known, new.text, wanted[1] if len(wanted) > 1 else "default"))
    if sorted(own.letters) != sorted(kernel.letters):
        raise OptionError(f"{name}: a kernel in {own.text} cannot be had in {kernel.text}")
    if (old, own) == (new, kernel) or not _is_convertible(old, new, type_of(known.args[0])):
        return None
    weight = known.args[list(REGISTRY[name].inputs).index("weight")]
    if not _is_convertible(own, kernel, type_of(weight)) or not _fits_result(new, known):
        return None
    changes = {"data_layout": new.text, "kernel_layout": kernel.text}
    if out:
        changes["out_layout"] = new.text
    attrs = with_attrs(call, **changes)
    if name == "nn.conv2d" and _is_blocked(new):
        values = {f.name: getattr(attrs, f.name) for f in attrs.declared}
        return REGISTRY["nn.contrib_conv2d_NCHWc"].call(*args, **values)
    return Call(call.op, args, attrs, span=call.span)


def _converted_gradient(call: Call, args: list[RelayExpr], data: Layout, wanted: Sequence[str]) -> Call | None:
    """Return the gradient of a convolution by its weight with both of its tensors in a layout."""
    attrs = call.attrs
    named = wanted[1] if len(wanted) > 1 else "default"
    kernel = _KERNELS[data.text] if named == "default" else named
    changes = {"data_layout": data.text, "kernel_layout": data.text, "out_layout": kernel}
    if all(getattr(attrs, field) == text for field, text in changes.items()):
        return None
    return Call(call.op, args, with_attrs(call, **changes), span=call.span)


def _kernel_layout(call: Call, data_layout: str, wanted: str) -> str:
    name = call.op.name
    if wanted != "default":
        return wanted
    table = _KERNELS_BY_OPERATOR.get(name, _KERNELS)
    if data_layout not in table:
        close = suggest(data_layout, table)
        raise OptionError(f"{name}: no kernel layout goes with {data_layout} by default; name one{close}")
    is_depthwise = name.endswith("conv2d") and data_layout == "NHWC" and _is_depthwise(call)
    return "HWOI" if is_depthwise else table[data_layout]


def _is_blocked(layout: Layout) -> bool:
    return len(layout.axes) != len(layout.letters)


def _is_convertible(old: Layout, new: Layout, ty: Type) -> bool:
    """Say whether a tensor in one layout falls into the blocks of another one of the same axes."""
    if sorted(old.letters) != sorted(new.letters) or not isinstance(ty, TensorType):
        return False
    return holds_whole_blocks(old, new, ty.shape)


def _fits_result(new: Layout, call: Call) -> bool:
    """Say whether the result of a convolution falls into the blocks of a data layout."""
    ty = type_of(call)
    old = Layout.of(call.attrs.out_layout or call.attrs.data_layout)
    # Whether blocks divide channels of unknown number is checked by the convolution; a way back would fill them up.
    if _is_blocked(old) and not all(isinstance(size, int) for size in ty.shape):
        return False
    return _is_convertible(old, new, ty)


def _is_depthwise(call: Call) -> bool:
    shape = type_of(call.args[1]).shape
    axis = call.attrs.kernel_layout.index("I")
    return call.attrs.groups > 1 and isinstance(shape[axis], int) and shape[axis] == 1
