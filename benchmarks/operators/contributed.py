"""Operators of onnxruntime's own domain: attention, quantised ones, fused ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Make, case, floats, integers
from .movement import listed

_SIZES = {"2k": (16, 128), "1M": (1024, 1024)}


def _number(value: float, dtype: str = "float32") -> Make:
    return lambda _: np.array(value, dtype)


def microsoft(name: str, *inputs: Make, label: str, **rest: Any) -> None:
    """Add a case of an operator of onnxruntime's own domain."""
    case(f"com.microsoft:{name}", *inputs, name=f"microsoft.{name}", label=label, **rest)


# Attention, of encoders and of decoders that have written so many tokens.
for _length in (16, 128):
    _weights = {1: floats(512, 1536, low=-0.1, high=0.1), 2: floats(1536)}
    microsoft("Attention", floats(1, _length, 512), label=f"{_length}", constants=_weights, num_heads=8)
for _new, _past in ((1, 128), (1, 1024), (64, 0)):
    _kept = [floats(1, 2, _past, 64)] * 2
    _sizes = {5: listed(_past + _new - 1, dtype="int32"), 6: _number(_past + _new, "int32")}
    _heads: dict[str, Any] = {"num_heads": 8, "kv_num_heads": 2, "outputs": 3, "free": ()}
    _made = [floats(1, _new, 512), *[floats(1, _new, 128)] * 2, *_kept]
    microsoft("GroupQueryAttention", *_made, label=f"{_new} after {_past}", constants=_sizes, **_heads)
    _turned = {**_sizes, 7: floats(2048, 32), 8: floats(2048, 32)}
    _label = f"{_new} after {_past}, turned"
    microsoft("GroupQueryAttention", *_made, label=_label, constants=_turned, do_rotary=1, **_heads)
for _length in (1, 128):
    _angles = {2: floats(512, 32), 3: floats(512, 32)}
    _at: Make = lambda _, n=_length: np.arange(n, dtype="int64")[None]  # noqa: E731 - what draws an input
    for _turns in (0, 1):
        _label = f"1x8x{_length}x64{', interleaved' if _turns else ''}"
        _made = [floats(1, 8, _length, 64), _at]
        microsoft("RotaryEmbedding", *_made, label=_label, constants=_angles, interleaved=_turns, free=())

# Elements, rows and images.
for _label, _shape in _SIZES.items():
    microsoft("QuickGelu", floats(*_shape, low=-4, high=4), label=_label, alpha=1.702)
    microsoft("ExpandDims", floats(*_shape), label=_label, constants={1: _number(0, "int32")})
    _scale = {2: floats(_shape[1])}
    _rest: dict[str, Any] = {"constants": _scale, "free": (0,)}
    microsoft("SkipSimplifiedLayerNormalization", *[floats(*_shape)] * 2, label=_label, **_rest)
    case("SimplifiedLayerNormalization", floats(*_shape), label=_label, constants={1: floats(_shape[1])}, axis=-1)
microsoft("CDist", floats(1000, 16), floats(200, 16), label="1000, 200 of 16", metric="euclidean", free=())
microsoft("CDist", floats(256, 128), floats(256, 128), label="256, 256 of 128", metric="sqeuclidean", free=())
microsoft("Inverse", floats(64, 4, 4, low=0, high=4), label="64 of 4x4", atol=1e2)
microsoft("UnfoldTensor", floats(64, 1000), label="windows of 10", dim=-1, size=10, step=5)
_image = floats(1, 56, 56, 16)
_boxes: Make = lambda random: np.sort(random.uniform(0, 1, (16, 2, 2)), 1).reshape(16, 4).astype("float32")  # noqa: E731
_regions: dict[str, Any] = {"constants": {2: integers(16, high=1, dtype="int32"), 3: listed(14, 14, dtype="int32")}}
microsoft("CropAndResize", floats(1, 16, 56, 56), _boxes, label="16 regions", free=(), **_regions)
_tables = {2: floats(1000, 256), 3: floats(512, 256), 4: floats(2, 256), 5: floats(256), 6: floats(256)}
for _length in (16, 128):
    _tokens = [integers(1, _length, high=1000, dtype="int32"), integers(1, _length, high=2, dtype="int32")]
    microsoft("EmbedLayerNormalization", *_tokens, label=f"{_length}", constants=_tables, outputs=2, free=())
microsoft("NGramRepeatBlock", integers(4, 64, high=50), floats(4, 1000), label="3 of 64", ngram_size=3, free=())
microsoft("MurmurHash3", integers(10000, dtype="int32"), label="10000", positive=1)

