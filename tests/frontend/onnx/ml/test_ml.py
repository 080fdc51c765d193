"""Operators of ai.onnx.ml: features, labels, linear models and support vector machines."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import vmkit
from tests.frontend.onnx.ml.models import agrees, single
from vmkit.errors import ModelError, UnsupportedOperatorError, VMError

S, F, D, I64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def listed(*shape: int, seed: int = 0) -> list[float]:
    return [float(v) for v in numbers(*shape, seed=seed).ravel()]


def texts(*values: str) -> np.ndarray:
    return np.array(values, dtype=object)


KEYS = {"strings": ["a", "é", "", "a"], "int64s": [5, -2, 9, 5], "floats": [0.5, float("nan"), -2.0, 0.5]}
TYPES = {"strings": (object, S), "int64s": ("int64", I64), "floats": ("float32", F)}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("values", KEYS)
def test_labels_are_encoded(keys: str, values: str) -> None:
    dtype, _ = TYPES[keys]
    x = np.array([*KEYS[keys], *{"strings": ["zz"], "int64s": [7], "floats": [0.25]}[keys]], dtype).reshape(5, 1)
    attributes = {f"keys_{keys}": KEYS[keys][:3], f"values_{values}": [*KEYS[values][:2], *KEYS[values][:1]]}
    attributes |= {"default_string": "none", "default_int64": 77, "default_float": 1.5}
    for version in (2, 4):
        model = single("LabelEncoder", {"x": (["n", 1], dtype)}, [TYPES[values][1]], version, **attributes)
        agrees(model, {"x": x}, {"x": x[:0]})


@pytest.mark.parametrize("dtype", ["int16", "int32", "float64"])
def test_labels_are_encoded_by_tables_that_are_tensors(dtype: str) -> None:
    keys, values = np.array([3, 1, 2], dtype), np.array([10, 20, 30], dtype)
    given = {"keys_tensor": keys, "values_tensor": values, "default_tensor": np.array([5], dtype)}
    attributes = {name: numpy_helper.from_array(array, name) for name, array in given.items()}
    code = int(attributes["keys_tensor"].data_type)
    machine = vmkit.VirtualMachine(
        vmkit.compile(single("LabelEncoder", {"x": (["n"], dtype)}, [code], **attributes), target="llvm")
    )
    np.testing.assert_array_equal(machine.run(np.array([2, 3, 9], dtype)).numpy(), np.array([30, 10, 5], dtype))


def test_the_first_label_encoder_and_the_category_mapper_go_both_ways() -> None:
    words, places = texts("b", "x", "a"), np.array([1, 5, 0])
    for op_type, attributes in (
        ("LabelEncoder", {"classes_strings": ["a", "b"]}),
        ("CategoryMapper", {"cats_strings": ["a", "b"], "cats_int64s": [0, 1]}),
    ):
        shared = {"default_string": "none", "default_int64": 9, **attributes}
        agrees(single(op_type, {"x": (["n"], object)}, [I64], 1, **shared), {"x": words})
        agrees(single(op_type, {"x": (["n"], "int64")}, [S], 1, **shared), {"x": places})


def test_categories_become_one_hot_codes() -> None:
    words = texts("b", "zz", "a").reshape(3, 1)
    agrees(single("OneHotEncoder", {"x": (["n", 1], object)}, [F], cats_strings=["a", "b"], zeros=1), {"x": words})
    model = single("OneHotEncoder", {"x": (["n"], "int64")}, [F], cats_int64s=[4, 2, 7], zeros=0)
    agrees(model, {"x": np.array([2, 4, 7, 7])})
    with pytest.raises(VMError, match="none of the categories"):
        vmkit.VirtualMachine(vmkit.compile(model, target="llvm")).run(np.array([2, 3]))


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


@pytest.mark.parametrize("post", POSTS)
def test_linear_models_agree_with_onnxruntime(post: str) -> None:
    x, rows = numbers(7, 4, seed=9), {"x": (["n", 4], "float32")}
    for targets in (1, 3):
        shared = {"coefficients": listed(targets, 4), "intercepts": listed(targets), "post_transform": post}
        agrees(single("LinearRegressor", rows, [F], targets=targets, **shared), {"x": x}, {"x": x[:1]})
        if targets == 3:
            agrees(single("LinearClassifier", rows, [I64, F], classlabels_ints=[3, 1, 2], **shared), {"x": x})
        elif post != "PROBIT":
            agrees(single("LinearClassifier", rows, [S, F], classlabels_strings=["a", "b"], **shared), {"x": x})


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines_agree_with_onnxruntime(kind: str) -> None:
    x, rows = numbers(7, 4, seed=9), {"x": (["n", 4], "float32")}
    shared = {"kernel_type": kind, "kernel_params": [0.3, 0.2, 2.0]}
    for one_class in (0, 1):
        weights = {"coefficients": listed(5), "support_vectors": listed(5, 4), "rho": listed(1), "n_supports": 5}
        agrees(single("SVMRegressor", rows, [F], one_class=one_class, **weights, **shared), {"x": x})
    for sizes in ([2, 3], [1, 2, 2]):
        count, pairs = len(sizes), len(sizes) * (len(sizes) - 1) // 2
        weights = {
            "coefficients": listed(count - 1, sum(sizes)), "support_vectors": listed(sum(sizes), 4, seed=2),
            "vectors_per_class": sizes, "rho": listed(pairs), "classlabels_ints": [4, 2, 7][:count],
        }  # fmt: skip
        for post in ("NONE", "LOGISTIC"):
            for more in ({}, {"prob_a": [-1.0] * pairs, "prob_b": listed(pairs, seed=4)}):
                model = single("SVMClassifier", rows, [I64, F], post_transform=post, **weights, **shared, **more)
                agrees(model, {"x": x})


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_linear_support_vector_machines_agree_with_onnxruntime(positive: bool, count: int) -> None:
    weights = [abs(v) if positive else v for v in listed(count, 4)]
    attributes = {"coefficients": weights, "rho": listed(1), "kernel_params": [1.0, 1.0, 1.0]}
    labels = {"classlabels_strings": ["a", "b", "c"][:count]}
    model = single("SVMClassifier", {"x": (["n", 4], "float32")}, [S, F], **attributes, **labels)
    agrees(model, {"x": numbers(9, 4, seed=5)})


def test_maps_are_refused_with_what_to_do() -> None:
    model = single("ZipMap", {"x": (["n", 2], "float32")}, [F], classlabels_int64s=[0, 1])
    with pytest.raises(UnsupportedOperatorError, match="drop the node"):
        vmkit.compile(model, target="llvm")


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
