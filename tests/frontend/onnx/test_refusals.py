"""Operators that are not supported say why, and what to write in their place."""

from __future__ import annotations

import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state
import pytest

import vmkit
from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import model, node
from vmkit.errors import UnsupportedOperatorError
from vmkit.frontend.onnx import families, refusals, registry

X = {"x": (["n", 4], "float32")}
RELEASE = tuple(map(int, onnxruntime.__version__.split(".")[:2]))


def test_the_reason_stands_behind_the_nodes() -> None:
    proto = microsoft([ms("PagedAttention", "x", "y", name="first")], X, "y")
    found = vmkit.check(proto)
    assert found.unsupported == (
        "com.microsoft.PagedAttention (opset 1): 1 node, 'first'; onnxruntime has it on GPUs alone; export the model "
        "with GroupQueryAttention",
    )
    with pytest.raises(UnsupportedOperatorError, match="export the model with GroupQueryAttention"):
        vmkit.compile(proto)


def test_what_onnxruntime_laid_out_for_a_processor() -> None:
    proto = model([node("ReorderInput", "x", "y", domain="com.microsoft.nchwc")], X, "y")
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft.nchwc", 1))
    assert "disabled_optimizers=['NchwcTransformer']" in vmkit.check(proto).unsupported[0]


def _known() -> set[tuple[str, str]]:
    families.load()
    return {(made.domain, made.op_type) for made in registry.versions()}


@pytest.mark.skipif(RELEASE > (1, 32), reason="a later onnxruntime has operators of which nothing is known here")
def test_every_operator_of_onnxruntime_is_supported_or_says_why_not() -> None:
    schemas = {("" if s.domain == "ai.onnx" else s.domain, s.name) for s in state.get_all_operator_schema()}
    experimental = {("", "GRUUnit"), ("", "GivenTensorFill")}  # of the first opset, without a kernel even there
    silent = {name for name in schemas - _known() - experimental if refusals.reason(*name) is None}
    # Functions that onnx itself defines need no converter.
    assert not {name for name in silent if name[0] or not onnx.defs.has(name[1])}


def test_what_is_supported_is_not_refused() -> None:
    assert not [name for name in _known() if refusals.reason(*name) is not None]
