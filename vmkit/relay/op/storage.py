"""Tensors of element types that are stored as others, and which operators take them.

An operator whose result only holds elements of its inputs, wherever they go, works on the stored elements as they are;
integers of less than a byte are stored as the integers they are, so what compares them works, too, and products of
matrices and convolutions widen them. Everything else is refused by the type checker: convert with a cast first. See
:mod:`vmkit.values.element_types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax
from tvm.runtime import Tensor

from ...errors import TypeCheckError
from ...values.element_types import STORED, from_stored, small_integer_bits, stored_type, to_stored
from ...values.host_memory import copied
from ..ir.expr import Call, Constant, Expr, RelayExpr
from ..ir.types import TensorType, TupleType, Type
from .attrs import Attrs, DType, attrs_node
from .elementwise import require_tensor
from .registry import OpPattern, entry, operator
from .text import constant_texts, string_constant

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["array_constant", "array_value", "check_element_types", "is_stored_constant", "moves_elements"]

# Operators that take tensors of every element type, for they look at no element.
_MOVING = frozenset(
    {
        "adv_index", "broadcast_to", "broadcast_to_like", "concatenate", "copy", "device_copy", "dyn.broadcast_to",
        "dyn.expand_dims", "dyn.full", "dyn.nn.pad", "dyn.reshape", "dyn.squeeze", "dyn.strided_slice", "dyn.tile",
        "expand_dims", "full", "full_like", "gather", "gather_nd", "layout_transform",
        "meshgrid", "ndarray_size", "nn.batch_flatten", "nn.batch_to_space_nd", "nn.depth_to_space", "nn.mirror_pad",
        "nn.pad", "nn.space_to_batch_nd", "nn.space_to_depth", "on_device", "repeat", "reshape", "reshape_like",
        "reverse", "reverse_sequence", "scatter_elements", "scatter_nd", "shape_of", "slice_like",
        "sliding_window", "split", "squeeze", "stack", "strided_set", "strided_slice", "take", "tile", "transpose",
        "vm.reshape_tensor", "vm.shape_of", "where",
        "contrib.pin_shape", "contrib.tensor_scatter", "dyn.transpose",
        # These say what they do to the elements themselves.
        "cast", "cast_like", "contrib_from_stored", "contrib_to_stored", "contrib_convert",
        "contrib_quantized", "contrib_rounded",
        # Constants of strings, and what functions in Python do to texts.
        "contrib_strings", "contrib_string_concatenate", "contrib_string_split", "contrib_string_normalize",
        "contrib_full_match", "contrib_string_hash", "contrib_string_tokenize", "contrib_text_numbers",
        "contrib_string_order", "contrib_string_from_number", "contrib_string_to_number",
    }
)  # fmt: skip
# Families of operators on values that hold tensors, which they do not look into.
_HOLDING = ("buffer.", "map.", "optional.", "sequence.")
# Operators that take strings as well: equal texts have equal digests.
_COMPARING = frozenset({"equal", "not_equal"})
# Operators that take integers of less than a byte as well, for their results are some of their inputs, or no numbers.
_ORDERING = _COMPARING | {
    "argmax", "argmin", "argsort", "greater", "greater_equal", "less", "less_equal", "max", "maximum", "min",
    "minimum", "sort", "topk", "dyn.topk",
}  # fmt: skip

# Operators that multiply and sum up integers of less than a byte as wider ones.
_PRODUCTS = frozenset(
    {"nn.batch_matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense", "nn.matmul"}
)  # fmt: skip


def moves_elements(name: str) -> bool:
    """Tell whether an operator by its name only moves elements, so that it takes tensors of every element type."""
    return name in _MOVING or name.startswith(("buffer.", "optional.", "sequence."))


def check_element_types(name: str, attrs: Attrs | None, types: Sequence[Type], result: Type) -> None:
    """Raise TypeCheckError if an operator takes or gives a tensor whose element type it cannot compute in."""
    if name.startswith(_HOLDING) or (name in _MOVING and not _accumulates(attrs)):
        return
    for ty in _tensors([*types, result]):
        if ty.dtype not in STORED:
            continue
        if name in _COMPARING and ty.dtype == "string":
            continue
        if (name in _ORDERING or name in _PRODUCTS) and small_integer_bits(ty.dtype) is not None:
            continue
        hint = "" if ty.dtype == "string" else "; cast it to a type of 8 bits or more first"
        raise TypeCheckError(f"there is no arithmetic on {ty.dtype}, which tensors are only stored in{hint}")


def _accumulates(attrs: Attrs | None) -> bool:
    """Say whether attributes ask a scatter to combine what it writes with what is there."""
    ways = (getattr(attrs, name, "update") for name in ("reduction", "mode"))
    return any(way in ("add", "mul", "mean", "min", "max") for way in ways)


def _tensors(types: Sequence[Type]) -> list[TensorType]:
    found: list[TensorType] = []
    for ty in types:
        if isinstance(ty, TensorType):
            found.append(ty)
        elif isinstance(ty, TupleType):
            found += _tensors(list(ty.fields))
    return found


@attrs_node("relay.attrs.StoredAttrs")
class StoredAttrs(Attrs):
    """Attributes of contrib_from_stored."""

    dtype: DType


@operator("contrib_from_stored", "data", attrs=StoredAttrs, level=10, pattern=OpPattern.INJECTIVE)
class FromStored:
    """A tensor of an element type, from what is stored of it; nothing is computed.

    The elements must be such as are stored: of ``int4``, integers from -8 to 7.
    """

    @staticmethod
    def relation(attrs: StoredAttrs, data: Type) -> Type:
        tensor = require_tensor(data)
        if stored_type(attrs.dtype) != tensor.dtype:
            raise TypeCheckError(f"{attrs.dtype} is stored as {stored_type(attrs.dtype)}, not {tensor.dtype}")
        return TensorType(list(tensor.shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StoredAttrs, data: relax.Expr) -> relax.Expr:
        return data


@operator("contrib_to_stored", "data", level=10, pattern=OpPattern.INJECTIVE)
class ToStored:
    """What is stored of a tensor: of a small float its bits, of an ``int4`` the integer in 8 bits."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        tensor = require_tensor(data)
        return TensorType(list(tensor.shape), stored_type(tensor.dtype))

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        return data


