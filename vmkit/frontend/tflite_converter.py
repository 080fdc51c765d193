"""TVM's converter of TFLite's operators, with those mended that fail in it. Imported where such a file is read."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter

__all__ = ["Converter"]


class Converter(OperatorConverter):
    """Converts the operators of one graph."""

    def get_expr(self, input_tensor_idx: int) -> relax.Expr:
        """Return a tensor; TVM's own knows no constants, which some of its converters ask it for."""
        if self.has_expr(input_tensor_idx):
            return super().get_expr(input_tensor_idx)
        (tensor,) = self.get_tensors([input_tensor_idx])
        return self.get_tensor_expr(tensor)

    def convert_expand_dims(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert EXPAND_DIMS: TVM's own passes ``relax.op.expand_dims`` a number of axes, as Relay's takes one."""
        data, axis = self.get_input_tensors(op)
        (result,) = self.get_output_tensors(op)
        if data.qnn_params and not self.has_same_qnn_params(data, result):
            raise NotImplementedError("EXPAND_DIMS that changes the scale or the zero point")
        return relax.op.expand_dims(self.get_tensor_expr(data), int(self.get_tensor_value(axis).reshape(())))

    def convert_reshape(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert RESHAPE: TVM's own takes a shape that the graph computes for a list of numbers.

        The file says what comes of it, as of all its tensors; not so of a shape that the caller gives.
        """
        data, *shape = self.get_input_tensors(op)
        if not shape or not self.has_expr(shape[0].tensor_idx):
            return super().convert_reshape(op)
        (result,) = self.get_output_tensors(op)
        if data.qnn_params and not self.has_same_qnn_params(data, result):
            raise NotImplementedError("RESHAPE to a computed shape that changes the scale or the zero point")
        inputs = self.subgraph.InputsAsNumpy().tolist()
        if shape[0].tensor_idx in inputs or -1 in (
            result.tensor.ShapeSignatureAsNumpy() if result.tensor.ShapeSignatureLength() else ()
        ):
            raise NotImplementedError("RESHAPE to sizes that only the run knows")
        return relax.op.reshape(self.get_tensor_expr(data), [int(size) for size in result.tensor.ShapeAsNumpy()])
