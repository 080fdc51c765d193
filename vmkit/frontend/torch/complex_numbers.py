"""Complex numbers within a program: a tensor of them is two, of the real parts and of the imaginary ones.

No executable takes or gives complex numbers: an input or a result of them is one of floats, with the real part and the
imaginary one beside each other on a last axis of two, as ``torch.view_as_real`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tvm import relax, te, tirx

from ..._dataclasses import dataclass
from ...relay.ir import dims
from .arguments import Importing, arguments_of, cast_to, refused
from .formulas import known_sizes
from .functions import hypotenuse, mapped_tensors
from .relay_operators import lowered

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["COMPLEX", "Complex", "as_real", "complex_result", "is_complex", "takes_complex", "with_real_ends"]

_PARTS = ("real", "imaginary")
_OfNode = Callable[["fx.Node"], object]


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers by its parts, tensors of one shape."""

    real: relax.Expr
    imaginary: relax.Expr


def is_complex(value: object) -> bool:
    """Say whether what PyTorch knows of a value is a tensor of complex numbers."""
    return "complex" in str(getattr(value, "dtype", ""))


def takes_complex(node: fx.Node) -> bool:
    """Say whether a node takes complex numbers, or gives them."""
    return any(is_complex(each.meta.get("val")) for each in (node, *node.all_input_nodes))


def complex_result(importer: Importing, convert: _OfNode, node: fx.Node) -> object:
    """Return a node's result: of its own rule, or part by part where its operator only moves numbers."""
    name = str(cast("Any", node.target).__name__)
    if name in COMPLEX:
        return COMPLEX[name](importer, node)
    if name.split(".")[0] not in _BY_PARTS:
        raise refused(node, "takes complex numbers, for which it has no converter")
    if name.startswith("constant_pad_nd") and arguments_of(node)[2] != 0:
        raise refused(node, "pads complex numbers with another number than 0")
    given = {each: importer.env[each] for each in node.all_input_nodes}
    parts = []
    try:
        for part in _PARTS:
            importer.env.update({each: _part(value, part) for each, value in given.items()})
            parts.append(cast("relax.Expr", convert(node)))
    finally:
        importer.env.update(given)
    return Complex(*parts)