def array_constant(array: np.ndarray) -> Expr:
    """Return the expression of an array: a constant, or, of a type that is stored as another, one of what is stored."""
    if array.dtype == object:
        return string_constant(array)
    dtype = str(array.dtype)
    stored = to_stored(array)
    return stored_constant(copied(np.asarray(stored).reshape(array.shape)), dtype)


def stored_constant(tensor: Tensor, dtype: str) -> Expr:
    """Return the expression of a tensor on the CPU, over its own memory, that holds elements of a type as stored."""
    made = Constant(tensor)
    if dtype not in STORED:
        return made
    call = entry("contrib_from_stored").call(made, dtype=dtype)
    call.checked_type_ = TensorType(list(tensor.shape), dtype)
    return call


def array_value(expr: Expr) -> np.ndarray | None:
    """Return the array that :func:`array_constant` made an expression of; None for any other."""
    if isinstance(expr, Constant):
        return expr.data.numpy() if str(expr.data.dtype) == "bfloat16" else np.from_dlpack(expr.data)
    if is_stored_constant(expr):
        return from_stored(np.from_dlpack(expr.args[0].data), expr.attrs.dtype)
    return constant_texts(expr)


def is_stored_constant(expr: RelayExpr) -> bool:
    """Say whether an expression is a constant of an element type that is stored as another."""
    return isinstance(expr, Call) and expr.op == entry("contrib_from_stored").op and isinstance(expr.args[0], Constant)
