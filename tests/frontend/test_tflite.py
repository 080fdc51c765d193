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


def sum_with_a_constant(constant: np.ndarray) -> bytes:
    """Return the file of ``y = x + constant``."""
    b = flatbuffers.Builder(1024)

    def vector(start: object, items: list[int], append: str) -> int:
        start(b, len(items))  # type: ignore[operator]
        for item in reversed(items):
            getattr(b, append)(item)
        return int(b.EndVector())

    def tensor(name: str, buffer: int) -> int:
        text, shape = b.CreateString(name), vector(tflite.TensorStartShapeVector, list(SHAPE), "PrependInt32")
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, tflite.TensorType.FLOAT32)
        tflite.TensorAddBuffer(b, buffer)
        tflite.TensorAddName(b, text)
        return int(tflite.TensorEnd(b))

    def buffer(data: bytes) -> int:
        held = b.CreateByteVector(data) if data else None
        tflite.BufferStart(b)
        if held is not None:
            tflite.BufferAddData(b, held)
        return int(tflite.BufferEnd(b))

    buffers = vector(
        tflite.ModelStartBuffersVector, [buffer(b""), buffer(constant.tobytes())], "PrependUOffsetTRelative"
    )
    tensors = [tensor("x", 0), tensor("constant", 1), tensor("y", 0)]
    listed = vector(tflite.SubGraphStartTensorsVector, tensors, "PrependUOffsetTRelative")
    tflite.AddOptionsStart(b)
    options = tflite.AddOptionsEnd(b)
    given = vector(tflite.OperatorStartInputsVector, [0, 1], "PrependInt32")
    made = vector(tflite.OperatorStartOutputsVector, [2], "PrependInt32")
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, 0)
    tflite.OperatorAddInputs(b, given)
    tflite.OperatorAddOutputs(b, made)
    tflite.OperatorAddBuiltinOptionsType(b, tflite.BuiltinOptions.AddOptions)
    tflite.OperatorAddBuiltinOptions(b, options)
    operators = vector(tflite.SubGraphStartOperatorsVector, [tflite.OperatorEnd(b)], "PrependUOffsetTRelative")
    inputs = vector(tflite.SubGraphStartInputsVector, [0], "PrependInt32")
    outputs = vector(tflite.SubGraphStartOutputsVector, [2], "PrependInt32")
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, listed)
    tflite.SubGraphAddInputs(b, inputs)
    tflite.SubGraphAddOutputs(b, outputs)
    tflite.SubGraphAddOperators(b, operators)
    graphs = vector(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(b)], "PrependUOffsetTRelative")
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, tflite.BuiltinOperator.ADD)
    tflite.OperatorCodeAddBuiltinCode(b, tflite.BuiltinOperator.ADD)
    tflite.OperatorCodeAddVersion(b, 1)
    codes = vector(tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(b)], "PrependUOffsetTRelative")
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def test_a_file_with_a_weight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, x = (rng.standard_normal(SHAPE).astype("float32") for _ in range(2))
    (tmp_path / "model.tflite").write_bytes(sum_with_a_constant(weight))
    executable = vmkit.compile(tmp_path / "model.tflite", "llvm")
    assert [spec.name for spec in executable.inputs] == ["x"]
    np.testing.assert_array_equal(vmkit.VirtualMachine(executable, "cpu").run(x).numpy(), x + weight)


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
