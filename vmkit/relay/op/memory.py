"""Operators on the memory of values, which Relay's passes put into programs for the virtual machine.

:func:`.manifest_alloc.ManifestAlloc` writes them and :func:`.unmanifest_alloc.UnmanifestAlloc` takes them out again:
vmkit lays memory out in Relax, so that none of them has a lowering of its own but ``memory.kill``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tvm import relax

from ...errors import CompileError, TypeCheckError
from ..ir.expr import Constant, Expr, is_call
from ..ir.types import Dim, GlobalTypeVar, TensorType, TupleType, Type, TypeCall, type_text
from .attrs import Attrs, ConstantValue, Dims, DType, Placement, attrs_node, field
from .elementwise import require_tensor
from .registry import OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["Storage", "StorageType", "alloc_storage", "alloc_tensor", "kill", "not_in_pairs"]

Storage = GlobalTypeVar("Storage")
"""The data type of memory that a program asks for; the library ``core.rly`` declares it."""
StorageType = TypeCall(Storage)


def not_in_pairs(context: LowerContext, *_: object) -> NoReturn:
    """Refuse an operator on memory that :func:`.unmanifest_alloc.UnmanifestAlloc` has left in a program."""
    raise CompileError(
        f"{context.operator} is compiled where vm.invoke_tvm_op, bound by a Let, writes into what memory.alloc_tensor "
        "gives, as ManifestAlloc leaves programs; memory itself is no value of a compiled program"
    )


@attrs_node("relay.attrs.AllocStorageAttrs")
class AllocStorageAttrs(Attrs):
    """Attributes of memory.alloc_storage."""

    virtual_device: Placement = field(doc="Where the memory is.")
    dtype: DType = field("float32", doc="The element type that it is for.")


@operator(
    "memory.alloc_storage",
    "size",
    "shape",
    "alignment",
    attrs=AllocStorageAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters(
        "size shape alignment virtual_device dtype_hint",
        renamed={"dtype_hint": "dtype"},
    ),
    allocates=True,
)
class AllocStorage:
    """Memory of a size in bytes, for a tensor of a shape; its address is a multiple of the alignment."""

    lower = staticmethod(not_in_pairs)

    @staticmethod
    def relation(attrs: AllocStorageAttrs, size: Type, shape: Type, alignment: Type) -> Type:
        for name, ty in (("size", size), ("alignment", alignment)):
            if not require_tensor(ty, name).dtype.startswith("int") or len(require_tensor(ty, name).shape):
                raise TypeCheckError(f"{name} must be a scalar of integers, in bytes, not {type_text(ty)}")
        _require_shape(shape)
        return StorageType


@attrs_node("relay.attrs.AllocTensorAttrs")
class AllocTensorAttrs(Attrs):
    """Attributes of memory.alloc_tensor."""

    dtype: DType = "float32"
    const_shape: ConstantValue = field(None, doc="The shape, where it is known; it goes before assert_shape.")
    assert_shape: Dims | None = field(None, doc="What is known of the shape.")


@operator(
    "memory.alloc_tensor",
    "storage",
    "offset",
    "shape",
    attrs=AllocTensorAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters(
        "storage offset shape dtype assert_shape",
    ),
    allocates=True,
)
class AllocTensor:
    """A tensor of a shape that lies in storage, at an offset in bytes; its elements are not set yet.

    Without assert_shape the shape must be a constant.
    """

    lower = staticmethod(not_in_pairs)

    @staticmethod
    def make(storage: Expr, offset: Expr, shape: Expr, dtype: str, assert_shape: Dims | None) -> Expr:
        known = shape.args[0] if is_call(shape, "on_device") else shape
        if assert_shape is None and not isinstance(known, Constant):
            raise TypeCheckError("memory.alloc_tensor needs assert_shape where the shape is no constant")
        const_shape = known if assert_shape is None else None
        attrs = {"dtype": dtype, "const_shape": const_shape, "assert_shape": assert_shape}
        return entry("memory.alloc_tensor").call(storage, offset, shape, **attrs)

    @staticmethod
    def relation(attrs: AllocTensorAttrs, storage: Type, offset: Type, shape: Type) -> Type:
        if not (isinstance(storage, TypeCall) and isinstance(storage.func, GlobalTypeVar)) or (
            storage.func.name_hint != Storage.name_hint
        ):
            raise TypeCheckError(f"storage must be of type {type_text(StorageType)}, not {type_text(storage)}")
        if len(require_tensor(offset, "offset").shape):
            raise TypeCheckError(f"offset must be a scalar, in bytes, not {type_text(offset)}")
        rank = _require_shape(shape)
        sizes = _known_shape(attrs)
        if isinstance(rank, int) and rank != len(sizes):
            raise TypeCheckError(f"shape has {rank} sizes, but {len(sizes)} are known of it: {sizes}")
        return TensorType(sizes, attrs.dtype)


def _known_shape(attrs: AllocTensorAttrs) -> list[Dim]:
    if attrs.const_shape is not None:
        return [int(size) for size in attrs.const_shape.data.numpy()]
    if attrs.assert_shape is None:
        raise TypeCheckError("nothing is known of the shape; give const_shape or assert_shape")
    return list(attrs.assert_shape)


def _require_shape(shape: Type) -> Dim:
    """Return how many sizes a shape has; TypeCheckError where it is no vector of integers."""
    found = require_tensor(shape, "shape")
    if len(found.shape) != 1 or not found.dtype.startswith("int"):
        raise TypeCheckError(f"shape must be a vector of integers, not {type_text(shape)}")
    return found.shape[0]


@operator("memory.kill", "data", level=10, pattern=OpPattern.OPAQUE, pure=False)
class Kill:
    """Nothing; it says that the value of a variable is not needed any more."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return TupleType([])

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: Value) -> Value:
        # Relax's memory planner finds out by itself what is not needed any more.
        return relax.Tuple([])


alloc_storage = entry("memory.alloc_storage").builder
alloc_tensor = entry("memory.alloc_tensor").builder


def kill(data: Expr) -> Expr:
    """Return what says that the value of a variable is not needed any more: an empty tuple."""
    return entry("memory.kill").call(data)
