"""TFLite's operators of complex numbers, whose parts are the last axis of tensors in float32."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter

from ..errors import ModelError
from .tflite_fourier import real_transform

__all__ = ["ComplexConverter", "sizes_of"]

# Operators that have converters for complex numbers; others would take their parts for elements.
_TAKE_COMPLEX = frozenset(
    {"ADD", "CAST", "COMPLEX_ABS", "IMAG", "REAL", "RESHAPE", "SHAPE", "SQUEEZE", "STABLEHLO_TRANSPOSE", "SUB"}
)
# Of the axes of a Fourier transform: a prime length is one product with a square matrix.
_LONGEST = 1 << 14


def sizes_of(expr: relax.Expr) -> list[int] | None:
    """Return the shape of a tensor in numbers; None of what is none, or has sizes that are no numbers."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(d, tvm.tirx.IntImm) for d in shape.values):
        return None
    return [int(d) for d in shape.values]


class ComplexConverter(OperatorConverter):
    """Converts what takes complex numbers, or makes them of real ones."""

    def is_complex(self, tensor: Any) -> bool:  # noqa: ANN401 - of TVM's importer
        """Say whether a tensor is one of complex numbers."""
        # One that is left out has no type, and the place -1.
        return tensor.tensor_idx >= 0 and bool(self._is_tflite_complex64_type(tensor.tensor.Type()))

    def require_no_complex(self, name: str, op: Any) -> None:  # noqa: ANN401 - of tflite
        """Refuse complex numbers where an operator has no converter for them."""
        if name not in _TAKE_COMPLEX and any(map(self.is_complex, self.get_input_tensors(op))):
            raise NotImplementedError(f"{name} of complex numbers")

    def numbers_of(self, tensor: Any) -> list[int] | None:  # noqa: ANN401 - of TVM's importer
        """Return the sizes of a tensor, without the axis of the parts; None where they are not known."""
        sizes = sizes_of(self.bb.normalize(self.get_tensor_expr(tensor)))
        return sizes[:-1] if sizes is not None and self.is_complex(tensor) else sizes

    def convert_rfft2d(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert RFFT2D: TVM's own writes a kernel without loops, of the sizes that the file has."""
        data, lengths = self.get_input_tensors(op)
        sizes = self.numbers_of(data)
        wanted = [int(length) for length in self.get_tensor_value(lengths).reshape(-1)]
        if sizes is None or len(sizes) < 2 or self.get_tensor_type_str(data.tensor.Type()) != "float32":
            raise NotImplementedError("RFFT2D of signals of unknown sizes, or not of float32")
        if len(wanted) != 2 or not all(0 < length <= _LONGEST for length in wanted):
            raise ModelError(f"RFFT2D has the lengths {wanted}; there are two, from 1 to {_LONGEST}")
        return real_transform(self.get_tensor_expr(data), sizes, (wanted[0], wanted[1]))

    def convert_squeeze(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert SQUEEZE: TVM's own counts the axes from behind as if the parts of a number were one."""
        from tflite.SqueezeOptions import SqueezeOptions

        (tensor,) = self.get_input_tensors(op)
        if not self.is_complex(tensor):
            return super().convert_squeeze(op)
        options, sizes = self._get_builtin_options(op, SqueezeOptions), self.numbers_of(tensor) or []
        given = options.SqueezeDimsAsNumpy().tolist() if options.SqueezeDimsLength() else []
        if any(not -len(sizes) <= axis < len(sizes) or sizes[axis] != 1 for axis in given):
            raise ModelError(f"SQUEEZE of the axes {given} of sizes {sizes}")
        axes = [axis % len(sizes) for axis in given] or [at for at, size in enumerate(sizes) if size == 1]
        kept = [size for at, size in enumerate(sizes) if at not in axes]
        return relax.op.reshape(self.get_tensor_expr(tensor), [*kept, 2])

    def convert_cast(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert CAST: of complex numbers to others, their real parts; TVM's own casts both."""
        (tensor,) = self.get_input_tensors(op)
        (result,) = self.get_output_tensors(op)
        if self.is_complex(tensor) == self.is_complex(result):
            return self.get_tensor_expr(tensor) if self.is_complex(tensor) else super().convert_cast(op)
        if self.is_complex(result):
            raise NotImplementedError("CAST to complex numbers")
        return relax.op.astype(self.convert_real(op), self.get_tensor_type_str(result.tensor.Type()))
