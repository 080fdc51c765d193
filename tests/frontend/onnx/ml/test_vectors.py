"""Support vector machines, compared with onnxruntime."""

from __future__ import annotations

import pytest

from tests.frontend.onnx.ml.models import I64, F, S, agrees, listed, numbers, single


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
        likely = {"prob_a": [-1.0] * pairs, "prob_b": listed(pairs, seed=4)}
        # What is done with the scores does not depend on the kernel that they come from.
        whole = [(post, more) for post in ("NONE", "LOGISTIC") for more in ({}, likely)]
        for post, more in whole if kind == "RBF" else [("LOGISTIC", {})]:
            model = single("SVMClassifier", rows, [I64, F], post_transform=post, **weights, **shared, **more)
            agrees(model, {"x": x})


@pytest.mark.sweep
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_linear_support_vector_machines_agree_with_onnxruntime(positive: bool, count: int) -> None:
    weights = [abs(v) if positive else v for v in listed(count, 4)]
    attributes = {"coefficients": weights, "rho": listed(1), "kernel_params": [1.0, 1.0, 1.0]}
    labels = {"classlabels_strings": ["a", "b", "c"][:count]}
    model = single("SVMClassifier", {"x": (["n", 4], "float32")}, [S, F], **attributes, **labels)
    agrees(model, {"x": numbers(9, 4, seed=5)})