def as_real(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it is, or one of complex numbers with their parts on a last axis."""
    import torch

    return torch.view_as_real(value.resolve_conj()) if is_complex(value) else value


def with_real_ends(program: torch.export.ExportedProgram) -> set[str]:
    """Let a program take, hold and give complex numbers by their parts; return the names of what it takes so."""
    import torch

    graph, taken = program.graph_module.graph, set[str]()
    for node in list(graph.find_nodes(op="placeholder")):
        if is_complex(node.meta.get("val")):
            taken.add(node.name)
            with graph.inserting_after(node):
                made = graph.call_function(torch.ops.aten.view_as_complex.default, (node,))
            made.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
            real = as_real(node.meta["val"])
            node.meta = {**node.meta, "val": real, "tensor_meta": real}
    output = graph.output_node()
    results = list(cast("Any", output.args[0]))
    for at, node in enumerate(results):
        if is_complex(getattr(node, "meta", {}).get("val")):
            with graph.inserting_before(output):
                results[at] = graph.call_function(torch.ops.aten.view_as_real.default, (node,))
            results[at].meta["val"] = as_real(node.meta["val"])
    output.args = (tuple(results),)
    return taken


def _part(value: object, part: str) -> object:
    """Return a part of a value; what is no complex number, such as a position, stays as it is."""
    return getattr(value, part) if isinstance(value, Complex) else value


def _operands(importer: Importing, node: fx.Node, given: Sequence[object] | None = None) -> list[Complex]:
    """Return arguments of a node, the first two by default, as complex numbers, real ones and numbers among them."""
    kind = "float64" if "128" in str(node.meta["val"].dtype) else "float32"
    found = list[Complex]()
    for value in node.args[:2] if given is None else given:
        if isinstance(value, complex | float | int):
            number = complex(value)
            found.append(Complex(relax.const(number.real, kind), relax.const(number.imag, kind)))
            continue
        own = importer.env[cast("fx.Node", value)]
        if not isinstance(own, Complex):
            real = cast_to(importer, own, kind)
            own = Complex(real, importer.block_builder.emit(relax.op.zeros_like(real)))
        found.append(own)
    return found


def _times(
    importer: Importing, a: Complex, b: Complex, multiply: Callable[..., relax.Expr] = relax.op.multiply
) -> Complex:
    """Return a product by the products of the parts: of elements, or of matrices."""
    emit, op = importer.block_builder.emit, relax.op

    def product(x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return emit(multiply(x, y))

    real = emit(op.subtract(product(a.real, b.real), product(a.imaginary, b.imaginary)))
    return Complex(real, emit(op.add(product(a.real, b.imaginary), product(a.imaginary, b.real))))


def _product(importer: Importing, node: fx.Node) -> Complex:
    a, b = _operands(importer, node)
    return _times(importer, a, b)


def _combined(importer: Importing, node: fx.Node, *, combine: Callable[..., relax.Expr]) -> Complex:
    """Return the sum or the difference, part by part."""
    if node.kwargs.get("alpha", 1) != 1:
        raise refused(node, "takes a complex number times a factor, alpha")
    a, b = _operands(importer, node)
    parts = zip((a.real, a.imaginary), (b.real, b.imaginary), strict=True)
    return Complex(*(importer.block_builder.emit(combine(one, other)) for one, other in parts))


def _reduced(importer: Importing, node: fx.Node, *, reduce: Callable[..., relax.Expr]) -> Complex:
    """Return a sum or a mean along axes, part by part."""
    data, axes, keepdims, *_ = arguments_of(node)
    value, emit = importer.env[data], importer.block_builder.emit
    return Complex(*(emit(reduce(part, list(axes or []) or None, keepdims)) for part in (value.real, value.imaginary)))


def _side_by_side(importer: Importing, node: fx.Node) -> Complex:
    """Return tensors along an axis, part by part."""
    given, axis = arguments_of(node)
    values, emit = [importer.env[each] for each in given], importer.block_builder.emit
    if not all(isinstance(value, Complex) for value in values):
        raise refused(node, "joins complex numbers and real ones")
    return Complex(*(emit(relax.op.concat([getattr(v, part) for v in values], axis)) for part in _PARTS))


def _as_complex(importer: Importing, node: fx.Node) -> Complex:
    value = importer.env[node.all_input_nodes[0]]
    if isinstance(value, Complex) or not is_complex(node.meta["val"]):
        raise refused(node, "casts complex numbers to others")
    kind = "float64" if "128" in str(node.meta["val"].dtype) else "float32"
    real = cast_to(importer, value, kind)
    return Complex(real, importer.block_builder.emit(relax.op.zeros_like(real)))


def _quotient(importer: Importing, node: fx.Node) -> Complex:
    a, b = _operands(importer, node)
    emit, op = importer.block_builder.emit, relax.op
    square = emit(op.add(emit(op.multiply(b.real, b.real)), emit(op.multiply(b.imaginary, b.imaginary))))
    made = _times(importer, a, Complex(b.real, emit(op.negative(b.imaginary))))
    return Complex(emit(op.divide(made.real, square)), emit(op.divide(made.imaginary, square)))


def _conjugate(importer: Importing, node: fx.Node) -> Complex:
    value = importer.env[node.all_input_nodes[0]]
    return Complex(value.real, importer.block_builder.emit(relax.op.negative(value.imaginary)))


def _size(importer: Importing, node: fx.Node) -> relax.Expr:
    value = importer.env[node.all_input_nodes[0]]
    parts, dtype = [value.real, value.imaginary], str(value.real.ty.dtype)
    return mapped_tensors(importer, parts, dtype, hypotenuse, name="complex_size")


def _exponential(importer: Importing, node: fx.Node) -> Complex:
    value, emit, op = importer.env[node.all_input_nodes[0]], importer.block_builder.emit, relax.op
    size = emit(op.exp(value.real))
    parts = (emit(turn(value.imaginary)) for turn in (op.cos, op.sin))
    return Complex(*(emit(op.multiply(size, part)) for part in parts))


def _logarithm(importer: Importing, node: fx.Node) -> Complex:
    value = importer.env[node.all_input_nodes[0]]
    angle = importer.block_builder.emit(relax.op.atan2(value.imaginary, value.real))
    return Complex(importer.block_builder.emit(relax.op.log(_size(importer, node))), angle)


def _matrix_product(importer: Importing, node: fx.Node) -> Complex:
    a, b = _operands(importer, node)
    return _times(importer, a, b, relax.op.matmul)


def _chosen(importer: Importing, node: fx.Node) -> Complex:
    """Return one of two where a mask is true, and the other elsewhere, part by part."""
    mask = importer.env[cast("fx.Node", node.args[0])]
    a, b = _operands(importer, node, node.args[1:])
    emit = importer.block_builder.emit
    return Complex(*(emit(relax.op.where(mask, getattr(a, part), getattr(b, part))) for part in _PARTS))


def _alone(importer: Importing, node: fx.Node) -> Complex:
    """Return a number as a tensor of no axes."""
    (number,) = _operands(importer, node, node.args[:1])
    return number


def _angle(importer: Importing, node: fx.Node) -> relax.Expr:
    value = importer.env[node.all_input_nodes[0]]
    return importer.block_builder.emit(relax.op.atan2(value.imaginary, value.real))


def _of_parts(importer: Importing, node: fx.Node) -> Complex:
    real, imaginary = (importer.env[each] for each in arguments_of(node)[:2])
    return Complex(real, imaginary)


def _of_angle(importer: Importing, node: fx.Node) -> Complex:
    size, angle = (importer.env[each] for each in arguments_of(node)[:2])
    emit, op = importer.block_builder.emit, relax.op
    return Complex(emit(op.multiply(size, emit(op.cos(angle)))), emit(op.multiply(size, emit(op.sin(angle)))))


def _taken_apart(importer: Importing, node: fx.Node) -> Complex:
    """Return tensors of the parts, which are beside each other on the last axis."""
    return _halves(importer, importer.env[arguments_of(node)[0]])


def _halves(importer: Importing, data: relax.Expr) -> Complex:
    def kernel(x: te.Tensor, part: int) -> te.Tensor:
        return te.compute(x.shape[:-1], lambda *at: x(*at, part), name="part", tag="injective")

    parts = (importer.block_builder.emit_te(kernel, data, part, primfunc_name_hint="part") for part in (0, 1))
    return Complex(*parts)


def _joined(importer: Importing, value: Complex) -> relax.Expr:
    return importer.block_builder.emit(relax.op.stack([value.real, value.imaginary], axis=-1))


def _put_together(importer: Importing, node: fx.Node) -> relax.Expr:
    return _joined(importer, importer.env[arguments_of(node)[0]])


def _fourier(importer: Importing, node: fx.Node) -> Complex | relax.Expr:
    """Return Fourier transforms along axes, of real numbers, to them, or neither."""
    name = str(cast("Any", node.target).__name__)
    data, axes, norm, last = arguments_of(node)
    value = importer.env[data]
    rank = len(data.meta["val"].shape)
    is_inverse = name.startswith("_fft_c2r") or (name.startswith("_fft_c2c") and not last)
    order = [axis % rank for axis in axes]
    x = _joined(importer, value) if isinstance(value, Complex) else relax.op.expand_dims(value, -1)
    x = importer.block_builder.emit(x)
    half = order[-1] if name.startswith("_fft_c2r") or (name.startswith("_fft_r2c") and last) else None
    # Of real numbers the half is taken first, and made whole again last.
    for axis in order if is_inverse else reversed(order):
        length = known_sizes(importer, node)[axis] if is_inverse else list(x.ty.shape)[axis]
        x = _transformed(importer, x, axis, length, is_inverse, axis == half)
        x = _scaled(importer, x, length, norm, is_inverse)
    if name.startswith("_fft_c2r"):
        return importer.block_builder.emit(relax.op.squeeze(x, [-1]))
    return _halves(importer, x)


def _transformed(
    importer: Importing, x: relax.Expr, axis: int, length: tirx.Expr, is_inverse: bool, is_half: bool
) -> relax.Expr:
    known = (relax.const(np.array([number], "int64")) for number in (axis, 0))  # both are in the attributes
    ways = {"axis": axis, "length": dims.simplify(length), "inverse": is_inverse, "onesided": is_half}
    return cast("relax.Expr", lowered(importer, "contrib.fourier", x, *known, **ways))


def _scaled(importer: Importing, x: relax.Expr, length: tirx.Expr, norm: int, is_inverse: bool) -> relax.Expr:
    """Return a transform divided as PyTorch says, by 1, the root of its length or that; Relay's inverse is by that."""
    power = {0: 0.0, 1: -0.5, 2: -1.0}[norm] + (1.0 if is_inverse else 0.0)
    if power == 0:
        return x

    def kernel(x: te.Tensor, length: tirx.Expr) -> te.Tensor:
        number = length.astype(x.dtype)
        factor = number if abs(power) == 1 else tirx.sqrt(number)
        return te.compute(x.shape, lambda *at: x(*at) * factor if power > 0 else x(*at) / factor, "scaled", "injective")

    return importer.block_builder.emit_te(kernel, x, length, primfunc_name_hint="scaled")


COMPLEX: dict[str, Callable[[Importing, fx.Node], object]] = {
    "_conj.default": _conjugate,
    "_conj_physical.default": _conjugate,
    "_fft_c2c.default": _fourier,
    "_fft_c2r.default": _fourier,
    "_fft_r2c.default": _fourier,
    "_to_copy.default": _as_complex,
    "abs.default": _size,
    "add.Tensor": partial(_combined, combine=relax.op.add),
    "angle.default": _angle,
    "bmm.default": _matrix_product,
    "cat.default": _side_by_side,
    "complex.default": _of_parts,
    "conj_physical.default": _conjugate,
    "div.Tensor": _quotient,
    "exp.default": _exponential,
    "log.default": _logarithm,
    "matmul.default": _matrix_product,
    "mm.default": _matrix_product,
    "mean.dim": partial(_reduced, reduce=relax.op.mean),
    "mul.Scalar": _product,
    "mul.Tensor": _product,
    "polar.default": _of_angle,
    "scalar_tensor.default": _alone,
    "sub.Tensor": partial(_combined, combine=relax.op.subtract),
    "sum.dim_IntList": partial(_reduced, reduce=relax.op.sum),
    "view_as_complex.default": _taken_apart,
    "view_as_real.default": _put_together,
    "where.self": _chosen,
}
"""How complex numbers are made, combined and taken apart, by the names of PyTorch's operators."""
_BY_PARTS = {
    "_unsafe_view", "alias", "clone", "constant_pad_nd", "expand", "flip", "index", "neg",
    "permute", "repeat", "reshape", "select", "slice", "squeeze", "unsqueeze", "view",
}  # fmt: skip
"""Operators that move numbers, and do to each part what they do to real ones."""
