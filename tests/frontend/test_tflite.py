"""TFLite files: weights are constants, results those of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit.cli import tvmc
from vmkit.cli.tvmc.exceptions import TVMCException

tflite = pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")
flatbuffers = pytest.importorskip("flatbuffers")
SHAPE = (2, 3)
HEADER = "codegen/host/include/tvmgen_default.h"


def model(operator: str, options: str, tensors: dict[str, object], inputs: list[str], result: str) -> bytes:
    """Return the file of one operator of its default options.

    `tensors` has for each the array that it is, or a shape of floats; those of `inputs` are the graph's own.
    """
    b = flatbuffers.Builder(1024)

    def vector(start: object, items: list[int], append: str = "PrependUOffsetTRelative") -> int:
        start(b, len(items))  # type: ignore[operator]
        for item in reversed(items):
            getattr(b, append)(item)
        return int(b.EndVector())

    def tensor(name: str, value: object, buffer: int) -> int:
        is_constant = isinstance(value, np.ndarray)
        dims = [int(d) for d in (value.shape if is_constant else value)]  # type: ignore[attr-defined]
        text, shape = b.CreateString(name), vector(tflite.TensorStartShapeVector, dims, "PrependInt32")
        kind = tflite.TensorType.INT32 if is_constant and value.dtype == np.int32 else tflite.TensorType.FLOAT32
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, kind)
        tflite.TensorAddBuffer(b, buffer)
        tflite.TensorAddName(b, text)
        return int(tflite.TensorEnd(b))

    def buffer(data: bytes) -> int:
        held = b.CreateByteVector(data) if data else None
        tflite.BufferStart(b)
        if held is not None:
            tflite.BufferAddData(b, held)
        return int(tflite.BufferEnd(b))

    names = list(tensors)
    constants = {name: value for name, value in tensors.items() if name not in inputs}
    data = [constants[n].tobytes() if isinstance(constants.get(n), np.ndarray) else b"" for n in names]  # type: ignore[attr-defined]
    buffers = vector(tflite.ModelStartBuffersVector, [buffer(each) for each in (b"", *data)])
    listed = [tensor(name, value, at + 1) for at, (name, value) in enumerate(tensors.items())]
    held = vector(tflite.SubGraphStartTensorsVector, listed)
    getattr(tflite, f"{options}Start")(b)
    chosen = getattr(tflite, f"{options}End")(b)
    given = vector(tflite.OperatorStartInputsVector, list(range(len(names) - 1)), "PrependInt32")
    made = vector(tflite.OperatorStartOutputsVector, [names.index(result)], "PrependInt32")
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, 0)
    tflite.OperatorAddInputs(b, given)
    tflite.OperatorAddOutputs(b, made)
    tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options))
    tflite.OperatorAddBuiltinOptions(b, chosen)
    operators = vector(tflite.SubGraphStartOperatorsVector, [tflite.OperatorEnd(b)])
    taken = vector(tflite.SubGraphStartInputsVector, [names.index(n) for n in inputs], "PrependInt32")
    outputs = vector(tflite.SubGraphStartOutputsVector, [names.index(result)], "PrependInt32")
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, held)
    tflite.SubGraphAddInputs(b, taken)
    tflite.SubGraphAddOutputs(b, outputs)
    tflite.SubGraphAddOperators(b, operators)
    graphs = vector(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(b)])
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(getattr(tflite.BuiltinOperator, operator), 127))
    tflite.OperatorCodeAddBuiltinCode(b, getattr(tflite.BuiltinOperator, operator))
    tflite.OperatorCodeAddVersion(b, 1)
    codes = vector(tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(b)])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def sum_with_a_constant(constant: np.ndarray) -> bytes:
    """Return the file of ``y = x + constant``."""
    return model("ADD", "AddOptions", {"x": SHAPE, "constant": constant, "y": SHAPE}, ["x"], "y")


def test_a_file_with_a_weight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, x = (rng.standard_normal(SHAPE).astype("float32") for _ in range(2))
    (tmp_path / "model.tflite").write_bytes(sum_with_a_constant(weight))
    executable = vmkit.compile(tmp_path / "model.tflite", "llvm")
    assert [spec.name for spec in executable.inputs] == ["x"]
    np.testing.assert_array_equal(vmkit.VirtualMachine(executable, "cpu").run(x).numpy(), x + weight)


def test_operators_at_which_the_importer_failed(tmp_path: Path) -> None:
    """An axis that is added, a shape that the program is given, and a product by a constant."""
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4)))
    shape = np.int32([3, 2])
    files = {
        "added": ("EXPAND_DIMS", "ExpandDimsOptions", {"x": SHAPE, "axis": np.int32(1).reshape(1), "y": (2, 1, 3)}),
        "shaped": ("RESHAPE", "ReshapeOptions", {"x": SHAPE, "shape": shape, "y": (3, 2)}),
        "product": ("BATCH_MATMUL", "BatchMatMulOptions", {"x": SHAPE, "weight": weight, "y": (2, 4)}),
    }
    expected = {"added": x[:, None], "shaped": x.reshape(3, 2), "product": x @ weight}
    for name, (operator, options, tensors) in files.items():
        path, inputs = tmp_path / f"{name}.tflite", ["x", "shape"] if name == "shaped" else ["x"]
        path.write_bytes(model(operator, options, tensors, inputs, "y"))
        given = (x, shape) if name == "shaped" else (x,)
        result = vmkit.VirtualMachine(vmkit.compile(path, "llvm"), "cpu").run(*given).numpy()
        np.testing.assert_allclose(result, expected[name], rtol=1e-6, err_msg=name)


def test_shapes_that_tvmc_is_told_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(sum_with_a_constant(np.zeros(SHAPE, "float32")))
    assert tvmc.load(str(path), shape_dict={"x": [2, 3]}).params == {}
    with pytest.raises(TVMCException, match=r"'x' has the shape \[2, 3\] in the file, which says it"):
        tvmc.load(str(path), shape_dict={"x": [3, 3]})
    with pytest.raises(TVMCException, match="the model has no input 'y'"):
        tvmc.load(str(path), shape_dict={"y": [2, 3]})


def test_results_have_their_names_in_c(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(sum_with_a_constant(np.ones(SHAPE, "float32")))
    metadata = vmkit.mlf.export(tmp_path / "model.tflite", tmp_path / "model.tar")
    (main,) = metadata["modules"]["default"]["memory"]["functions"]["main"]
    assert main["outputs"] == {"y": {"size": 24, "dtype": "float32"}}
    assert b"void* y; /* float32[2, 3] */" in vmkit.mlf.load(tmp_path / "model.tar").files[HEADER]
