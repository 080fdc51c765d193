"""TVM's converter of TFLite's operators, with those mended that fail in it. Imported where such a file is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, get_tensor_name

from .._dataclasses import dataclass
from ..errors import ModelError
from .relax_values import value_of
from .tflite_complex import ComplexConverter, sizes_of
from .tflite_sizes import file_shape, signature_of
from .tflite_weights import dense, widened

__all__ = ["Converter", "Variable"]


# Operators that hand elements on as they are, so that quantised ones may be taken for integers.
_MOVES = (
    "BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK", "REVERSE_V2",
    "SLICE", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
)  # fmt: skip
# Operators whose graphs are others, of which the file says the sizes.
_OTHER_GRAPHS = frozenset({"CALL", "IF", "WHILE"})
_VARIABLES = ("ASSIGN_VARIABLE", "READ_VARIABLE")
# Operators that compute in floats by weights of 8 bits, which is how files are quantised without calibration.
_BY_SMALL_WEIGHTS = frozenset({"BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
# Operators that give other numbers on each call.
_RANDOM = frozenset({"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"})
# Of the elements of a tensor that is computed while importing.
_MOST_KNOWN = 1 << 12
# Of the file format's numbers for types, whose names are in a package that need not be there.
_FLOAT32, _FLOAT16, _UINT8, _INT8 = 0, 1, 3, 9


def _name_of(tensor: Any) -> str:  # noqa: ANN401 - of TVM's importer
    return repr((tensor.tensor.Name() or b"").decode(errors="replace"))


def _turned(expr: relax.Expr) -> relax.Expr:
    """Return a stack of matrices with rows for columns."""
    rank = int(expr.ty.ndim)
    return relax.op.permute_dims(expr, [*range(rank - 2), rank - 1, rank - 2])


@dataclass
class Variable:
    """What a model keeps from call to call: its first value, the one a call is given, the one it leaves."""

    name: str
    first: GenericConst
    given: relax.Var
    value: relax.Expr


class Converter(ComplexConverter):
    """Converts the operators of one graph.

    Attributes
    ----------
    variables : dict
        Those that the graph changes, by their container and name; of graphs of branches and loops, None.
    sizes : mapping
        The shapes of inputs that the caller gives, by their places among the tensors.
    """

    _SUPPORTED_QUANTIZED_OPS = ComplexConverter._SUPPORTED_QUANTIZED_OPS | {*_MOVES, *_VARIABLES}

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        subgraph: Any,  # noqa: ANN401
        table: ExprTable,
        builder: Any,  # noqa: ANN401
        state: Any = None,  # noqa: ANN401
        sizes: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(model, subgraph, table, builder, state)
        self.sizes = sizes or {}
        self.variables: dict[tuple[str, str], Variable] | None = {} if state is None else None
        self._known: dict[int, np.ndarray] = {}
        self._is_checking = False
        self._widened = self._small_weights()
        if state is None:
            self.conversion_state["changed"] = self._changed()
        for name in _MOVES:
            self.convert_map[name] = partial(self._moved, name, self.convert_map[name])
        for name, convert in self.convert_map.items():
            self.convert_map[name] = partial(self._explained, name, convert)

    def input_of(self, index: int) -> relax.Var:
        """Return the parameter that stands for an input of the graph."""
        tensor = self.subgraph.Tensors(index)
        dtype = self.get_tensor_type_str(tensor.Type())
        if dtype == "string":
            raise NotImplementedError("inputs of strings")
        shape = list(self.sizes.get(index, file_shape(tensor)))
        if dtype == "complex64":
            shape, dtype = [*shape, 2], "float32"
        name = get_tensor_name(self.subgraph, index)
        made = relax.Var(name, relax.TensorType(shape=shape, dtype=dtype))
        self.exp_tab.set_expr(name, made)
        return made

    def get_tensor_shape(self, tensor_wrapper: Any) -> Any:  # noqa: ANN401 - of TVM's importer
        """Return the shape of a tensor: that of what is computed, where it is known, or else that in the file."""
        tensor = tensor_wrapper.tensor
        if tensor_wrapper.tensor_idx in self._known:
            return np.array(self._known[tensor_wrapper.tensor_idx].shape, "int64")
        if self.has_expr(tensor_wrapper.tensor_idx):
            # What is computed is right; the file may have 1 for sizes that its converter did not work out.
            sizes = sizes_of(self.bb.normalize(self.get_expr(tensor_wrapper.tensor_idx)))
            if sizes is not None and len(sizes) == len(file_shape(tensor)):
                return np.array(sizes, "int64")
        if self.sizes and -1 in signature_of(tensor):
            raise NotImplementedError("an operator that takes from the file what depends on the sizes of the inputs")
        return super().get_tensor_shape(tensor_wrapper)

    def _explained(self, name: str, convert: Callable[..., Any], op: Any) -> Any:  # noqa: ANN401 - of tflite
        """Convert an operator; ModelError with what it is given where TVM's own converter fails, or makes nonsense."""
        if self.sizes and name in _OTHER_GRAPHS:
            raise NotImplementedError(f"{name} in a graph whose inputs the caller gives other sizes")
        self.require_no_complex(name, op)
        try:
            made = convert(op=op)
            results = made if isinstance(made, relax.Expr) else None
            result = None if results is None else self.bb.normalize(results)
        except (ModelError, NotImplementedError):
            raise
        except Exception as error:
            read = [int(at) for at in op.InputsAsNumpy()] if op.InputsLength() else []
            types = ", ".join(self._text(at) for at in read if at >= 0)
            reason = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
            raise ModelError(f"TVM's importer fails at {name} of ({types}): {reason}") from error
        sizes = None if result is None else sizes_of(result)
        if sizes is not None and min(sizes, default=0) < 0:
            raise ModelError(f"{name} gives sizes {sizes}: what it slides over is smaller than its window")
        if self._become_known(name, op, made if result is None else result):
            return None
        return made if result is None else result

    def _become_known(self, name: str, op: Any, made: Any) -> bool:  # noqa: ANN401 - of tflite
        """Keep what an operator gives if it is integers that follow from stored and known ones, as shapes are made of.

        They are as stored ones from then on: TVM's converters of what takes a shape, an axis or a place read it.
        """
        read = [int(at) for at in op.InputsAsNumpy()] if op.InputsLength() else []
        outputs = self.get_output_tensors(op)
        if made is None or name in _OTHER_GRAPHS or name in _RANDOM or any(t.qnn_params for t in outputs):
            return False
        if not all(self.get_tensor_type_str(t.tensor.Type()) in ("int32", "int64") for t in outputs):
            return False
        if not (name == "SHAPE" or (read and all(self._is_known(at) for at in read if at >= 0))):
            return False
        parts = [made] if len(outputs) == 1 else [made[at] for at in range(len(outputs))]
        results = [self.bb.normalize(each) for each in parts]
        sizes = [sizes_of(each) for each in results]
        if any(each is None or math.prod(each) > _MOST_KNOWN for each in sizes):
            return False
        values = [value_of(each, self.bb.lookup_binding) for each in results]
        if any(value is None for value in values):
            return False
        self._known.update({t.tensor_idx: value for t, value in zip(outputs, values, strict=True) if value is not None})
        return True

    def _is_known(self, index: int) -> bool:
        tensor = self.subgraph.Tensors(index)
        is_stored = self.model.Buffers(tensor.Buffer()).DataLength() > 0 or 0 in file_shape(tensor)
        return index in self._known or (is_stored and not self.has_expr(index))

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Say whether a tensor is computed when the program runs, or is a constant that was made here."""
        return input_tensor_idx not in self._known and bool(super().has_expr(input_tensor_idx))

    def _text(self, index: int) -> str:
        """Return the type of a tensor as messages have it."""
        tensor = self.subgraph.Tensors(index)
        sizes = sizes_of(self.bb.normalize(self.get_expr(index))) if self.has_expr(index) else file_shape(tensor)
        return f"{self.get_tensor_type_str(tensor.Type())}{sizes}"

    def check_unsupported_ops(self) -> None:
        """Refuse what has no converter, by TVM's own test."""
        self._is_checking = True
        super().check_unsupported_ops()
        self._is_checking = False

    def get_input_tensors(self, op: Any) -> list[Any]:  # noqa: ANN401 - of tflite
        """Return what an operator takes; TVM's test takes the value of a variable for a quantised weight."""
        if self._is_checking and self.get_op_code_str(op) == "ASSIGN_VARIABLE":
            return []
        tensors = list(super().get_input_tensors(op))
        for tensor in tensors:
            if tensor.tensor_idx in self._widened:
                self._widen(tensor)
        return tensors

    def _small_weights(self) -> set[int]:
        """Return the quantised weights that are read by operators of floats alone.

        LiteRT quantises what such an operator is given, too, on each call. The weights are what has lost precision in
        the file; computing by them in float32 loses no more.
        """
        small: set[int] = set()
        others: set[int] = set()
        for at in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(at)
            read, *weights = (int(index) for index in op.InputsAsNumpy()) if op.InputsLength() else (-1,)
            is_float = self.get_op_code_str(op) in _BY_SMALL_WEIGHTS and all(
                index >= 0 and self.subgraph.Tensors(index).Type() == _FLOAT32 for index in (read, int(op.Outputs(0)))
            )
            (small if is_float else others).update(weights)
            others.add(read)
        return {index for index in small - others if index >= 0 and self._is_small(index)}

    def _is_small(self, index: int) -> bool:
        tensor = self.subgraph.Tensors(index)
        scales = tensor.Quantization()
        is_stored = self.model.Buffers(tensor.Buffer()).DataLength() > 0
        return is_stored and scales is not None and scales.ScaleLength() > 0 and tensor.Type() in (_INT8, _UINT8)

    def _widen(self, tensor: Any) -> None:  # noqa: ANN401 - of TVM's importer
        """Let a quantised weight stand for a constant in float32."""
        if not self.has_expr(tensor.tensor_idx):
            given = tensor.qnn_params
            scales, zero = (given[name].value.numpy() for name in ("scale", "zero_point"))
            values = widened(self.get_tensor_value(tensor), scales, int(zero), given["axis"])
            self.exp_tab.set_expr(get_tensor_name(self.subgraph, tensor.tensor_idx), relax.const(values))
        tensor.qnn_params = None

    def get_tensor_value(self, tensor: Any, is_sparse: bool = False) -> np.ndarray:  # noqa: ANN401 - of TVM's importer
        """Return a constant, or what is known of those: a sparse one with its zeros, one without elements.

        TVM's own reads what the file stores of the tensor, as it is.
        """
        if tensor.tensor_idx in self._known:
            return self._known[tensor.tensor_idx]
        if tensor.buffer.DataLength() == 0:
            shape = file_shape(tensor.tensor)
            if self.has_expr(tensor.tensor_idx) or math.prod(shape) != 0:
                raise NotImplementedError(f"an operator whose {_name_of(tensor)} only the run knows")
            return np.zeros(shape, self.get_tensor_type_as_numpy(tensor))
        if is_sparse or tensor.tensor.Sparsity() is None:
            return super().get_tensor_value(tensor, is_sparse)
        return dense(tensor.tensor, super().get_tensor_value(tensor, is_sparse=True))

    def convert_densify(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert DENSIFY: a weight with its zeros."""
        (tensor,) = self.get_input_tensors(op)
        return self.get_tensor_expr(tensor)

    def convert_dequantize(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert DEQUANTIZE: TVM's own widens weights of float16 on each call, and knows none that DENSIFY made."""
        (tensor,) = self.get_input_tensors(op)
        if tensor.tensor.Type() != _FLOAT16:
            return super().convert_dequantize(op)
        if self.has_expr(tensor.tensor_idx):
            expr = self.get_expr(tensor.tensor_idx)
            if not isinstance(expr, GenericConst):
                return relax.op.astype(expr, "float32")
            return relax.const(expr.value.numpy().astype("float32"))
        return relax.const(self.get_tensor_value(tensor).astype("float32"))

    def convert_read_variable(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert READ_VARIABLE: of one that the graph changes, the value that it has there."""
        (handle,) = self.get_input_tensors(op)
        key = self._get_resource_key_for_handle(handle, "READ_VARIABLE")
        if key not in self.conversion_state["changed"]:
            return super().convert_read_variable(op)
        return self._variable(key).value

    def convert_assign_variable(self, op: Any) -> None:  # noqa: ANN401 - of tflite
        """Convert ASSIGN_VARIABLE, which TVM's own takes for first values only."""
        if self.conversion_state["in_call_once_init"]:
            super().convert_assign_variable(op)
            return
        handle, value = self.get_input_tensors(op)
        variable = self._variable(self._get_resource_key_for_handle(handle, "ASSIGN_VARIABLE"))
        new = self.bb.normalize(self.get_tensor_expr(value))
        if not tvm_ffi.structural_equal(new.ty, variable.given.ty):
            raise NotImplementedError(f"ASSIGN_VARIABLE of {new.ty} to {variable.name!r}, which is {variable.given.ty}")
        variable.value = new

    def _variable(self, key: tuple[str, str]) -> Variable:
        if self.variables is None:
            raise NotImplementedError("variables that change in a branch or a loop")
        if key not in self.variables:
            first = self.conversion_state["resource_values"].get(key)
            if not isinstance(first, GenericConst):
                raise NotImplementedError(f"the variable {key[1]!r}, which CALL_ONCE gives no first value")
            given = relax.Var(key[1], first.ty)
            self.variables[key] = Variable(key[1], first, given, given)
        return self.variables[key]

    def _changed(self) -> set[tuple[str, str]]:
        """Return the variables that the graph, or a branch or a loop of it, assigns to outside CALL_ONCE."""
        handles: dict[int, tuple[str, str]] = {}
        changed = set()
        for at in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(at)
            match self.get_op_code_str(op):
                case "VAR_HANDLE":
                    (made,) = self.get_output_tensors(op)
                    handles[made.tensor_idx] = self._get_var_handle_resource_key(op, made)
                case "ASSIGN_VARIABLE" if op.Inputs(0) in handles:
                    changed.add(handles[op.Inputs(0)])
        return changed

    def _moved(self, name: str, convert: Callable[..., Any], op: Any) -> Any:  # noqa: ANN401 - of tflite
        """Convert an operator that hands elements on, which are quantised alike before and after."""
        tensors = [*self.get_input_tensors(op), *self.get_output_tensors(op)]
        quantized = [tensor for tensor in tensors if tensor.qnn_params]
        is_one = all(self.has_same_qnn_params(quantized[0], each) for each in quantized[1:])
        if quantized and not (is_one and self.get_output_tensors(op)[0].qnn_params):
            raise NotImplementedError(f"{name} that changes the scale or the zero point")
        return convert(op=op)

    def get_expr(self, input_tensor_idx: int) -> relax.Expr:
        """Return a tensor; TVM's own knows no constants, which some of its converters ask it for."""
        if self.has_expr(input_tensor_idx):
            return super().get_expr(input_tensor_idx)
        (tensor,) = self.get_tensors([input_tensor_idx])
        return self.get_tensor_expr(tensor)

    def convert_expand_dims(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert EXPAND_DIMS: TVM's own passes ``relax.op.expand_dims`` a number of axes, as Relay's takes one."""
        data, axis = self.get_input_tensors(op)
        return relax.op.expand_dims(self.get_tensor_expr(data), int(self.get_tensor_value(axis).reshape(())))

    def convert_batch_matmul(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert BATCH_MATMUL: TVM's own fails where one operand is to be repeated."""
        from tflite.BatchMatMulOptions import BatchMatMulOptions

        if self.is_quantized(op):
            return super().convert_batch_matmul(op)
        options = self._get_builtin_options(op, BatchMatMulOptions)
        first, second = (self.bb.normalize(self.get_tensor_expr(t)) for t in self.get_input_tensors(op))
        if options.AdjX():
            first = self.bb.normalize(_turned(first))
        if options.AdjY():
            second = self.bb.normalize(_turned(second))
        sizes, by = sizes_of(first), sizes_of(second)
        if sizes is None or by is None or len(sizes) < 3 or len(by) != 2:
            return relax.op.matmul(first, second)
        # All rows by one matrix are one product.
        rows = relax.op.reshape(first, [math.prod(sizes[:-1]), sizes[-1]])
        return relax.op.reshape(relax.op.matmul(rows, second), [*sizes[:-1], by[-1]])

    def convert_shape(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert SHAPE: numbers where the sizes are known, so that what is computed from them is."""
        (tensor,) = self.get_input_tensors(op)
        sizes = self.numbers_of(tensor)
        if sizes is None:
            return super().convert_shape(op)
        (result,) = self.get_output_tensors(op)
        dtype = self.get_tensor_type_str(result.tensor.Type())
        return relax.const(np.array(sizes, dtype))

    def convert_reshape(self, op: Any) -> relax.Expr:  # noqa: ANN401 - of tflite
        """Convert RESHAPE: TVM's own takes a shape that the graph computes for a list of numbers.

        Where that follows from known sizes, it is computed here. Else the file says what comes of it, as of all its
        tensors; not so of a shape that the caller gives.
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
