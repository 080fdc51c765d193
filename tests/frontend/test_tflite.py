"""TFLite files: weights are constants, results those of numpy."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit.cli import tvmc
from vmkit.cli.tvmc.exceptions import TVMCException
from vmkit.errors import ModelError, UnsupportedOperatorError

tflite = pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")
flatbuffers = pytest.importorskip("flatbuffers")
SHAPE = (2, 3)
HEADER = "codegen/host/include/tvmgen_default.h"


class Graph:
    """A graph of a file: its operators, its tensors, and what it takes and gives.

    An operator is its name, that of its options with those that are not 0 behind it, and the names of what it takes and
    at last gives, ``-`` for nothing. A list among the options is ``Axes=[0,1]``.
    `tensors` has for each the array that it is, or the data type and the shape of one, or a sparse one; behind an array
    or a shape come the scale and the zero point of one that is quantised. `inputs` are the graph's own; what the last
    operator gives is its result, or `outputs`.
    """

    def __init__(
        self,
        operators: list[tuple[str, str, str]],
        tensors: dict[str, object],
        inputs: list[str],
        outputs: list[str] | None = None,
    ) -> None:
        self.operators, self.tensors, self.inputs = operators, tensors, inputs
        self.outputs = [operators[-1][2].split()[-1]] if outputs is None else outputs


class Sparse:
    """A tensor as its elements that are not zero: its levels are sizes, or segments and indices in a data type."""

    def __init__(
        self,
        shape: tuple[int, ...],
        values: np.ndarray,
        levels: list[int | tuple[list[int], list[int], str]],
        order: list[int],
        blocks: tuple[int, ...] = (),
    ) -> None:
        self.shape, self.values, self.levels, self.order, self.blocks = shape, values, levels, order, blocks
        self.dtype = values.dtype

    def written(self, b: Any) -> int:
        """Write the sparsity into a file that is built."""

        def numbers(kind: str, items: list[int]) -> int:
            held = b.CreateNumpyVector(np.array(items, kind.lower()))
            getattr(tflite, f"{kind}VectorStart")(b)
            getattr(tflite, f"{kind}VectorAddValues")(b, held)
            return int(getattr(tflite, f"{kind}VectorEnd")(b))

        def level(value: int | tuple[list[int], list[int], str]) -> int:
            held = [numbers(value[2], each) for each in value[:2]] if isinstance(value, tuple) else []
            tflite.DimensionMetadataStart(b)
            if isinstance(value, tuple):
                kind = getattr(tflite.SparseIndexVector, f"{value[2]}Vector")
                tflite.DimensionMetadataAddFormat(b, 1)
                tflite.DimensionMetadataAddArraySegmentsType(b, kind)
                tflite.DimensionMetadataAddArraySegments(b, held[0])
                tflite.DimensionMetadataAddArrayIndicesType(b, kind)
                tflite.DimensionMetadataAddArrayIndices(b, held[1])
            else:
                tflite.DimensionMetadataAddDenseSize(b, value)
            return int(tflite.DimensionMetadataEnd(b))

        levels = [level(each) for each in self.levels]
        order, blocks = (b.CreateNumpyVector(np.array(each, "int32")) for each in (self.order, self.blocks))
        tflite.SparsityParametersStartDimMetadataVector(b, len(levels))
        for each in reversed(levels):
            b.PrependUOffsetTRelative(each)
        listed = b.EndVector()
        tflite.SparsityParametersStart(b)
        tflite.SparsityParametersAddTraversalOrder(b, order)
        tflite.SparsityParametersAddBlockMap(b, blocks)
        tflite.SparsityParametersAddDimMetadata(b, listed)
        return int(tflite.SparsityParametersEnd(b))


def model(
    operators: list[tuple[str, str, str]],
    tensors: dict[str, object],
    inputs: list[str],
    outputs: list[str] | None = None,
    *,
    once: Graph | None = None,
) -> bytes:
    """Return the file of a graph, and of another one that CALL_ONCE calls."""
    b = flatbuffers.Builder(1024)
    graphs = [Graph(operators, tensors, inputs, outputs), *([once] if once else [])]
    codes = list(dict.fromkeys(name for graph in graphs for name, _, _ in graph.operators))
    data: list[bytes] = [b""]  # of the buffers, the first of which is empty

    def vector(start: object, items: list[int], append: str = "PrependUOffsetTRelative") -> int:
        start(b, len(items))  # type: ignore[operator]
        for item in reversed(items):
            getattr(b, append)(item)
        return int(b.EndVector())

    def quantization(scale: float, zero: int) -> int:
        scales = vector(tflite.QuantizationParametersStartScaleVector, [scale], "PrependFloat32")  # type: ignore[list-item]
        zeros = vector(tflite.QuantizationParametersStartZeroPointVector, [zero], "PrependInt64")
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, scales)
        tflite.QuantizationParametersAddZeroPoint(b, zeros)
        return int(tflite.QuantizationParametersEnd(b))

    def tensor(name: str, value: object) -> int:
        sparsity = value.written(b) if isinstance(value, Sparse) else None
        held, *alike = value if isinstance(value, tuple) else (value,)
        dtype, dims = (held, alike.pop(0)) if isinstance(held, str) else (held.dtype, held.shape)
        data.append(b"" if isinstance(held, str) else getattr(held, "values", held).tobytes())
        # -1 in a signature is a size that only the run knows; the shape has 1 there.
        text, shape, signature = (
            b.CreateString(name),
            vector(tflite.TensorStartShapeVector, [abs(int(d)) for d in dims], "PrependInt32"),
            vector(tflite.TensorStartShapeSignatureVector, [int(d) for d in dims], "PrependInt32"),
        )
        quantized = quantization(*alike) if alike else None
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddShapeSignature(b, signature)
        tflite.TensorAddType(b, getattr(tflite.TensorType, str(dtype).upper()))
        tflite.TensorAddBuffer(b, len(data) - 1)
        tflite.TensorAddName(b, text)
        if sparsity is not None:
            tflite.TensorAddSparsity(b, sparsity)
        if quantized is not None:
            tflite.TensorAddQuantization(b, quantized)
        return int(tflite.TensorEnd(b))

    def buffer(data: bytes) -> int:
        held = b.CreateByteVector(data) if data else None
        tflite.BufferStart(b)
        if held is not None:
            tflite.BufferAddData(b, held)
        return int(tflite.BufferEnd(b))

    def operator(names: list[str], name: str, options: str, given: list[str]) -> int:
        kind, *fields = options.split()
        values: dict[str, int] = {}
        for field, value in (each.split("=") for each in fields):
            start, numbers = (
                getattr(tflite, f"{kind}Start{field}Vector", None),
                [*map(int, value.strip("[]").split(","))],
            )
            values[field] = numbers[0] if start is None else vector(start, numbers, "PrependInt32")
        getattr(tflite, f"{kind}Start")(b)
        for field, number in values.items():
            getattr(tflite, f"{kind}Add{field}")(b, number)
        if name == "CALL_ONCE":
            tflite.CallOnceOptionsAddInitSubgraphIndex(b, 1)
        chosen = getattr(tflite, f"{kind}End")(b)
        *taken, made = given
        read = vector(tflite.OperatorStartInputsVector, [*map(names.index, taken)], "PrependInt32")
        results = [] if made == "-" else [names.index(made)]
        written = vector(tflite.OperatorStartOutputsVector, results, "PrependInt32")
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, codes.index(name))
        tflite.OperatorAddInputs(b, read)
        tflite.OperatorAddOutputs(b, written)
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, kind))
        tflite.OperatorAddBuiltinOptions(b, chosen)
        return int(tflite.OperatorEnd(b))

    def code(name: str) -> int:
        number = getattr(tflite.BuiltinOperator, name)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
        tflite.OperatorCodeAddBuiltinCode(b, number)
        tflite.OperatorCodeAddVersion(b, 1)
        return int(tflite.OperatorCodeEnd(b))

    def subgraph(graph: Graph) -> int:
        names = list(graph.tensors)
        held = vector(tflite.SubGraphStartTensorsVector, [tensor(n, v) for n, v in graph.tensors.items()])
        nodes = [operator(names, name, options, given.split()) for name, options, given in graph.operators]
        listed = vector(tflite.SubGraphStartOperatorsVector, nodes)
        taken = vector(tflite.SubGraphStartInputsVector, [*map(names.index, graph.inputs)], "PrependInt32")
        made = vector(tflite.SubGraphStartOutputsVector, [*map(names.index, graph.outputs)], "PrependInt32")
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, held)
        tflite.SubGraphAddInputs(b, taken)
        tflite.SubGraphAddOutputs(b, made)
        tflite.SubGraphAddOperators(b, listed)
        return int(tflite.SubGraphEnd(b))

    graphs_at = vector(tflite.ModelStartSubgraphsVector, [subgraph(graph) for graph in graphs])
    buffers = vector(tflite.ModelStartBuffersVector, [buffer(each) for each in data])
    codes_at = vector(tflite.ModelStartOperatorCodesVector, [code(name) for name in codes])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes_at)
    tflite.ModelAddSubgraphs(b, graphs_at)
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


def test_what_check_says_of_a_file(tmp_path: Path) -> None:
    """What compiling would say: what it takes and gives, or why it is refused."""
    path = tmp_path / "model.tflite"
    path.write_bytes(sum_with_a_constant(np.zeros(SHAPE, "float32")))
    found = vmkit.check(path)
    assert found.is_supported and found.operators == {"ADD": 1}
    assert str(found.signature) == str(vmkit.compile(path, "llvm").signature)
    assert "model.tflite: 1 nodes, opset TFLite 3\nsupported: main(x: float32[2, 3])" in str(found)
    tensors = {"x": ("float32", SHAPE), "shape": ("int32", (2,)), "y": ("float32", (3, 2))}
    path.write_bytes(model([("RESHAPE", "ReshapeOptions", "x shape y")], tensors, ["x", "shape"]))
    found = vmkit.check(path)
    assert not found.is_supported and "RESHAPE to sizes that only the run knows" in str(found)
    whole = sum_with_a_constant(np.zeros(SHAPE, "float32"))
    for broken in (b"\xff\xff\xff\x7fTFL3", *(whole[:end] for end in range(8, len(whole) - 8, 16))):
        path.write_bytes(broken)
        with contextlib.suppress(ModelError):
            assert not vmkit.check(path).is_supported
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="is no TFLite model"):
        vmkit.check(path)


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


HANDLE = ("resource", ())
TOTAL: list[tuple[str, str, str]] = [
    ("CALL_ONCE", "CallOnceOptions", "-"),
    ("VAR_HANDLE", "VarHandleOptions", "total"),
    ("READ_VARIABLE", "ReadVariableOptions", "total before"),
    ("ADD", "AddOptions", "before x sum"),
    ("ASSIGN_VARIABLE", "AssignVariableOptions", "total sum -"),
    ("READ_VARIABLE", "ReadVariableOptions", "total after"),
    ("MUL", "MulOptions", "after x y"),
]


def first_value(value: np.ndarray) -> Graph:
    """Return the graph that gives the variable ``total`` its first value."""
    operators = [
        ("VAR_HANDLE", "VarHandleOptions", "total"),
        ("ASSIGN_VARIABLE", "AssignVariableOptions", "total first -"),
    ]
    return Graph(operators, {"total": HANDLE, "first": value}, [], [])


def test_variables_go_from_call_to_call(tmp_path: Path) -> None:
    """One is an input and a result more; what is read of it later in the graph is what was assigned before."""
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    given = ("float32", SHAPE)
    tensors = {"total": HANDLE, "x": given, "before": given, "sum": given, "after": given, "y": given}
    path = tmp_path / "total.tflite"
    path.write_bytes(model(TOTAL, tensors, ["x"], once=first_value(np.full(SHAPE, 3, "float32"))))
    vmkit.compile(path, "llvm").export(tmp_path / "total.vmx")
    executable = vmkit.load(tmp_path / "total.vmx")
    assert [(spec.name, spec.shape) for spec in executable.inputs] == [("x", SHAPE), ("total", SHAPE)]
    machine = vmkit.VirtualMachine(executable, "cpu")
    (state,) = machine.invoke("initial_state")
    for calls in (1, 2, 3):
        y, state = machine.run(x, state)
        np.testing.assert_allclose(state.numpy(), 3 + calls * x, rtol=1e-6)
        np.testing.assert_allclose(y.numpy(), (3 + calls * x) * x, rtol=1e-6)


def test_a_variable_that_never_changes_is_a_constant(tmp_path: Path) -> None:
    operators = [TOTAL[0], TOTAL[1], TOTAL[2], ("ADD", "AddOptions", "before x y")]
    given = ("float32", SHAPE)
    path = tmp_path / "constant.tflite"
    first = first_value(np.full(SHAPE, 3, "float32"))
    path.write_bytes(model(operators, {"total": HANDLE, "x": given, "before": given, "y": given}, ["x"], once=first))
    x = np.ones(SHAPE, "float32")
    assert (vmkit.VirtualMachine(vmkit.compile(path, "llvm"), "cpu").run(x).numpy() == 4).all()


@pytest.mark.parametrize(
    ("operators", "first", "said"),
    [
        (TOTAL[1:], None, "'total', which CALL_ONCE gives no first value"),
        (TOTAL, np.zeros((4, 2, 3), "float32"), "to 'total', which is"),
        (TOTAL, np.zeros(SHAPE, "int32"), "to 'total', which is"),
    ],
    ids=["no first value", "another shape", "another type"],
)
def test_variables_that_are_refused(
    tmp_path: Path, operators: list[tuple[str, str, str]], first: np.ndarray | None, said: str
) -> None:
    given = ("float32", SHAPE)
    tensors = {"total": HANDLE, "x": given, "before": given, "sum": given, "after": given, "y": given}
    kept = [each for each in operators if "after" not in each[2]]
    if first is not None:
        kept = [each for each in kept if "before" not in each[2]]
        kept = [(name, options, given.replace("sum", "x")) for name, options, given in kept]
    path = tmp_path / "refused.tflite"
    path.write_bytes(model(kept, tensors, ["x"], ["x"], once=None if first is None else first_value(first)))
    with pytest.raises(UnsupportedOperatorError, match=said):
        vmkit.compile(path, "llvm")


def test_quantised_elements_that_only_move(tmp_path: Path) -> None:
    """They are what they were, and refused where the file says another scale of the result."""
    x, order = np.arange(-6, 6, dtype="int8").reshape(3, 4), np.int32([1, 0])
    operators = [("TRANSPOSE", "TransposeOptions", "x order y")]
    path = tmp_path / "moved.tflite"
    tensors = {"x": ("int8", (3, 4), 0.5, 3), "order": order, "y": ("int8", (4, 3), 0.5, 3)}
    path.write_bytes(model(operators, tensors, ["x"]))
    np.testing.assert_array_equal(vmkit.VirtualMachine(vmkit.compile(path, "llvm"), "cpu").run(x).numpy(), x.T)
    path.write_bytes(model(operators, {**tensors, "y": ("int8", (4, 3), 0.25, 3)}, ["x"]))
    with pytest.raises(UnsupportedOperatorError, match="TRANSPOSE that changes the scale or the zero point"):
        vmkit.compile(path, "llvm")


def test_a_shape_that_follows_from_known_sizes_is_computed(tmp_path: Path) -> None:
    """The file says of the result that only the run knows a size of it, as converters do of what has a batch."""
    operators = [
        ("SHAPE", "ShapeOptions", "x sizes"),
        ("GATHER", "GatherOptions", "sizes order turned"),
        ("RESHAPE", "ReshapeOptions", "x turned y"),
    ]
    sizes = ("int32", (2,))
    tensors = {"sizes": sizes, "order": np.int32([1, 0]), "turned": sizes, "y": ("float32", (-1, 2))}
    path = tmp_path / "turned.tflite"
    path.write_bytes(model(operators, {"x": ("float32", SHAPE), **tensors}, ["x"]))
    x = np.arange(6, dtype="float32").reshape(SHAPE)
    result = vmkit.VirtualMachine(vmkit.compile(path, "llvm"), "cpu").run(x).numpy()
    np.testing.assert_array_equal(result, x.reshape(SHAPE[::-1]))


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