# Products.
for _rows, _inner, _columns in ((1, 768, 3072), (64, 256, 256)):
    _label, _weight = f"{_rows}x{_inner}x{_columns}", {1: floats(_columns, _inner)}
    microsoft("FusedMatMul", floats(_rows, _inner), label=_label, constants=_weight, transB=1, alpha=0.125)
    _three = {**_weight, 2: floats(_columns)}
    microsoft("FusedGemm", floats(_rows, _inner), label=_label, constants=_three, transB=1, activation="Relu")
    _bytes = {1: integers(_inner, _columns, low=-128, high=128, dtype="int8"), 2: _number(0.01)}
    microsoft("DynamicQuantizeMatMul", floats(_rows, _inner), label=_label, constants=_bytes, atol=0.1)
    _quantised = {**{1: _bytes[1]}, 2: _number(0.02), 3: _number(0.01), 4: _number(128, "uint8")}
    _data = integers(_rows, _inner, high=256, dtype="uint8")
    microsoft("MatMulIntegerToFloat", _data, label=_label, constants=_quantised, atol=1e-2)
    _linear = {1: _number(0.02), 2: _number(128, "uint8"), 3: _bytes[1], 4: _number(0.01), 5: _number(0, "int8")}
    _linear |= {6: integers(_columns, low=-1000, high=1000, dtype="int32"), 7: _number(0.5), 8: _number(128, "uint8")}
    microsoft("QGemm", _data, label=_label, constants=_linear, atol=1)
    for _bits in (4, 8):
        _blocks = _inner // 32
        _packed = {1: integers(_columns, _blocks, 4 * _bits, high=256, dtype="uint8"), 2: floats(_columns * _blocks)}
        _how = {"K": _inner, "N": _columns, "bits": _bits, "block_size": 32}
        _label_of = f"{_label}, {_bits} bits"
        microsoft("MatMulNBits", floats(_rows, _inner), label=_label_of, constants=_packed, atol=1, **_how)
microsoft("FusedMatMul", *[floats(12, 128, 64)] * 2, label="12 of 128x64x128", transB=1, alpha=0.125)
_filters = {1: floats(64, 64, 3, 3), 2: floats(64)}
microsoft("FusedConv", floats(1, 64, 28, 28), label="64", constants=_filters, pads=[1] * 4, activation="Relu")
_attended = {1: integers(512, 1536, low=-128, high=128, dtype="int8"), 2: floats(1536), 3: _number(0.01)}
_attended |= {4: _number(0.01), 6: _number(128, "uint8"), 7: _number(0, "int8")}
_data = integers(1, 128, 512, high=256, dtype="uint8")
microsoft("QAttention", _data, label="128", constants={**_attended, 5: None}, num_heads=8, atol=1e-2)

# Quantised operators, of tensors as networks have them.
_in, _out = (_number(0.02), _number(128, "uint8")), (_number(0.05), _number(100, "uint8"))
for _label, _sizes_of in {"2k": (1, 2, 32, 32), "images": (1, 64, 56, 56), "4 images": (4, 256, 14, 14)}.items():
    _data = integers(*_sizes_of, high=256, dtype="uint8")
    for _name in ("QLinearAdd", "QLinearMul"):
        _both = dict(zip((1, 2, 4, 5, 6, 7), (*_in, *_in, *_out), strict=True))
        microsoft(_name, _data, _data, label=_label, constants=_both, atol=0)
    _between = dict(zip((1, 2, 3, 4), (*_in, *_out), strict=True))
    for _name, _more in {
        "QLinearSigmoid": {},
        "QLinearLeakyRelu": {"alpha": 0.1},
        "QLinearGlobalAveragePool": {},
        "QLinearAveragePool": {"kernel_shape": [3, 3], "pads": [1] * 4},
    }.items():
        microsoft(_name, _data, label=_label, constants=_between, atol=1, **_more)
    _three_of = dict(zip((0, 1, 3, 4, 6, 7), (*_out, *_in, *_in), strict=True))
    microsoft("QLinearConcat", _data, _data, label=_label, constants=_three_of, axis=1, atol=1)
    _mask = integers(*_sizes_of, high=2, dtype="bool")
    _which = dict(zip((2, 3, 5, 6, 7, 8), (*_in, *_in, *_out), strict=True))
    microsoft("QLinearWhere", _mask, _data, _data, label=_label, constants=_which, atol=1)
    microsoft("NhwcMaxPool", _data, label=_label, kernel_shape=[3, 3], pads=[1] * 4)
for _rows, _columns in ((16, 128), (1000, 1000)):
    _data, _share = integers(_rows, _columns, high=256, dtype="uint8"), (_number(1 / 256), _number(0, "uint8"))
    _between = dict(zip((1, 2, 3, 4), (*_in, *_share), strict=True))
    microsoft(
        "QLinearSoftmax", _data, label=f"{_rows}x{_columns}", constants=_between, atol=1, attributes={"opset": 13}
    )
