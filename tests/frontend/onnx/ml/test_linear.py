"""Linear models, compared with onnxruntime."""

from __future__ import annotations

import pytest

from tests.frontend.onnx.ml.models import I64, F, S, agrees, listed, numbers, single

POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


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
