"""Attributes of calls and functions as text: only those that differ from their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx
from tvm.ir import Expr, Op

from ..ir import PARAM_DEVICES, RESULT_DEVICE, Function, RelayExpr, VirtualDevice
from ..ir import Any as AnyDim
from ..ir import Expr as RelayNode
from ..ir.dim_text import dim_text
from ..op.attrs import AttrField, Attrs
from .metadata import MetaSection
from .numbers import float_text
from .printed_layout import MARKS

__all__ = ["AttributePrinter"]

# Relay declared no default for these, and so printed them always.
_ALWAYS = {
    "relay.attrs.ArangeAttrs": frozenset(["start", "stop", "step", "dtype"]),
    "relay.attrs.DebugAttrs": frozenset(["debug_func"]),
    "relay.attrs.DenseAttrs": frozenset(["units"]),
    "relay.attrs.GatherAttrs": frozenset(["axis"]),
    "relay.attrs.GetValidCountsAttrs": frozenset(["score_threshold"]),
    "relay.attrs.DensePackAttrs": frozenset(["units"]),
    "relay.attrs.InitOpAttrs": frozenset(["shape"]),
    "relay.attrs.L2NormalizeAttrs": frozenset(["axis"]),
    "relay.attrs.MatmulAttrs": frozenset(["units"]),
    "relay.attrs.MultiBoxTransformLocAttrs": frozenset(["variances"]),
    "relay.attrs.NdarraySizeAttrs": frozenset(["dtype"]),
    "relay.attrs.ShapeOfAttrs": frozenset(["dtype"]),
    "relay.attrs.SliceLikeAttrs": frozenset(["axes"]),
    "relay.attrs.StridedSliceAttrs": frozenset(["begin", "end", "strides", "axes"]),
    "relay.attrs.TopkAttrs": frozenset(["k"]),
    "relay.attrs.TransposeAttrs": frozenset(["axes"]),
}

# Relay did not know of which class the attributes of these are, and so could not read ``name=value``: it put them into
# the metadata of a text that has any. Here both forms are read.
_IN_METADATA = frozenset(
    [
        "collapse_sum_to", "cumprod", "cumsum", "dft", "dyn.expand_dims", "nn.dilate", "scatter_elements",
        "scatter_nd", "stft", "trilu", "unique", "vision.all_class_non_max_suppression", "vision.get_valid_counts",
        "vision.non_max_suppression", "vision.proposal", "vision.regular_non_max_suppression", "vision.roi_align",
        "vision.roi_pool",
    ]
)  # fmt: skip


_UNWRITABLE = MARKS | {'"', "\n"}


class AttributePrinter:
    """Prints attributes; what has no notation goes to the metadata.

    `show_meta_data` says that the text has its metadata, in which Relay then put some attributes whole.
    """

    def __init__(self, meta: MetaSection, dim_name: Callable[[Any], str], show_meta_data: bool) -> None:
        self._meta = meta
        self._show_meta_data = show_meta_data
        self._dim_name = dim_name
        self._defaults: dict[AttrField, str] = {}

    def call(self, attrs: Attrs | None, callee: RelayExpr) -> list[str]:
        """Return the attributes of a call; those of a call of something else than an operator name their class."""
        if attrs is None:
            return []
        if self._show_meta_data and isinstance(callee, Op) and callee.name in _IN_METADATA:
            return [self._meta.reference(attrs)]
        always = _ALWAYS.get(type(attrs).type_key, ())
        pairs = [
            f"{field.name}={text}"
            for field in attrs.declared
            if (text := self.value(getattr(attrs, field.name))) != self._default(field) or field.name in always
        ]
        return pairs if isinstance(callee, Op) else [*pairs, f'attrs_type_key="{type(attrs).type_key}"']

    def function(self, attrs: Mapping[str, Any] | None) -> list[str]:
        """Return the attributes of a function."""
        shown = {RESULT_DEVICE: "virtual_device"}
        pairs = attrs.items() if attrs is not None else ()
        return [f"{shown.get(key, key)}={self.value(value)}" for key, value in pairs if key != PARAM_DEVICES]

    def _default(self, field: AttrField) -> str | None:
        if field.is_required:
            return None
        if field not in self._defaults:
            default = field.default
            self._defaults[field] = self.value(default if default is None else field.convert(default))
        return self._defaults[field]

    def value(self, value: Any) -> str:
        """Return one value."""
        match value:
            case None:
                return "None"
            case bool() | int():
                return str(value)
            case float():
                return f"{float_text(value)}f"
            case str():
                # A string of the text has no escapes.
                return f'"{value}"' if _UNWRITABLE.isdisjoint(value) else self._meta.reference(value)
            case RelayNode() | Function() | VirtualDevice():
                return self._meta.reference(value)
            case AnyDim() | tirx.Var() | Expr():
                return dim_text(value, self._dim_name)
            case Mapping() if not all(isinstance(key, str) for key in value):
                return self._meta.reference(value)
            case Mapping():
                return f"{{{', '.join([f'{self.value(k)}={self.value(v)}' for k, v in value.items()])}}}"
        return f"[{', '.join([self.value(v) for v in value])}]"
