"""Elementwise operators of PyTorch in the type that PyTorch computes them in.

PyTorch finds one type for all operands, numbers among them: half of a tensor of integers is one of floats. TVM's
importer gives a number the type of the tensor beside it, so that 0.5 becomes 0, and knows no ``alpha``. Here the
tensors are cast first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, tirx

from .arguments import Importing, arguments_of, cast_to, dtype_of, refused
from .products import summed_in, widened

if TYPE_CHECKING:
    from torch import fx

__all__ = ["arithmetic"]

_SCALED = {
    "add": lambda a, b: relax.op.add(a, b),
    "sub": lambda a, b: relax.op.subtract(a, b),
    "rsub": lambda a, b: relax.op.subtract(b, a),
}
"""Operators whose second operand has a factor, ``alpha``."""
_OF_RESULT = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "clamp", "clamp_max", "clamp_min", "cos", "cosh",
    "cumprod", "cumsum", "div", "erf", "exp", "expm1", "fmod", "log", "log10", "log1p", "log2", "maximum",
    "mean", "minimum", "mul", "pow", "prod", "reciprocal", "remainder", "rsqrt", "sigmoid", "sin", "sinh", "sqrt",
    "sum", "tan", "tanh",
}  # fmt: skip
"""Operators that compute in the type of their result."""
_WIDE = {
    "_native_batch_norm_legit_no_training", "_softmax", "linalg_vector_norm",
}  # fmt: skip
"""Operators with sums, which are of float32 where elements have 16 bits; the weights of some may have 32 beside."""
_RUNNING = {"cumprod", "cumsum"}
"""Operators of the type of their result that would round each sum to 16 bits, and the next from that."""
_COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}

_OfNode = Callable[["fx.Node"], object]


def arithmetic(importer: Importing, known: Mapping[str, _OfNode]) -> dict[str, _OfNode]:
    """Return converters of elementwise operators by name, made of those that TVM's importer knows."""
    made: dict[str, _OfNode] = {}
    for name, convert in known.items():
        base, _, overload = name.partition(".")
        if overload and base in _SCALED:
            made[name] = partial(_scaled, importer, base, convert)
        elif overload and base in _OF_RESULT | _COMPARISONS:
            made[name] = partial(_promoted, importer, convert)
        if overload and base in _WIDE:
            made[name] = partial(widened, importer, convert)
    if "clamp.default" in known:
        made["clamp.default"] = partial(_clamped, importer, known["clamp.default"])
    return made | dict.fromkeys(("div.Scalar_mode", "div.Tensor_mode"), partial(_divided, importer))


def _promoted(importer: Importing, convert: _OfNode, node: fx.Node) -> object:
    """Return what a converter gives for tensors that are cast to the type that is computed in."""
    dtype = _computed_in(node)
    given = {each: importer.env[each] for each in node.all_input_nodes if hasattr(importer.env[each], "ty")}
    importer.env.update({each: _operand(importer, node, each, dtype) for each in given})
    try:
        return convert(node)
    finally:
        importer.env.update(given)


def _clamped(importer: Importing, convert: _OfNode, node: fx.Node) -> object:
    """Return numbers between bounds, of which one may be left out: for TVM it is infinite then, which no integer is."""
    data, *bounds = arguments_of(node)
    dtype = _computed_in(node)
    if not dtype.startswith(("int", "uint")):
        return _promoted(importer, convert, node)
    value, emit = _operand(importer, node, data, dtype), importer.block_builder.emit
    for bound, choose in zip(bounds, (relax.op.maximum, relax.op.minimum), strict=True):
        value = value if bound is None else emit(choose(value, _operand(importer, node, bound, dtype)))
    return value


def _scaled(importer: Importing, base: str, convert: _OfNode, node: fx.Node) -> object:
    """Return a sum or a difference, the second operand times a factor."""
    factor = node.kwargs.get("alpha", 1)
    if factor == 1:
        return _promoted(importer, convert, node)
    dtype = _computed_in(node)
    first, second = (_operand(importer, node, value, dtype) for value in node.args[:2])
    emit = importer.block_builder.emit
    scaled = emit(relax.op.multiply(second, _operand(importer, node, factor, dtype)))
    return emit(_SCALED[base](first, scaled))


def _divided(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return a quotient that is rounded down, towards zero or not at all."""
    mode, dtype = node.kwargs.get("rounding_mode"), _computed_in(node)
    first, second = (_operand(importer, node, value, dtype) for value in node.args[:2])
    emit = importer.block_builder.emit
    if mode == "floor":
        return emit(relax.op.floor_divide(first, second))
    quotient = emit(relax.op.divide(first, second))  # of integers it is rounded towards zero
    return emit(relax.op.trunc(quotient)) if mode == "trunc" and dtype.startswith(("float", "bfloat")) else quotient


def _computed_in(node: fx.Node) -> str:
    """Return the type that an operator computes in."""
    import torch

    result: torch.dtype = cast("Any", node.meta["val"]).dtype
    name = str(node.target).split(".")[1]
    if name in _RUNNING:
        return summed_in(dtype_of(node))
    if name in _COMPARISONS:
        values = [getattr(each, "meta", {}).get("val", each) for each in node.args]
        # A size is an integer, and no tensor's type becomes another beside one.
        known = [each for each in values if isinstance(each, torch.Tensor | int | float)]
        result = torch.result_type(known[0], known[-1])
    return str(result).removeprefix("torch.")


def _operand(importer: Importing, node: fx.Node, value: object, dtype: str) -> relax.Expr:
    """Return an operand, a tensor, a size or a number, in a type."""
    if isinstance(value, int | float):
        return relax.const(value, dtype)
    given = importer.env[cast("fx.Node", value)]
    emit = importer.block_builder.emit
    if isinstance(getattr(given, "ty", None), relax.TensorType):
        return cast_to(importer, given, dtype)
    if isinstance(given, tirx.Expr) and str(given.ty.dtype) == "int64":
        size = emit(relax.op.shape_to_tensor(emit(relax.ShapeExpr([given]))))
        return cast_to(importer, emit(relax.op.reshape(size, relax.ShapeExpr([]))), dtype)
    raise refused(node, f"computes with {value}, which is no tensor, no size and no number")
