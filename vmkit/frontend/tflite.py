"""TFLite files as Relax modules, read by TVM's importer."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..errors import InputError, ModelError, UnsupportedOperatorError
from .packages import needed
from .tflite_sizes import resized, stand_ins

__all__ = ["VERSION", "from_tflite", "operators_of"]

VERSION = 3
"""The version of the file format that is read."""

# The identifier of the file format, from its fourth byte on.
_IDENTIFIER = f"TFL{VERSION}".encode()


def from_tflite(path: Path, shapes: Mapping[str, Sequence[Any]] | None = None) -> tvm.IRModule:
    """Return the Relax module of a TFLite file, its weights constants.

    Variables that the model changes are inputs behind its own, and what becomes of them results behind its own, in one
    order; then the function ``initial_state`` gives their first values.

    Parameters
    ----------
    path : Path
        The file.
    shapes : mapping, optional
        The shapes of inputs, in numbers, whose sizes in the file stand for others.

    Raises
    ------
    ModelError
        For a file that is no TFLite model.
    UnsupportedOperatorError
        When TVM's importer cannot convert it, with what it says.
    InputError
        When `shapes` do not fit the model.
    UnavailableError
        Where the package ``tflite`` is not installed.
    """
    model = _read(path)
    hint = ""
    try:
        sizes = {} if shapes is None else resized(model.Subgraphs(0), path.name, shapes)
        hint = stand_ins(model.Subgraphs(0), sizes)
        return _imported(model, sizes)
    except InputError:
        raise
    except NotImplementedError as error:
        raise UnsupportedOperatorError(f"{path.name}: TVM's importer cannot convert it: {error}{hint}") from error
    except ModelError as error:
        raise ModelError(f"{path.name}: {error}{hint}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"{path.name}: TVM's importer fails at it: {reason}{hint}") from error


def operators_of(path: Path) -> dict[str, int]:
    """Return how many operators of each kind a TFLite file has, in all its graphs.

    Raises
    ------
    ModelError
        For a file that is no TFLite model, or has operators of no kind that it lists.
    UnavailableError
        Where the package ``tflite`` is not installed.
    """
    model = _read(path)
    tflite = needed("tflite", "tflite", f"{path.name}: a TFLite file")
    names = {number: name for name, number in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
    found: Counter[str] = Counter()
    try:
        codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
        kinds = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]
        for at in range(model.SubgraphsLength()):
            graph = model.Subgraphs(at)
            listed = (graph.Operators(each).OpcodeIndex() for each in range(graph.OperatorsLength()))
            found.update(names.get(kinds[each], f"operator {kinds[each]}") for each in listed)
    except (struct.error, IndexError) as error:
        raise ModelError(f"{path.name} is no TFLite model, or a broken one: {error}") from error
    return dict(sorted(found.items()))


def _read(path: Path) -> Any:  # noqa: ANN401 - of tflite
    tflite = needed("tflite", "tflite", f"{path.name}: a TFLite file")
    data = path.read_bytes()
    if data[4:8] != _IDENTIFIER:
        raise ModelError(f"{path.name} is no TFLite model: it has {data[4:8]!r} where such a file has {_IDENTIFIER!r}")
    try:
        return tflite.Model.GetRootAsModel(data, 0)
    except struct.error as error:
        raise ModelError(f"{path.name} is no TFLite model, or a truncated one: {error}") from error


def _imported(model: Any, sizes: Mapping[int, Sequence[int]]) -> tvm.IRModule:  # noqa: ANN401 - of tflite
    from tvm import relax
    from tvm.relax.frontend.tflite.tflite_frontend import ExprTable

    from .tflite_converter import Converter

    graph, builder = model.Subgraphs(0), relax.BlockBuilder()
    with builder.function("main"):
        with builder.dataflow():
            converter = Converter(model, graph, ExprTable(), builder, sizes=sizes)
            inputs = [converter.input_of(int(graph.Inputs(k))) for k in range(graph.InputsLength())]
            converter.check_unsupported_ops()
            converter.convert_op_to_relax()
            tensors = converter.get_tensors([int(graph.Outputs(k)) for k in range(graph.OutputsLength())])
            variables = list((converter.variables or {}).values())
            results = [*map(converter.get_tensor_expr, tensors), *(v.value for v in variables)]
            result = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(result, [*inputs, *(v.given for v in variables)])
    if variables:
        with builder.function("initial_state"):
            builder.emit_func_output(relax.Tuple([v.first for v in variables]), [])
    module = builder.get()
    names = [*_names_of_outputs(model), *(f"{v.name}:next" for v in variables)]
    module.update_func(
        module.get_global_var("main"),
        module["main"].with_attr("num_input", len(module["main"].params)).with_attr("output_tensor_names", names),
    )
    return module


def _names_of_outputs(model: Any) -> list[str]:  # noqa: ANN401 - of tflite
    """Return what a model calls its results; in C their places have these names."""
    graph = model.Subgraphs(0)
    return [graph.Tensors(graph.Outputs(k)).Name().decode() for k in range(graph.OutputsLength())]
