"""TFLite files: weights are constants, results those of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit.cli import tvmc
from vmkit.cli.tvmc.exceptions import TVMCException
from vmkit.errors import UnsupportedOperatorError

tflite = pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")
flatbuffers = pytest.importorskip("flatbuffers")
SHAPE = (2, 3)
HEADER = "codegen/host/include/tvmgen_default.h"


def model(operators: list[tuple[str, str, str]], tensors: dict[str, object], inputs: list[str]) -> bytes:
    """Return the file of operators of their default options, the last of which gives the result.

    An operator is its name, that of its options, and the names of what it takes and at last gives. `tensors` has for
    each the array that it is, or the data type and the shape of one; those of `inputs` are the graph's own.
    """
    b = flatbuffers.Builder(1024)

    def vector(start: object, items: list[int], append: str = "PrependUOffsetTRelative") -> int:
        start(b, len(items))  # type: ignore[operator]
        for item in reversed(items):
            getattr(b, append)(item)
        return int(b.EndVector())

    def tensor(name: str, value: object, buffer: int) -> int:
        dtype, dims = (value.dtype, value.shape) if isinstance(value, np.ndarray) else value  # type: ignore[misc]
        text, shape = (
            b.CreateString(name),
            vector(tflite.TensorStartShapeVector, [int(d) for d in dims], "PrependInt32"),
        )
        kind = tflite.TensorType.INT32 if np.dtype(dtype) == np.int32 else tflite.TensorType.FLOAT32
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

    def operator(number: int, options: str, given: list[str]) -> int:
        getattr(tflite, f"{options}Start")(b)
        chosen = getattr(tflite, f"{options}End")(b)
        *taken, made = map(names.index, given)
        read = vector(tflite.OperatorStartInputsVector, taken, "PrependInt32")
        written = vector(tflite.OperatorStartOutputsVector, [made], "PrependInt32")
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, number)
        tflite.OperatorAddInputs(b, read)
        tflite.OperatorAddOutputs(b, written)
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options))
        tflite.OperatorAddBuiltinOptions(b, chosen)
        return int(tflite.OperatorEnd(b))

    def code(name: str) -> int:
        number = getattr(tflite.BuiltinOperator, name)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
        tflite.OperatorCodeAddBuiltinCode(b, number)
        tflite.OperatorCodeAddVersion(b, 1)
        return int(tflite.OperatorCodeEnd(b))

    names = list(tensors)
    data = [v.tobytes() if isinstance(v, np.ndarray) else b"" for v in tensors.values()]
    buffers = vector(tflite.ModelStartBuffersVector, [buffer(each) for each in (b"", *data)])
    held = vector(
        tflite.SubGraphStartTensorsVector, [tensor(n, v, at + 1) for at, (n, v) in enumerate(tensors.items())]
    )
    nodes = [operator(at, options, given.split()) for at, (_, options, given) in enumerate(operators)]
    listed = vector(tflite.SubGraphStartOperatorsVector, nodes)
    taken = vector(tflite.SubGraphStartInputsVector, [names.index(n) for n in inputs], "PrependInt32")
    outputs = vector(tflite.SubGraphStartOutputsVector, [names.index(operators[-1][2].split()[-1])], "PrependInt32")
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, held)
    tflite.SubGraphAddInputs(b, taken)
    tflite.SubGraphAddOutputs(b, outputs)
    tflite.SubGraphAddOperators(b, listed)
    graphs = vector(tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(b)])
    codes = vector(tflite.ModelStartOperatorCodesVector, [code(name) for name, _, _ in operators])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def sum_with_a_constant(constant: np.ndarray) -> bytes:
    """Return the file of ``y = x + constant``."""
    shape = ("float32", SHAPE)
    return model([("ADD", "AddOptions", "x constant y")], {"x": shape, "constant": constant, "y": shape}, ["x"])


def test_a_file_with_a_weight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, x = (rng.standard_normal(SHAPE).astype("float32") for _ in range(2))
    (tmp_path / "model.tflite").write_bytes(sum_with_a_constant(weight))
    executable = vmkit.compile(tmp_path / "model.tflite", "llvm")
    assert [spec.name for spec in executable.inputs] == ["x"]
    np.testing.assert_array_equal(vmkit.VirtualMachine(executable, "cpu").run(x).numpy(), x + weight)


def test_operators_at_which_the_importer_failed(tmp_path: Path) -> None:
    """An axis that is added, the shape of another tensor, and a product by a constant."""
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4)))
    given, axis, other = ("float32", SHAPE), np.int32([1]), np.zeros((3, 2), "float32")
    shaped = [("SHAPE", "ShapeOptions", "other shape"), ("RESHAPE", "ReshapeOptions", "x shape y")]
    files = {
        "added": ([("EXPAND_DIMS", "ExpandDimsOptions", "x axis y")], {"axis": axis, "y": ("float32", (2, 1, 3))}),
        "shaped": (shaped, {"other": other, "shape": ("int32", (2,)), "y": ("float32", (3, 2))}),
        "product": (
            [("BATCH_MATMUL", "BatchMatMulOptions", "x weight y")],
            {"weight": weight, "y": ("float32", (2, 4))},
        ),
    }
    expected = {"added": x[:, None], "shaped": x.reshape(3, 2), "product": x @ weight}
    for name, (operators, tensors) in files.items():
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(model(operators, {"x": given, **tensors}, ["x"]))
        result = vmkit.VirtualMachine(vmkit.compile(path, "llvm"), "cpu").run(x).numpy()
        np.testing.assert_allclose(result, expected[name], rtol=1e-6, err_msg=name)


def test_a_shape_that_the_caller_gives_is_refused(tmp_path: Path) -> None:
    """It might be another than the one in the file, which the result would have all the same."""
    tensors = {"x": ("float32", SHAPE), "shape": ("int32", (2,)), "y": ("float32", (3, 2))}
    path = tmp_path / "shaped.tflite"
    path.write_bytes(model([("RESHAPE", "ReshapeOptions", "x shape y")], tensors, ["x", "shape"]))
    with pytest.raises(UnsupportedOperatorError, match="RESHAPE to sizes that only the run knows"):
        vmkit.compile(path, "llvm")


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
