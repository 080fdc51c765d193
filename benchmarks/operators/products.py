"""Products, convolutions, pools and recurrent layers."""

from __future__ import annotations

import numpy as np

from .case import case, floats, integers

for _rows, _inner, _columns in ((1, 768, 3072), (8, 512, 512), (64, 64, 64), (128, 768, 768), (512, 512, 512)):
    _label = f"{_rows}x{_inner}x{_columns}"
    case("MatMul", floats(_rows, _inner), label=_label, constants={1: floats(_inner, _columns)})
    case(
        "Gemm",
        floats(_rows, _inner),
        label=_label,
        transB=1,
        constants={1: floats(_columns, _inner), 2: floats(_columns)},
    )
    _bytes = integers(_inner, _columns, low=-128, high=128, dtype="int8")
    case("MatMulInteger", integers(_rows, _inner, high=256, dtype="uint8"), label=_label, constants={1: _bytes})
for _rows, _inner, _columns in ((1, 256, 50257), (8, 120, 6625)):
    _label = f"of a vocabulary, {_rows}x{_inner}x{_columns}"
    case("MatMul", floats(_rows, _inner), label=_label, constants={1: floats(_inner, _columns)})
# Units that no vector divides.
for _rows, _inner, _columns in (
    *((1, 256, 300), (8, 256, 100), (64, 256, 100), (128, 256, 300), (10000, 20, 100), (4000, 32, 300)),
):
    _units = {1: floats(_inner, _columns)}
    case("MatMul", floats(_rows, _inner), label=f"{_rows}x{_inner}x{_columns}", constants=_units)
for _rows, _inner, _columns in ((1, 768, 768), (8, 512, 512), (128, 256, 128), (65, 63, 33)):
    _label = f"of two inputs, {_rows}x{_inner}x{_columns}"
    _factors = [integers(*_shape, high=256, dtype="uint8") for _shape in ((_rows, _inner), (_inner, _columns))]
    case("MatMulInteger", *_factors, label=_label)
case("MatMul", floats(12, 128, 64), floats(12, 64, 128), label="of 12, 128x64x128")
for _rows, _inner, _columns in ((64, 64, 64), (1, 512, 512), (255, 127, 129)):
    _label, _doubles = f"{_rows}x{_inner}x{_columns}", floats(_inner, _columns, dtype="float64")
    case("MatMul", floats(_rows, _inner, dtype="float64"), label=f"{_label} float64", constants={1: _doubles})
    case("MatMul", floats(_rows, _inner, dtype="float64"), _doubles, label=f"of two inputs, {_label} float64")
for _rows in (1, 64):
    _label = f"transA, {_rows}x512x512"
    case("Gemm", floats(512, _rows), label=_label, transA=1, constants={1: floats(512, 512)}, free=())
for _count, *_sizes in ((1000, 64, 64, 3), (1000, 64, 3, 64), (512, 49, 32, 49)):
    _factors = [floats(_count, *_sizes[:2]), floats(_count, *_sizes[1:])]
    case("MatMul", *_factors, label=f"of {_count}, {'x'.join(map(str, _sizes))}")
case("MatMul", floats(128, 256), floats(256, 128), label="of two inputs, 128x256x128", free=())
case("Einsum", floats(8, 64, 32), floats(8, 32, 64), label="bij,bjk->bik", equation="bij,bjk->bik")
case("Einsum", floats(64, 64), floats(64, 64), floats(64, 64), label="ij,jk,kl->il", equation="ij,jk,kl->il")
case("Einsum", *[floats(8, 24, 24)] * 3, label="bij,bjk,bkl->bil", equation="bij,bjk,bkl->bil")

