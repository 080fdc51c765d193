"""Operators of models of classical machine learning, at one row and at many."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Make, case, floats, integers

_ROWS, _FEATURES = (1, 64, 10000), 20
_RANDOM = np.random.default_rng(2)


def _numbers(*shape: int) -> list[float]:
    return _RANDOM.uniform(-1, 1, shape).astype("float32").ravel().tolist()


def learned(name: str, *inputs: Make, label: str, **rest: Any) -> None:
    """Add a case of an operator of classical machine learning."""
    case(f"ai.onnx.ml:{name}", *inputs, label=label, **rest)


_classes = {"classlabels_ints": [0, 1, 2], "outputs": 2}
_support: dict[str, Any] = {
    "kernel_params": [0.1, 0.0, 3.0],
    "support_vectors": _numbers(100, _FEATURES),
}
for _count in _ROWS:
    _rows, _label = floats(_count, _FEATURES), f"{_count} rows"
    learned("Scaler", _rows, label=_label, offset=_numbers(_FEATURES), scale=_numbers(_FEATURES))
    learned("Binarizer", _rows, label=_label, threshold=0.1)
    learned("Imputer", _rows, label=_label, imputed_value_floats=_numbers(_FEATURES), replaced_value_float=float("nan"))
    for _norm in ("L1", "L2", "MAX"):
        learned("Normalizer", _rows, label=f"{_norm}, {_label}", norm=_norm)
    learned("LinearRegressor", _rows, label=_label, coefficients=_numbers(_FEATURES), intercepts=[0.5])
    learned(
        "LinearClassifier",
        _rows,
        label=_label,
        coefficients=_numbers(3, _FEATURES),
        intercepts=_numbers(3),
        post_transform="SOFTMAX",
        **_classes,
    )
    for _kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        learned(
            "SVMRegressor",
            _rows,
            label=f"{_kernel}, {_label}",
            kernel_type=_kernel,
            coefficients=_numbers(100),
            n_supports=100,
            rho=[0.2],
            atol=1e-3,
            **_support,
        )
    learned("ArrayFeatureExtractor", _rows, integers(5, high=_FEATURES), label=_label, free=())
    learned("FeatureVectorizer", _rows, _rows, label=_label, inputdimensions=[_FEATURES] * 2)
    _keys: dict[str, Any] = {"keys_int64s": list(range(100)), "values_floats": _numbers(100)}
    learned("LabelEncoder", integers(_count, high=120), label=f"int64, {_label}", **_keys)
    learned("OneHotEncoder", integers(_count, high=100), label=_label, cats_int64s=list(range(100)))
