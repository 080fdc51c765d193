"""Features picked, scaled, filled in and put together."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.ml.models import I64, F, S, agrees, listed, numbers, single, texts
from vmkit.errors import ModelError, VMError


def test_features_are_picked_scaled_filled_in_and_put_together() -> None:
    x, vector = numbers(3, 4), numbers(4)
    rows = {"x": (["n", 4], "float32")}
    columns = np.array([2, 0, 2])
    agrees(single("ArrayFeatureExtractor", {**rows, "i": (["k"], "int64")}, [F]), {"x": x, "i": columns})
    picked = {"x": ([4], object), "i": (["k"], "int64")}
    agrees(single("ArrayFeatureExtractor", picked, [S]), {"x": texts(*"abcd"), "i": columns})
    agrees(single("Binarizer", rows, [F], threshold=0.3), {"x": x})
    agrees(single("Scaler", rows, [F], offset=[0.5], scale=[2.0]), {"x": x})
    whole = np.array([[1, 0, 3, 0]])
    agrees(single("Scaler", {"x": (["n", 4], "int64")}, [F], offset=listed(4), scale=listed(4)), {"x": whole})
    holes = np.where(x > 0, x, np.float32(np.nan))
    model = single("Imputer", rows, [F], imputed_value_floats=listed(4), replaced_value_float=float("nan"))
    agrees(model, {"x": holes})
    agrees(single("Imputer", {"x": (["n", 4], "int64")}, [I64], imputed_value_int64s=[9]), {"x": whole})
    both = {"a": (["n", 2], "int64"), "b": (["n", 3], "int64")}
    feed = {"a": np.arange(6).reshape(3, 2), "b": np.arange(9).reshape(3, 3)}
    agrees(single("FeatureVectorizer", both, [F], inputdimensions=[2, 3]), feed)
    for norm in ("MAX", "L1", "L2"):
        agrees(single("Normalizer", rows, [F], norm=norm), {"x": np.abs(x)}, {"x": np.zeros_like(x)})
    agrees(single("Normalizer", {"x": ([4], "float32")}, [F], norm="L2"), {"x": vector})


def test_an_index_outside_of_the_columns_is_an_error() -> None:
    model = single("ArrayFeatureExtractor", {"x": (["n", 4], "float32"), "i": (["k"], "int64")}, [F])
    machine = vmkit.VirtualMachine(vmkit.compile(model, target="llvm"))
    for index in (4, -1):
        with pytest.raises(VMError, match="outside of the input's columns"):
            machine.run(numbers(2, 4), np.array([index]))


@pytest.mark.parametrize(
    ("op_type", "attributes", "said"),
    [
        ("LabelEncoder", {"keys_int64s": [1], "values_floats": [1.0]}, "the keys are int64, but the input is float32"),
        ("LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0, 2.0]}, "1 keys and 2 values"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "3 elements for 2 targets"),
        ("Normalizer", {"norm": "L3"}, "norm is 'L3'"),
        ("Scaler", {"scales": [1.0]}, "no attribute 'scales'"),
        ("Imputer", {"imputed_value_int64s": [1]}, "no values to fill in"),
    ],
)
def test_attributes_that_fit_nothing_are_refused(op_type: str, attributes: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        vmkit.compile(single(op_type, {"x": (["n", 4], "float32")}, [F], **attributes), target="llvm")
