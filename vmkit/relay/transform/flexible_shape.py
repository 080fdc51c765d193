"""One program for several sizes of a dimension: a copy of it for each, and one for all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm.ir import GlobalVar

from ..._dataclasses import dataclass
from ...errors import ModelError, OptionError
from ..analysis.infer_type import infer_module, typed
from ..ir import Any as AnyDim
from ..ir import (
    Call,
    Dim,
    Function,
    If,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    const,
    with_functions,
)
from ..op.registry import build
from .fresh_copy import fresh_copy
from .registry import ModuleTransform, relay_pass

__all__ = ["FlexibleShapeDispatch"]


@relay_pass(opt_level=0)
def FlexibleShapeDispatch(
    buckets: Sequence[int],
    axis: int = 0,
    auto_pad: bool = False,
    pad_value: float = 0,
    input_indices: Sequence[int] | None = None,
    affects_output: bool = True,
) -> ModuleTransform:
    """Return the pass that lets ``main`` take any size of one dimension, with copies for those that are expected.

    The new ``main`` looks at the size when it runs and calls ``main_4`` for 4, and so on; for a size that is not
    expected it calls a copy in which the dimension is unknown.

    Parameters
    ----------
    buckets : sequence of int
        The sizes that are expected, each of which gets a copy of the program.
    axis : int
        The dimension of the inputs.
    auto_pad : bool
        Whether inputs of other sizes are padded up to the next of `buckets`, and the results cut.
    pad_value : float
        What they are padded with.
    input_indices : sequence of int, optional
        Which parameters of ``main`` have the dimension; by default the first.
    affects_output : bool
        Whether the results have it, too, on the same axis: a batch does, a sequence that is summed up does not.

    Raises
    ------
    OptionError
        When there are no buckets, a parameter does not exist, or it has no such axis.
    """
    sizes = sorted(int(size) for size in buckets)
    if not sizes or sizes[0] < 0 or len(set(sizes)) < len(sizes):
        raise OptionError(f"buckets are different sizes, at least one, not {list(buckets)}")
    indices = [0] if input_indices is None else list(input_indices)

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        dispatch = _Dispatch(mod, mod["main"], axis, indices, affects_output)
        return dispatch.module(sizes, pad_value if auto_pad else None)

    return on_module


@dataclass(eq=False)
class _Dispatch:
    mod: tvm.IRModule
    main: Function
    axis: int
    indices: list[int]
    affects_output: bool

    def __post_init__(self) -> None:
        if self.main.type_params:
            raise ModelError("main must have no type parameters, so that its inputs have shapes")
        for index in self.indices:
            if not 0 <= index < len(self.main.params):
                raise OptionError(f"main has {len(self.main.params)} parameters; input_indices has {index}")
            ty = self.main.params[index].checked_type
            if not isinstance(ty, TensorType) or not -len(ty.shape) <= self.axis < len(ty.shape):
                raise OptionError(f"parameter {self.main.params[index].name_hint} has no axis {self.axis}: {ty}")

    def module(self, sizes: Sequence[int], pad_value: float | None) -> tvm.IRModule:
        """Return the module; None as `pad_value` pads nothing."""
        functions = dict(self.mod.functions.items())
        params = self.params(AnyDim())
        shape = build("shape_of", params[self.indices[0]], dtype="int32")
        size = build("take", shape, const(self.axis, "int32"), mode="wrap")
        copies = {bucket: self.copy(bucket, f"main_{bucket}") for bucket in sizes}
        rest = self.copy(AnyDim(), "main_any")
        functions.update([*copies.values(), rest])
        result: RelayExpr = Call(rest[0], params)
        for bucket in reversed(sizes):
            fits = build("equal" if pad_value is None else "less_equal", size, const(bucket, "int32"))
            result = If(fits, self.called(copies[bucket][0], params, bucket, size, pad_value), result)
        ret_type = self.resized(self.main.checked_type.ret_type, AnyDim()) if self.affects_output else None
        main = Function(params, result, ret_type or self.main.checked_type.ret_type, [], self.main.attrs)
        return infer_module(with_functions(self.mod, {**functions, self.mod.get_global_var("main"): main}))

    def params(self, size: Dim) -> list[Var]:
        """Return parameters like those of main, the dimension of one size."""
        types = [p.checked_type for p in self.main.params]
        for index in self.indices:
            types[index] = self.resized(types[index], size)
        return [Var(p.name_hint, ty, p.span) for p, ty in zip(self.main.params, types, strict=True)]

    def copy(self, size: Dim, name: str) -> tuple[GlobalVar, Function]:
        """Return a copy of main for one size."""
        params = self.params(size)
        values: Mapping[Var, RelayExpr] = dict(zip(self.main.params, params, strict=True))
        ret_type = self.main.checked_type.ret_type
        if self.affects_output:
            ret_type = self.resized(ret_type, size)
        return GlobalVar(name), Function(params, fresh_copy(self.main.body, values), ret_type)

    def called(
        self, copy: GlobalVar, params: Sequence[Var], bucket: int, size: RelayExpr, pad_value: float | None
    ) -> RelayExpr:
        """Return the call of a copy on the parameters, as large as it takes them."""
        args: list[RelayExpr] = list(params)
        for index in self.indices:
            shape = self.resized(params[index].type_annotation, bucket).shape
            args[index] = self.padded(params[index], bucket, size, pad_value)
            args[index] = build("reshape", args[index], newshape=shape)
        result: RelayExpr = Call(copy, args)
        if pad_value is None or not self.affects_output:
            return result
        return self.cut(result, self.main.checked_type.ret_type, size)

    def padded(self, param: Var, bucket: int, size: RelayExpr, pad_value: float | None) -> RelayExpr:
        if pad_value is None:
            return param
        shape, dtype = param.type_annotation.shape, param.type_annotation.dtype
        axis = self.axis % len(shape)
        widths = build("zeros", [len(shape), 2], "int32")
        missing = build("subtract", const(bucket, "int32"), size)
        widths = build("scatter_nd", widths, const([axis, 1], "int32"), missing)
        return build("nn.pad", param, widths, const(pad_value, dtype))

    def cut(self, value: RelayExpr, ty: Type, size: RelayExpr) -> RelayExpr:
        """Return the part of a result that belongs to what was not padded."""
        if isinstance(ty, TupleType):
            return Tuple([self.cut(TupleGetItem(value, i), part, size) for i, part in enumerate(ty.fields)])
        kept = build("arange", const(0, "int32"), size, const(1, "int32"), dtype="int32")
        return build("take", value, kept, axis=self.axis)

    def resized(self, ty: Type, size: Dim) -> Type:
        """Return a type with one size of the dimension in its tensors."""
        if isinstance(ty, TupleType):
            return TupleType([self.resized(part, size) for part in ty.fields])
        if not isinstance(ty, TensorType) or not -len(ty.shape) <= self.axis < len(ty.shape):
            raise OptionError(f"a result of type {ty} has no axis {self.axis}; say affects_output=False if it has none")
        shape = list(ty.shape)
        shape[self.axis] = size
        return TensorType(shape, ty.dtype)
