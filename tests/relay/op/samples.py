"""A small call of every operator, over tensors whose dimensions are known or not.

``SAMPLES[name](given)`` is the call; ``given(2, 3)`` makes a parameter of that shape and an array for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vmkit import relay
from vmkit.kernels.packed_product.bfloat16_parts import BFLOAT16_PARTS
from vmkit.kernels.packed_product.shape import ProductShape
from vmkit.kernels.packed_product.weight import PackedWeight
from vmkit.relay.op import build

__all__ = ["SAMPLES", "Given"]

i32, i64 = "int32", "int64"


class Given:
    """Makes parameters, with the arrays to give for them, while a sample is built."""

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.params: list[Any] = []
        self.arrays: list[np.ndarray] = []

    def __call__(self, *shape: int, dtype: str = "float32", values: Any = None, known: tuple[int, ...] = ()) -> Any:
        """Return a parameter of a shape, all of whose dimensions but those at `known` may be unknown.

        Floats lie between 0.1 and 0.9, where every operator is defined; integers are 0 and 1 in turn.
        """
        rng = np.random.default_rng(len(self.arrays))
        if values is not None:
            array = np.asarray(values, dtype).reshape(shape)
        elif dtype.startswith("float"):
            array = rng.uniform(0.1, 0.9, shape).astype(dtype)
        else:
            array = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
        dims = [relay.Any() if self.dynamic and i not in known else d for i, d in enumerate(shape)]
        self.params.append(relay.var(f"p{len(self.params)}", shape=dims, dtype=dtype))
        self.arrays.append(array)
        return self.params[-1]

    def sizes(self, *values: int) -> Any:
        """Return a vector of sizes, whose length is always known: it is the rank of the result."""
        return self(len(values), dtype=i64, values=values, known=(0,))


def _at_one(sequence: Any) -> Any:
    return build("sequence.at", sequence, relay.const(1, i64))


def _lengths(given: Given) -> Any:
    """Return lengths of three rows of five steps: some of them, all and none."""
    return given(3, dtype=i32, values=[3, 5, 0])


def _pair(given: Given) -> Any:
    return build("sequence.construct", given(2, 3), given(4, 3))


def _buffer(given: Given) -> Any:
    """Return a tensor that an operator may write into: no parameter."""
    return relay.negative(given(3, 2))


Sample = Callable[[Given], Any]
SAMPLES: dict[str, Sample] = {}


def _texts(given: Given) -> Any:
    """Return a vector of the texts 0 and 1."""
    return build("contrib_string_from_number", given(4, dtype=i64))


def _same(strings: Any, text: str) -> Any:
    """Say which strings are a text: what is compared are numbers."""
    return build("equal", strings, build("contrib_strings", f'["{text}"]', [1]))


def _unary(names: str, dtype: str = "float32") -> None:
    SAMPLES.update({n: lambda g, n=n: build(n, g(2, 3, dtype=dtype)) for n in names.split()})


def _binary(names: str, dtype: str = "float32") -> None:
    # The right operand broadcasts; integers are not 0, for some divide by them.
    values = None if dtype != i32 else [2, 3, 1]
    SAMPLES.update(
        {n: lambda g, n=n: build(n, g(2, 3, dtype=dtype), g(1, 3, dtype=dtype, values=values)) for n in names.split()}
    )


_unary("abs acos asin asinh atan atanh ceil copy cos cosh erf exp floor isfinite isinf isnan log log10 log2 negative")
_unary("round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc fast_exp fast_tanh fast_erf zeros_like ones_like")
_unary("contrib_round_to_even")
_unary("logical_not", "bool")
_unary("bitwise_not argwhere", i32)
_unary("nn.relu nn.softmax nn.fast_softmax nn.log_softmax nn.dropout nn.batch_flatten nn.lrn shape_of ndarray_size")
_unary("annotation.checkpoint annotation.stop_fusion annotation.bitpack_start annotation.bitpack_end debug vm.shape_of")
_unary("annotation.with_funcid sum prod max min mean variance argmax argmin sort argsort cumsum cumprod transpose topk")
_unary("all any", "bool")
_binary("add subtract multiply divide floor_divide floor_mod mod power maximum minimum equal not_equal less less_equal")
_binary("greater greater_equal trunc_divide trunc_mod")
_binary("left_shift right_shift bitwise_and bitwise_or bitwise_xor", i32)
_binary("logical_and logical_or logical_xor", "bool")

_image: tuple[int, ...] = (1, 4, 6, 6)
for _rank in (1, 2, 3):
    _data, _weight, _windows = (1, 4, *[6] * _rank), (4, 4, *[3] * _rank), (2,) * _rank
    for _kind in ("max", "avg"):
        SAMPLES[f"nn.{_kind}_pool{_rank}d"] = lambda g, n=f"nn.{_kind}_pool{_rank}d", d=_data, w=_windows: build(
            n, g(*d), w, w
        )
        SAMPLES[f"nn.adaptive_{_kind}_pool{_rank}d"] = lambda g, n=f"nn.adaptive_{_kind}_pool{_rank}d", d=_data: build(
            n, g(*d), 4
        )
        SAMPLES[f"nn.global_{_kind}_pool2d"] = lambda g, n=f"nn.global_{_kind}_pool2d": build(n, g(*_image))
        SAMPLES[f"nn.{_kind}_pool2d_grad"] = lambda g, n=f"nn.{_kind}_pool2d_grad": build(
            n, g(1, 4, 3, 3), g(*_image), (2, 2), (2, 2)
        )
    for _form in ("", "_transpose"):
        SAMPLES[f"nn.conv{_rank}d{_form}"] = lambda g, n=f"nn.conv{_rank}d{_form}", d=_data, w=_weight: build(
            n, g(*d), g(*w)
        )


def _winograd(g: Given, rank: int) -> Any:
    products = g(*[4] * rank, 4, 3, known=(*range(rank), rank + 1))
    options = {"tile_size": 2, "channels": 3, "kernel_size": (3,) * rank}
    return build(f"nn.contrib_conv{rank}d_winograd_without_weight_transform", g(1, 4, *[6] * rank), products, **options)


def _parts() -> np.ndarray:
    return PackedWeight(ProductShape(4, 5), BFLOAT16_PARTS).pack(
        np.linspace(-1, 1, 20, dtype="float32").reshape(5, 1, 1, 4)
    )


SAMPLES |= {
    "contrib_couple_probabilities": lambda g: build("contrib_couple_probabilities", g(2, 3, 3, known=(1, 2))),
    "contrib_find": lambda g: build("contrib_find", g(2, 3, dtype=i64), g(2, dtype=i64, known=(0,))),
    "contrib_ngram_count": lambda g: build(
        "contrib_ngram_count",
        g(2, 4, dtype=i64),
        g(3, dtype=i64, values=[0, 0, 1], known=(0,)),
        g(3, 2, dtype=i32, values=[[1, 3], [0, 0], [0, 0]], known=(0, 1)),
        g(3, dtype=i32, values=[-1, 0, 1], known=(0,)),
        outputs=2,
        min_length=1,
        max_length=1,
        max_skip=0,
    ),
    "contrib_warping_path": lambda g: build("contrib_warping_path", g(2, 3)),
    "contrib_tree_ensemble": lambda g: build(
        "contrib_tree_ensemble",
        g(3, 2),
        g(3, 2, dtype=i32, values=[[1, 1], [0, 0], [0, 1]], known=(0, 1)),
        g(3, values=[0.5, float("nan"), float("nan")], known=(0,)),
        g(8, dtype=i32, values=[0] * 8, known=(0,)),
        g(1, dtype=i32, values=[1], known=(0,)),
        g(1, 2, dtype=i32, known=(0, 1)),
        g(1, dtype=i32, known=(0,)),
        g(3, known=(0,)),
        targets=1,
        features=2,
    ),
    "contrib_strings": lambda g: _same(build("contrib_strings", '["a", "b"]', [2]), "a"),
    "contrib_text_numbers": lambda g: relay.equal(
        build("contrib_text_numbers", _texts(g)), build("contrib_text_numbers", _texts(g))
    ),
    "contrib_string_concatenate": lambda g: _same(build("contrib_string_concatenate", _texts(g), _texts(g)), "00"),
    "contrib_string_split": lambda g: build("contrib_string_split", _texts(g))[1],
    "contrib_string_normalize": lambda g: _same(build("contrib_string_normalize", _texts(g)), "0"),
    "contrib_string_hash": lambda g: build("contrib_string_hash", _texts(g), "int32", 3),
    "contrib_string_tokenize": lambda g: _same(build("contrib_string_tokenize", _texts(g), "[0-9]"), "0"),
    "contrib_full_match": lambda g: build("contrib_full_match", _texts(g), r"[02]"),
    "contrib_string_order": lambda g: build("contrib_string_order", _texts(g)),
    "contrib_string_from_number": lambda g: _same(_texts(g), "0"),
    "contrib_string_to_number": lambda g: build("contrib_string_to_number", _texts(g), "float32"),
    "contrib_convert": lambda g: build("contrib_to_stored", build("contrib_convert", g(2, 3), "float8_e4m3fn")),
    "contrib_from_stored": lambda g: build(
        "contrib_to_stored", build("contrib_from_stored", g(2, 3, dtype="int8"), "int4")
    ),
    "contrib_quantized": lambda g: build("contrib_quantized", g(2, 3), g(1, 3, dtype="int8"), "int8"),
    "contrib_rounded": lambda g: build("contrib_rounded", g(2, 3), g(1, 3, dtype="int8"), "int8"),
    "contrib_to_stored": lambda g: build("contrib_to_stored", g(2, 3, dtype="int8")),
    "acosh": lambda g: build("acosh", g(2, 3, values=[[1, 2, 3]] * 2)),
    "nn.conv2d_backward_weight": lambda g: build(
        "nn.conv2d_backward_weight", g(1, 3, 4, 4), g(1, 4, 6, 6), kernel_size=(3, 3)
    ),
    "nn.contrib_conv2d_NCHWc": lambda g: build(
        "nn.contrib_conv2d_NCHWc", g(1, 1, 6, 6, 8), g(4, 8, 3, 3), out_layout="NCHW2c"
    ),
    "nn.contrib_depthwise_conv2d_NCHWc": lambda g: build(
        "nn.contrib_depthwise_conv2d_NCHWc", g(1, 1, 6, 6, 8), g(8, 1, 3, 3), groups=8
    ),
    "nn.contrib_attention": lambda g: build(
        "nn.contrib_attention",
        g(6, 3, 8, known=(2,)),
        g(6, 5, 8, known=(2,)),
        g(6, 5, 16, known=(2,)),
        g(2, 1, 1, 5, known=(1, 2)),
        scale=0.5,
        heads=3,
        lanes=8,
    ),
    "nn.contrib_conv2d_winograd_fused": lambda g: build(
        "nn.contrib_conv2d_winograd_fused",
        g(1, 5, 6, 8, known=(3,)),
        g(3, 3, 8, 16, known=(0, 1, 2, 3)),
        g(16),
        tile=(2, 2),
        block=8,
        rows=2,
        count=4,
        lanes=8,
        has_bias=True,
    ),
    "nn.contrib_packed_gemm": lambda g: build(
        "nn.contrib_packed_gemm",
        g(2, 3, 4, known=(2,)),
        g(2, 4, 8, known=(0, 1, 2)),
        g(16),
        lanes=8,
        units=16,
        has_bias=True,
    ),
    "nn.contrib_inverted_residual": lambda g: build(
        "nn.contrib_inverted_residual",
        g(2, 5, 6, 8, known=(1, 2, 3)),
        g(3, 3, 8, known=(0, 1, 2)),
        g(8, known=(0,)),
        g(1, 8, 8, known=(0, 1, 2)),
        g(4, known=(0,)),
        g(2, 3, 4, 4),
        padding=(1, 0, 1, 0),
        strides=(2, 1),
        lanes=8,
        registers=16,
        units=4,
    ),
    "nn.contrib_interleave_subpixels": lambda g: build(
        "nn.contrib_interleave_subpixels",
        relay.Tuple([g(2, 3, 4, 6), g(2, 3, 4, 6)]),
        strides=[2, 3],
        joined=[0, 1],
        crop=[0, 1],
        rest=[1, 2],
        shifts=[[0, 0], [0, 0]],
    ),
    "nn.contrib_block_dequantize": lambda g: build(
        "nn.contrib_block_dequantize",
        g(3, 4, dtype="uint8", values=np.arange(12) * 21, known=(1,)),
        g(3, 2, known=(1,)),
        g(1, 1, dtype="uint8", values=[9], known=(0, 1)),
        block_size=5,
    ),
    "nn.contrib_block_quantized_dense": lambda g: build(
        "nn.contrib_block_quantized_dense",
        g(2, 3, 20, known=(2,)),
        g(5, 2, 8, dtype="uint8", values=np.arange(80) * 3, known=(0, 1, 2)),
        g(5, 2, known=(0, 1)),
        channels=20,
        units=5,
        block_size=16,
    ),
    "nn.contrib_block_quantized_product": lambda g: build(
        "nn.contrib_block_quantized_product",
        g(2, 3, 20, known=(2,)),
        g(2, 2, 2, 4, 1, dtype="uint32", values=np.arange(32) * 1234567, known=(0, 1, 2, 3, 4)),
        g(2, 2, 4, known=(0, 1, 2)),
        way="float32",
        channels=20,
        units=5,
        block_size=16,
        lanes=4,
    ),
    "nn.contrib_packed_product": lambda g: build(
        "nn.contrib_packed_product",
        g(2, 3, 4, known=(2,)),
        g(1, 1, 3, 2, 16, 16, 2, dtype="uint16", values=_parts(), known=(0, 1, 2, 3, 4, 5, 6)),
        encoding="bfloat16_parts",
        channels=4,
        units=5,
    ),
    "nn.contrib_rnn": lambda g: build(
        "nn.contrib_rnn", g(5, 3, 6, known=(2,)), g(2, 6, 1, 4, known=(0, 1, 2, 3)), g(3, 6), _lengths(g)
    ),
    "nn.contrib_lstm": lambda g: build(
        "nn.contrib_lstm",
        g(5, 3, 32, known=(2,)),
        g(2, 8, 4, 4, known=(0, 1, 2, 3)),
        g(3, 8),
        g(3, 8),
        g(24),
        _lengths(g),
        has_peepholes=True,
    ),
    "nn.contrib_gru": lambda g: build(
        "nn.contrib_gru", g(5, 2, 24, known=(2,)), g(2, 8, 3, 4, known=(0, 1, 2, 3)), g(2, 8), g(8)
    ),
    "nn.contrib_dense_pack": lambda g: build("nn.contrib_dense_pack", g(2, 6), g(2, 6, 4), "NC4n"),
    "nn.contrib_conv2d_winograd_weight_transform": lambda g: build(
        "nn.contrib_conv2d_winograd_weight_transform", g(3, 4, 3, 3, known=(2, 3)), 2
    ),
    "nn.contrib_conv3d_winograd_weight_transform": lambda g: build(
        "nn.contrib_conv3d_winograd_weight_transform", g(3, 4, 3, 3, 3, known=(2, 3, 4)), 2
    ),
    "nn.contrib_conv2d_winograd_without_weight_transform": lambda g: _winograd(g, 2),
    "nn.contrib_conv3d_winograd_without_weight_transform": lambda g: _winograd(g, 3),
    "nn.deformable_conv2d": lambda g: build("nn.deformable_conv2d", g(*_image), g(1, 18, 4, 4), g(3, 4, 3, 3)),
    "nn.correlation": lambda g: build("nn.correlation", g(*_image), g(*_image), 1, 1, 1, 1, 1, True),
    "nn.dense": lambda g: build("nn.dense", g(2, 3), g(4, 3)),
    "nn.matmul": lambda g: build("nn.matmul", g(2, 3), g(3, 4)),
    "nn.batch_matmul": lambda g: build("nn.batch_matmul", g(2, 3, 4), g(2, 5, 4)),
    "nn.leaky_relu": lambda g: build("nn.leaky_relu", g(2, 3), 0.1),
    "nn.prelu": lambda g: build("nn.prelu", g(2, 3), g(3)),
    "nn.bias_add": lambda g: build("nn.bias_add", g(2, 3), g(3)),
    "nn.batch_norm": lambda g: build("nn.batch_norm", g(2, 3), g(3), g(3), g(3), g(3)),
    "nn.layer_norm": lambda g: build("nn.layer_norm", g(2, 3), g(3), g(3)),
    "nn.instance_norm": lambda g: build("nn.instance_norm", g(2, 3, 4), g(3), g(3)),
    "nn.group_norm": lambda g: build("nn.group_norm", g(2, 4, 3), g(4), g(4), 2),
    "nn.l2_normalize": lambda g: build("nn.l2_normalize", g(2, 3), 1e-6, [1]),
    "nn.cross_entropy": lambda g: build("nn.cross_entropy", g(2, 3), g(2, 3)),
    "nn.cross_entropy_with_logits": lambda g: build("nn.cross_entropy_with_logits", g(2, 3), g(2, 3)),
    "nn.nll_loss": lambda g: build("nn.nll_loss", g(2, 3), g(2, dtype=i32), g(3)),
    "nn.pad": lambda g: build("nn.pad", g(2, 3), ((1, 0), (0, 2))),
    "dyn.nn.pad": lambda g: build("dyn.nn.pad", g(2, 3), g(2, 2, dtype=i64, known=(0, 1)), g()),
    "nn.mirror_pad": lambda g: build("nn.mirror_pad", g(2, 3), ((1, 0), (0, 2))),
    "nn.space_to_depth": lambda g: build("nn.space_to_depth", g(*_image), 2),
    "nn.depth_to_space": lambda g: build("nn.depth_to_space", g(*_image), 2),
    "nn.space_to_batch_nd": lambda g: build("nn.space_to_batch_nd", g(1, 4, 4, 2), (2, 2), ((0, 0), (0, 0))),
    "nn.batch_to_space_nd": lambda g: build("nn.batch_to_space_nd", g(4, 2, 2, 2), (2, 2), ((0, 0), (0, 1))),
    "nn.dilate": lambda g: build("nn.dilate", g(2, 3), (2, 1)),
    "nn.upsampling": lambda g: build("nn.upsampling", g(*_image), 2, 1.5),
    "nn.upsampling3d": lambda g: build("nn.upsampling3d", g(1, 2, 2, 3, 2), 2, 1.5, 1),
    "dyn.nn.upsampling": lambda g: build("dyn.nn.upsampling", g(*_image), g(values=2), g(values=1.5)),
    "dyn.nn.upsampling3d": lambda g: build(
        "dyn.nn.upsampling3d", g(1, 2, 2, 3, 2), g(values=2), g(values=1.5), g(values=1)
    ),
    "annotation.cast_hint": lambda g: build("annotation.cast_hint", g(2, 3), "int8"),
    "annotation.compiler_begin": lambda g: build("annotation.compiler_begin", g(2, 3), "dnnl"),
    "annotation.compiler_end": lambda g: build("annotation.compiler_end", g(2, 3), "dnnl"),
    "on_device": lambda g: build("on_device", g(2, 3), "cpu"),
    "device_copy": lambda g: build("device_copy", g(2, 3), "cpu", "cpu"),
    "vm.reshape_tensor": lambda g: build("vm.reshape_tensor", g(2, 3), g.sizes(3, 2), (relay.Any(), relay.Any())),
    "cast": lambda g: build("cast", g(2, 3), "int8"),
    "reinterpret": lambda g: build("reinterpret", g(2, 3), i32),
    "cast_like": lambda g: build("cast_like", g(2, 3), g(1, dtype=i32)),
    "clip": lambda g: build("clip", g(2, 3), 0.2, 0.5),
    "fixed_point_multiply": lambda g: build("fixed_point_multiply", g(2, 3, dtype=i32), 1 << 30, 2),
    "fixed_point_multiply_per_axis": lambda g: build(
        "fixed_point_multiply_per_axis", *(g(*s, dtype=i32) for s in ((2, 3), (3,), (3,), (3,))), axes=[1]
    ),
    "where": lambda g: build("where", g(2, 3, dtype="bool"), g(2, 3), g(1, 3)),
    "concatenate": lambda g: build("concatenate", [g(2, 3), g(1, 3)]),
    "stack": lambda g: build("stack", [g(2, 3), g(2, 3)]),
    "split": lambda g: build("split", g(4, 3), 2),
    "meshgrid": lambda g: build("meshgrid", [g(2), g(3)]),
    "einsum": lambda g: build("einsum", [g(2, 3), g(3, 4)], "ij,jk->ik"),
    "reshape": lambda g: build("reshape", g(2, 3), (3, -1)),
    "dyn.reshape": lambda g: build("dyn.reshape", g(2, 3), g.sizes(3, -1)),
    "contrib_reverse_reshape": lambda g: build("contrib_reverse_reshape", g(2, 3), (-1, 3)),
    "reshape_like": lambda g: build("reshape_like", g(2, 3), g(3, 2)),
    "expand_dims": lambda g: build("expand_dims", g(2, 3), 1, 2),
    "dyn.expand_dims": lambda g: build("dyn.expand_dims", g(2, 3), g(dtype=i64, values=1), 1),
    "squeeze": lambda g: build("squeeze", g(2, 1, 3, known=(1,)), [1]),
    "dyn.squeeze": lambda g: build("dyn.squeeze", g(2, 1, 3, known=(1,)), g(1, dtype=i64, values=[1], known=(0,))),
    "take": lambda g: build("take", g(2, 3), g(4, dtype=i32), axis=0),
    "gather": lambda g: build("gather", g(2, 3), 1, g(2, 4, dtype=i32)),
    "gather_nd": lambda g: build("gather_nd", g(2, 3), g(2, 4, dtype=i32, known=(0,))),
    "adv_index": lambda g: build("adv_index", [g(2, 3), g(4, dtype=i64)]),
    "unravel_index": lambda g: build("unravel_index", g(4, dtype=i32), g(2, dtype=i32, values=[2, 3], known=(0,))),
    "full": lambda g: build("full", g(), (2, 3)),
    "dyn.full": lambda g: build("dyn.full", g(), g.sizes(2, 3)),
    "zeros": lambda g: build("zeros", (2, 3), "float32"),
    "dyn.zeros": lambda g: build("dyn.zeros", g.sizes(2, 3), "float32"),
    "ones": lambda g: build("ones", (2, 3), "float32"),
    "dyn.ones": lambda g: build("dyn.ones", g.sizes(2, 3), "float32"),
    "full_like": lambda g: build("full_like", g(2, 3), g()),
    "arange": lambda g: build("arange", g(dtype=i32, values=1), g(dtype=i32, values=5), g(dtype=i32, values=2), i32),
    "one_hot": lambda g: build("one_hot", g(4, dtype=i32), g(), g(), 3, -1, "float32"),
    "dyn.one_hot": lambda g: build("dyn.one_hot", g(4, dtype=i32), g(), g(), g(dtype=i64, values=3), -1, "float32"),
    "broadcast_to": lambda g: build("broadcast_to", g(1, 3), (2, 3)),
    "dyn.broadcast_to": lambda g: build("dyn.broadcast_to", g(1, 3), g.sizes(2, 3)),
    "broadcast_to_like": lambda g: build("broadcast_to_like", g(1, 3), g(2, 3)),
    "collapse_sum_like": lambda g: build("collapse_sum_like", g(2, 3), g(1, 3)),
    "collapse_sum_to": lambda g: build("collapse_sum_to", g(2, 3), (1, 3)),
    "dyn.topk": lambda g: build("dyn.topk", g(2, 3), g(dtype=i64, values=2)),
    "searchsorted": lambda g: build("searchsorted", g(3, values=[0.1, 0.3, 0.7]), g(4)),
    "unique": lambda g: build("unique", g(5, dtype=i32)),
    "image.grid_sample": lambda g: build("image.grid_sample", g(*_image), g(1, 2, 3, 3, known=(1,))),
    "image.affine_grid": lambda g: build("image.affine_grid", g(2, 2, 3, known=(1, 2)), (4, 5)),
    "image.resize1d": lambda g: build("image.resize1d", g(1, 4, 6), 8),
    "image.resize2d": lambda g: build("image.resize2d", g(*_image), (8, 3)),
    "image.resize3d": lambda g: build("image.resize3d", g(1, 2, 2, 3, 2), (4, 3, 2)),
    "dyn.image.resize2d": lambda g: build("dyn.image.resize2d", g(*_image), g.sizes(8, 3)),
    "image.crop_and_resize": lambda g: build(
        "image.crop_and_resize", g(2, 3, 6, 6), g(4, 4, known=(1,)), g(4, dtype=i32), (3, 3)
    ),
    "image.dilation2d": lambda g: build("image.dilation2d", g(*_image), g(4, 3, 3)),
    "sequence_mask": lambda g: build("sequence_mask", g(4, 3), g(3, dtype=i32)),
    "trilu": lambda g: build("trilu", g(3, 4), g(dtype=i64)),
    "matrix_set_diag": lambda g: build("matrix_set_diag", g(3, 3), g(3)),
    "layout_transform": lambda g: build("layout_transform", g(*_image), "NCHW", "NHWC2c"),
    "scatter_elements": lambda g: build("scatter_elements", g(3, 4), g(2, 4, dtype=i32), g(2, 4), 0, "add"),
    "scatter_nd": lambda g: build("scatter_nd", g(3, 4), g(2, 4, dtype=i32, known=(0,)), g(4)),
    "sparse_to_dense": lambda g: build("sparse_to_dense", g(3, dtype=i32, values=[0, 2, 4]), (5,), g(3), g()),
    "dyn.sparse_to_dense": lambda g: build(
        "dyn.sparse_to_dense", g(3, dtype=i32, values=[0, 2, 4]), g.sizes(5), g(3), g()
    ),
    "dyn.transpose": lambda g: build("dyn.transpose", g(2, 3, 4), g.sizes(2, 0, 1)),
    "contrib.pin_shape": lambda g: build("contrib.pin_shape", g(2, 3), (relay.Any(), 3)),
    "contrib.positions": lambda g: build("contrib.positions", 5, i64),
    "contrib.tensor_scatter": lambda g: build(
        "contrib.tensor_scatter", g(2, 4, 3), g(2, 2, 3), g(2, dtype=i64), axis=1
    ),
    "contrib.det": lambda g: build("contrib.det", g(2, 3, 3)),
    "contrib.unique_rows": lambda g: build("contrib.unique_rows", g(5, 2, dtype=i32)),
    "image.contrib_col2im": lambda g: build(
        "image.contrib_col2im",
        g(1, 8, 9),
        g.sizes(4, 4),
        g.sizes(2, 2),
        image=(relay.Any(),) * 2,
        block=(relay.Any(),) * 2,
        strides=(1, 1),
        dilations=(1, 1),
        padding=(0, 0, 0, 0),
    ),
    "image.contrib_resize_axis": lambda g: build(
        "image.contrib_resize_axis",
        g(1, 4, 6),
        g(1, dtype=i64, values=[3], known=(0,)),
        g(4, dtype="float64", values=[0.5, 3, 0, 1], known=(0,)),
        axis=2,
        size=relay.Any(),
        antialias=True,
    ),
    "nn.contrib_max_pool_with_indices": lambda g: build(
        "nn.contrib_max_pool_with_indices",
        g(1, 2, 5, 6),
        pool_size=(2, 3),
        strides=(1, 2),
        dilation=(1, 1),
        padding=(0, 1, 1, 1),
        layout="NCHW",
    ),
    "vision.contrib_class_non_max_suppression": lambda g: build(
        "vision.contrib_class_non_max_suppression", g(1, 5, 4, known=(2,)), g(1, 2, 5), g(dtype=i64, values=2), g(), g()
    ),
    "vision.contrib_roi_align": lambda g: build(
        "vision.contrib_roi_align", g(1, 2, 5, 6), g(3, 5, known=(1,)), (2, 2), 4.0, aligned=True, mode="max"
    ),
    "size_tensor": lambda g: build("size_tensor", (2, 3), (2,)),
    "contrib.inverse": lambda g: build("contrib.inverse", g(2, 3, 3)),
    "nn.contrib_linear_attention": lambda g: build(
        "nn.contrib_linear_attention",
        g(1, 3, 4, 2, known=(2,)),
        g(1, 3, 2, 2, known=(2,)),
        g(1, 3, 2, 5, known=(2,)),
        g(1, 2, 2, 5, known=(1,)),
        g(1, 3, 2, 2, known=(2,)),
        g(1, 3, 2, known=(2,)),
    ),
    "require": lambda g: build("require", g(2, 3), True, "never"),
    "dyn.require": lambda g: build("dyn.require", g(2, 3), g(dtype="bool", values=True), "never"),
    "strided_slice": lambda g: build("strided_slice", g(4, 3), (1, 0), (3, 2)),
    "dyn.strided_slice": lambda g: build("dyn.strided_slice", g(4, 3), g.sizes(1, 0), g.sizes(3, 2), g.sizes(1, 1)),
    "reverse": lambda g: build("reverse", g(2, 3), 1),
    "reverse_sequence": lambda g: build("reverse_sequence", g(2, 3), g(2, dtype=i32)),
    "tile": lambda g: build("tile", g(2, 3), (2, 1)),
    "dyn.tile": lambda g: build("dyn.tile", g(2, 3), g.sizes(2, 1)),
    "repeat": lambda g: build("repeat", g(2, 3), 2, 1),
    "slice_like": lambda g: build("slice_like", g(4, 3), g(2, 2)),
    "strided_set": lambda g: build("strided_set", g(4, 3), g(2, 3), g.sizes(1, 0), g.sizes(3, 3)),
    "sliding_window": lambda g: build("sliding_window", g(4, 6), 1, (3,), (2,)),
    "invert_permutation": lambda g: build("invert_permutation", g(3, dtype=i32, values=[2, 0, 1])),
    "stft": lambda g: build("stft", g(2, 16), 8, 4, 8, g(8, known=(0,)), False, True),
    "dft": lambda g: build("dft", g(2, 8), g(2, 8)),
    "contrib.fourier": lambda g: build(
        "contrib.fourier",
        g(2, 6, 3, 1),
        g(1, dtype=i64, values=[1], known=(0,)),
        g(1, dtype=i64, values=[10], known=(0,)),
        axis=relay.Any() if g.dynamic else 1,
        length=relay.Any() if g.dynamic else 10,
        onesided=True,
    ),
    "random.contrib_uniform": lambda g: build("random.contrib_uniform", g(dtype=i64, values=3), g(2, 5)),
    "random.contrib_normal": lambda g: build("random.contrib_normal", g(dtype=i64, values=3), g(2, 5)),
    "image.contrib_decode": lambda g: build("image.contrib_decode", g(20, dtype="uint8")),
    "nn.contrib_deformed_columns": lambda g: build(
        "nn.contrib_deformed_columns",
        g(1, 4, 5, 6),
        g(1, 24, 3, 4),
        g(1, 12, 3, 4),
        kernel_size=(3, 2),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 2),
        deformable_groups=2,
    ),
    "nn.fifo_buffer": lambda g: build("nn.fifo_buffer", g(2, 3), g(4, 3), axis=0),
    "sparse_reshape": lambda g: build("sparse_reshape", g(2, 2, dtype=i64, known=(1,)), g.sizes(2, 6), g.sizes(3, 4)),
    "sparse_fill_empty_rows": lambda g: build(
        "sparse_fill_empty_rows",
        g(2, 2, dtype=i64, values=[0, 1, 2, 0], known=(1,)),
        g(2, dtype=i64),
        g.sizes(4, 2),
        g(1, dtype=i64, known=(0,)),
    ),
    "relay.op.annotation.simulated_quantize": lambda g: build(
        "relay.op.annotation.simulated_quantize", g(2, 3), g(), g(), g()
    ),
}

SAMPLES |= {
    "buffer.create": lambda g: build("buffer.create", g.sizes(3, 2), shape=[relay.Any(), 2], dtype="float32"),
    "buffer.grow": lambda g: build("buffer.rows", build("buffer.grow", _buffer(g), g(2)), relay.const(3, i64)),
    "buffer.is_full": lambda g: build("buffer.is_full", _buffer(g), relay.const(3, i64)),
    "buffer.rows": lambda g: build("buffer.rows", _buffer(g), relay.const(2, i64)),
    "buffer.write": lambda g: build("buffer.write", _buffer(g), g(2), relay.const(1, i64)),
    "map.construct": lambda g: build("map.values", build("map.construct", g(2, dtype=i64), g(3, 2))),
    "map.keys": lambda g: build("map.keys", build("map.construct", g(2, dtype=i64), g(2))),
    "map.values": lambda g: build("map.values", build("map.construct", g(2, dtype=i64), g(2))),
    "at_most": lambda g: build("at_most", g(2, 3), limit=0.5),
    "unranked.as": lambda g: build("unranked.as", build("unranked.of", g(2, 3)), shape=[2, 3]),
    "unranked.of": lambda g: build("unranked.of", g(2, 3)),
    "unranked.rank": lambda g: build("unranked.rank", build("unranked.of", g(2, 3))),
    "optional.get": lambda g: build("optional.get", build("optional.some", g(2, 3))),
    "optional.has": lambda g: build("optional.has", build("optional.some", g(2, 3))),
    "optional.none": lambda g: build("optional.has", build("optional.none", dtype="float32")),
    "optional.some": lambda g: build("optional.has", build("optional.some", g(2, 3))),
    "sequence.append": lambda g: _at_one(build("sequence.append", build("sequence.construct", g(2, 3)), g(4, 3))),
    "sequence.at": lambda g: _at_one(_pair(g)),
    "sequence.construct": lambda g: build("sequence.length", _pair(g)),
    "sequence.copy": lambda g: _at_one(build("sequence.copy", _pair(g))),
    "sequence.erase": lambda g: build("sequence.length", build("sequence.erase", _pair(g), relay.const(-1, i64))),
    "sequence.insert": lambda g: _at_one(build("sequence.insert", _pair(g), g(1, 3), relay.const(1, i64))),
    "sequence.length": lambda g: build("sequence.length", _pair(g)),
}
