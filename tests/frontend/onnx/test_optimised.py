"""Models as onnxruntime's optimiser and quantisers write them: each agrees with what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import vmkit
from tests.frontend.onnx.programs import Compiled, assert_agrees, session
from tests.frontend.onnx.test_exported import DATA_DEPENDENT, SIZES, feed_of, model_of

LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
IN_CI = [("bert_eager", "all"), ("t5_encoder", "extended")]
REST = [(n, level) for n in SIZES for level in LEVELS if (n, level) not in IN_CI]


def optimised(made: onnx.ModelProto, level: str, folder: Path) -> onnx.ModelProto:
    """Return a model as onnxruntime saves it, without the layouts of the processor that it runs on."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=["NchwcTransformer"]
    )
    return onnx.load(folder / "optimised.onnx")


def nightly(cases: list[tuple[str, str]]) -> Iterator[object]:
    for case in cases:
        yield pytest.param(*case, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("name", "level"), [*IN_CI, *nightly(REST)])
def test_an_optimised_family_agrees_at_every_size(name: str, level: str, tmp_path: Path) -> None:
    plain = model_of(name)
    made = optimised(plain, level, tmp_path)
    compiled, peer, names = Compiled(made), session(plain), [o.name for o in made.graph.output]
    for sizes in SIZES[name]:
        feed = feed_of(plain, sizes)
        assert_agrees(compiled(**feed), peer.run(None, feed), names)


class _OneFeed(CalibrationDataReader):
    def __init__(self, name: str) -> None:
        self._feeds = [feed_of(model_of(name), SIZES[name][0])]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._feeds.pop() if self._feeds else None


QUANTISED = ("unet_interpolated", "vit", "mobilenet_v3", "distilbert", "whisper_decoder")
FORMS = {"between": QuantFormat.QDQ, "operators": QuantFormat.QOperator}


def _quantised(name: str, form: str, folder: Path) -> onnx.ModelProto:
    onnx.save(model_of(name), folder / "plain.onnx")
    quantize_static(
        folder / "plain.onnx", folder / "quantised.onnx", _OneFeed(name), quant_format=FORMS[form],
        activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8,
        extra_options={"ForceQuantizeNoInputCheck": True},
    )  # fmt: skip
    return onnx.load(folder / "quantised.onnx")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", QUANTISED)
def test_every_operator_of_an_optimised_quantised_family_is_read(name: str, form: str, tmp_path: Path) -> None:
    report = vmkit.check(optimised(_quantised(name, form, tmp_path), "all", tmp_path))
    assert report.is_supported, report


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", QUANTISED)
def test_a_quantised_family_is_as_near_as_onnxruntime(name: str, form: str, tmp_path: Path) -> None:
    """Sums in another order tip numbers over to the next quantum, and layers spread that: most stay where they are."""
    quantised = _quantised(name, form, tmp_path)
    made = optimised(quantised, "all", tmp_path)
    compiled, peer = Compiled(made), session(made)
    for sizes in SIZES[name]:
        feed = feed_of(quantised, sizes)
        for actual, expected in zip(compiled(**feed), peer.run(None, feed), strict=True):
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
            quantum = max(float(np.ptp(expected)), 1e-6) / 255
            error = np.abs(actual.astype("float64") - expected)
            assert error.max(initial=0) <= 8 * quantum and error.mean() <= quantum


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", [("MatMul",), ("MatMul", "Gather")])
@pytest.mark.parametrize("name", sorted(set(SIZES) - DATA_DEPENDENT - {"mobilenet_v3", "unet_interpolated"}))
def test_weights_of_four_bits_agree(name: str, kinds: tuple[str, ...]) -> None:
    # The package that the quantiser of weights needs is none that the tests ask for.
    quantisers = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer", exc_type=ImportError)
    config = quantisers.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=False, op_types_to_quantize=kinds)
    plain = model_of(name)
    quantiser = quantisers.MatMulNBitsQuantizer(plain, algo_config=config)
    quantiser.process()
    made = quantiser.model.model
    compiled, peer, names = Compiled(made), session(made), [o.name for o in made.graph.output]
    for sizes in SIZES[name]:
        feed = feed_of(plain, sizes)
        assert_agrees(compiled(**feed), peer.run(None, feed), names)