for _in, _out, _kernel, _stride, _size, _groups in (
    *((64, 64, 3, 1, 56, 1), (256, 256, 3, 1, 14, 1), (64, 128, 3, 2, 56, 1), (3, 64, 7, 2, 224, 1)),
    *((64, 256, 1, 1, 56, 1), (1024, 256, 1, 1, 14, 1), (32, 32, 5, 1, 28, 1), (128, 128, 3, 1, 28, 8)),
    *((96, 96, 3, 1, 56, 96), (576, 576, 3, 2, 14, 576), (64, 64, 7, 1, 28, 64)),
    *((32, 32, 3, 1, 112, 32), (144, 144, 3, 2, 57, 144), (30, 30, 5, 1, 56, 30), (32, 64, 3, 1, 56, 32)),
    *((240, 240, 5, 1, 14, 240), (96, 96, 7, 1, 56, 96), (960, 960, 3, 1, 7, 960), (144, 144, 3, 2, 56, 144)),
    *((240, 240, 5, 2, 28, 240), (64, 64, 7, 2, 56, 64)),
    *((3, 64, 3, 1, 224, 1), (64, 33, 3, 2, 57, 1), (256, 64, 1, 1, 56, 1), (64, 64, 1, 1, 56, 4)),
    *((32, 1, 3, 1, 112, 1), (32, 2, 1, 1, 112, 1), (32, 3, 3, 1, 112, 1), (16, 7, 3, 1, 56, 1), (9, 9, 3, 1, 56, 1)),
):
    _pads = [_kernel // 2] * 4
    case(
        "Conv",
        floats(1, _in, _size, _size),
        label=f"{_kernel}x{_kernel} by {_stride}, {_in} to {_out} of {_size}x{_size}, {_groups} groups",
        constants={1: floats(_out, _in // _groups, _kernel, _kernel), 2: floats(_out)},
        pads=_pads,
        strides=[_stride, _stride],
        group=_groups,
    )
case(
    "Conv",
    floats(1, 64, 64, 64),
    label="3x3 that reaches over 25, 64 to 128 of 64x64",
    constants={1: floats(128, 64, 3, 3), 2: floats(128)},
    dilations=[12, 12],
    pads=[12] * 4,
)
for _in, _out, _kernel, _size in ((1, 64, 10, 16000), (64, 64, 3, 512), (128, 128, 1, 512)):
    _weight = {1: floats(_out, _in, _kernel)}
    case("Conv", floats(1, _in, _size), label=f"{_kernel}, {_in} to {_out} of {_size}", constants=_weight)
for _out, _kernel, _stride in ((1, 256, 2), (258, 256, 64), (512, 10, 5)):
    _weight = {1: floats(_out, 1, _kernel)}
    _label = f"{_kernel} by {_stride}, 1 to {_out} of 16000"
    case("Conv", floats(1, 1, 16000), label=_label, constants=_weight, strides=[_stride])
for _out, _kernel, _stride in ((1, 37, 3), (2, 23, 3), (1, 32, 4), (80, 475, 441), (512, 10, 5)):
    _weight, _ends = {1: floats(_out, 1, _kernel)}, [_kernel // 2, _kernel // 2]
    _label = f"{_kernel} by {_stride}, 1 to {_out} of any length, of 32000"
    case("Conv", floats(1, 1, 32000), label=_label, constants=_weight, strides=[_stride], pads=_ends, free=(0, 2))
for _in, _out, _kernel, _stride, _size in ((3, 32, 7, 4, 224), (3, 64, 11, 4, 224), (64, 64, 3, 1, 56)):
    case(
        "Conv",
        floats(1, _in, _size, _size),
        label=f"{_kernel}x{_kernel} by {_stride}, {_in} to {_out} of any size, of {_size}x{_size}",
        constants={1: floats(_out, _in, _kernel, _kernel)},
        pads=[_kernel // 2] * 4,
        strides=[_stride, _stride],
        free=(0, 2, 3),
    )
for _in, _out, _kernel, _size in ((3, 96, 4, 224), (3, 192, 16, 224), (16, 16, 3, 96), (24, 48, 2, 64)):
    _label = f"{_kernel}x{_kernel} patches, {_in} to {_out} of {_size}x{_size}"
    _weight = {1: floats(_out, _in, _kernel, _kernel)}
    case("Conv", floats(1, _in, _size, _size), label=_label, constants=_weight, strides=[_kernel, _kernel])
case("Conv", floats(1, 16, 32, 32, 32), label="1x1x1, 16 to 1", constants={1: floats(1, 16, 1, 1, 1)})
case("Conv", floats(1, 16, 8, 28, 28), label="3x3x3, 16 to 16", constants={1: floats(16, 16, 3, 3, 3)}, pads=[1] * 6)
case("Conv", floats(1, 64, 8, 28, 28), label="1x1x1, 64 to 64", constants={1: floats(64, 64, 1, 1, 1)})
case("ConvTranspose", floats(1, 64, 28, 28), label="2x2 by 2", constants={1: floats(64, 32, 2, 2)}, strides=[2, 2])
case("ConvTranspose", floats(1, 64, 28, 28), label="4x4 by 2", constants={1: floats(64, 32, 4, 4)}, strides=[2, 2])
case(
    "ConvInteger",
    integers(1, 64, 28, 28, high=256, dtype="uint8"),
    label="3x3, 64 to 64",
    constants={1: integers(64, 64, 3, 3, low=-128, high=128, dtype="int8")},
)
for _units in (1, 4, 8, 16, 64):
    case(
        "ConvInteger",
        integers(1, 64, 56, 56, high=256, dtype="uint8"),
        label=f"3x3, 64 to {_units}, uint8",
        constants={
            1: integers(_units, 64, 3, 3, high=256, dtype="uint8"),
            2: integers(low=7, high=8, dtype="uint8"),
            3: integers(low=148, high=149, dtype="uint8"),
        },
    )
for _name in ("MaxPool", "AveragePool"):
    case(_name, floats(1, 64, 112, 112), label="3x3 by 2", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    case(_name, floats(1, 64, 56, 56), label="2x2 by 2", kernel_shape=[2, 2], strides=[2, 2])
    case(_name, floats(1, 64, 28, 28), label="5x5 by 1", kernel_shape=[5, 5], pads=[2] * 4)
    case(_name, floats(1, 16, 57, 57), label="3x3 by 1, odd", kernel_shape=[3, 3], pads=[1] * 4)
    case(_name, floats(1, 256, 14, 14), label="2x2 by 1", kernel_shape=[2, 2])
    case(_name, floats(1, 32, 57, 57), label="3x3 by 2, odd", kernel_shape=[3, 3], strides=[2, 2])
    for _shape in ((8, 512, 7, 7), (4, 256, 14, 14), (4, 128, 28, 28)):
        _label = f"2x2 by 2 of {'x'.join(map(str, _shape))}"
        case(_name, floats(*_shape), label=_label, kernel_shape=[2, 2], strides=[2, 2])
    case(_name, floats(1, 32, 8, 28, 28), label="2x2x2 by 2", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    case(_name, floats(1, 32, 8, 28, 28), label="3x3x3 by 2", kernel_shape=[3] * 3, strides=[2] * 3, pads=[1] * 6)

for _name, _gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    for _steps, _batch, _size in ((16, 1, 64), (64, 8, 256), (20, 3, 400), (20, 6, 512)):
        _weight = floats(1, _gates * _size, _size, low=-0.1, high=0.1)
        case(
            _name,
            floats(_steps, _batch, _size),
            label=f"{_steps} steps of {_batch}x{_size}",
            constants={1: _weight, 2: _weight},
            hidden_size=_size,
        )
for _length in (16, 128):
    _heads = [floats(1, 8, _length, 64)] * 3
    case("com.microsoft:MultiHeadAttention", *[floats(1, _length, 512)] * 3, label=f"{_length}", num_heads=8)
_linear = {1: lambda _: np.float32(0.02), 2: lambda _: np.uint8(128), 4: lambda _: np.float32(0.01)}
case(
    "QLinearMatMul",
    integers(128, 256, high=256, dtype="uint8"),
    label="128x256x256",
    constants={
        **_linear,
        3: integers(256, 256, low=-128, high=128, dtype="int8"),
        5: lambda _: np.int8(0),
        6: lambda _: np.float32(0.1),
        7: lambda _: np.uint8(128),
    },
)
for _groups in (1, 64):
    case(
        "QLinearConv",
        integers(1, 64, 28, 28, high=256, dtype="uint8"),
        label=f"3x3, 64 to 64, {_groups} groups",
        constants={
            **_linear,
            3: integers(64, 64 // _groups, 3, 3, low=-128, high=128, dtype="int8"),
            5: lambda _: np.int8(0),
            6: lambda _: np.float32(0.5),
            7: lambda _: np.uint8(128),
        },
        pads=[1] * 4,
        group=_groups,
    )
