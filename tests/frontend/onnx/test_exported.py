"""Families of models as torch's exporters write them: each is compiled once and agrees with onnxruntime at any size.

``benchmarks/exported`` has what they are made of. The archive holds graphs and vectors; matrices are made random here.
"""

from __future__ import annotations

import math
import zipfile
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vmkit
from tests.frontend.onnx.programs import Compiled, assert_agrees, operators, session
from tests.places import DATA

ARCHIVE = DATA / "exported.zip"
TEXT = ({"batch": 2, "sequence": 12}, {"batch": 1, "sequence": 1}, {"batch": 3, "sequence": 7})
IMAGES = tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 48, 64), (1, 32, 32), (1, 64, 40)))
ODD_IMAGES = tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 33, 50), (1, 31, 32), (1, 64, 21)))
BATCHES = ({"batch": 2}, {"batch": 1}, {"batch": 5})
STEPS = tuple({"batch": b, "sequence": s, "past": p, "total": p + s} for b, s, p in ((2, 3, 5), (1, 1, 9), (2, 6, 0)))
CROSSED = tuple({"batch": b, "past": p, "encoded": e} for b, p, e in ((2, 5, 7), (1, 1, 4), (3, 20, 12)))
# The detector joins levels of half the size with levels above them: both sides are whole multiples of 32.
PYRAMIDS = tuple({"batch": b, "height": h, "width": w} for b, h, w in ((2, 64, 96), (1, 32, 32), (1, 96, 64)))
SIZES = {
    "beam_search": tuple({"batch": b, "steps": n} for b, n in ((2, 4), (1, 1), (3, 9))),
    "bert_eager": TEXT,
    "clip": tuple({"texts": t, "images": i, "sequence": s} for t, i, s in ((3, 2, 9), (1, 1, 4), (4, 5, 16))),
    "detector": PYRAMIDS,
    "distilbert": TEXT,
    "gpt2": STEPS,
    "gpt2_eager": STEPS,
    "llama": STEPS,
    "mobilenet_v3": IMAGES,
    "qwen": STEPS,
    "t5_decoder": CROSSED,
    "t5_encoder": TEXT,
    "tagger": tuple({"batch": b, "length": n} for b, n in ((3, 7), (1, 4), (5, 16))),
    "unet_interpolated": ODD_IMAGES,
    "vit": IMAGES,
    "vit_fixed": BATCHES,
    "whisper_decoder": CROSSED,
    "whisper_encoder": BATCHES,
}
# Where sizes come from data: what is found in an image, how long a search goes on.
DATA_DEPENDENT = {"beam_search", "detector"}


@cache
def model_of(name: str) -> onnx.ModelProto:
    """Return a sample with random numbers in its matrices, as large as training begins with."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        made = onnx.ModelProto.FromString(archive.read(f"{name}.onnx"))
    random = np.random.default_rng(0)
    for tensor in made.graph.initializer:
        is_empty = not tensor.raw_data and not tensor.float_data and math.prod(tensor.dims) > 0
        if tensor.data_type == TensorProto.FLOAT and is_empty:
            fan = math.prod(tensor.dims[1:]) if len(tensor.dims) > 2 else tensor.dims[0]
            values = random.standard_normal(tuple(tensor.dims)).astype("float32") * np.float32(fan**-0.5)
            tensor.raw_data = values.tobytes()
    return made


def feed_of(made: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Return inputs of given sizes: words and lengths that the models know, masks that hide one place."""
    random = np.random.default_rng(1)
    feed = {}
    for given in made.graph.input:
        tensor = given.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if "mask" in given.name:
            value = np.ones(shape, dtype)
            value[1:, :1] = 0
        elif given.name == "lengths":
            value = np.full(shape, sizes["length"], dtype)
            value[1:] = random.integers(1, sizes["length"] + 1, len(value) - 1)
        elif given.name == "steps":
            value = np.full(shape, sizes["steps"], dtype)
        elif dtype.kind == "i":
            value = random.integers(0, 50, shape).astype(dtype)
        else:
            value = random.standard_normal(shape).astype(dtype)
        feed[given.name] = value
    return feed


# Those that take long, or are of one kind with another here.
SLOW = {"bert_eager", "detector", "gpt2_eager", "mobilenet_v3", "qwen", "t5_encoder", "vit_fixed", "whisper_encoder"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly) if n in SLOW else n for n in SIZES])
def test_an_exported_family_agrees_at_every_size(name: str) -> None:
    made = model_of(name)
    compiled, peer, names = Compiled(made), session(made), [o.name for o in made.graph.output]
    for sizes in SIZES[name]:
        feed = feed_of(made, sizes)
        assert_agrees(compiled(**feed), peer.run(None, feed), names)


# The LSTM that ends each sequence at its own length counts positions when it runs.
@pytest.mark.parametrize("name", sorted(set(SIZES) - DATA_DEPENDENT - {"tagger"}))
def test_no_shape_is_computed_while_an_exported_family_runs(name: str) -> None:
    made = model_of(name)
    assert vmkit.check(made).data_dependent == ()
    module, _ = vmkit.relay.frontend.from_onnx(made)
    # Whether ids are in a table is looked up; a shape is not.
    assert not {n for n in operators(module) if n.startswith("dyn.") or n == "shape_of"} - {"dyn.require"}


def test_a_sample_has_no_matrix_of_its_own() -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        stored = [onnx.ModelProto.FromString(archive.read(n)).graph.initializer for n in archive.namelist()]
    large = [t for tensors in stored for t in tensors if len(t.dims) > 1 and math.prod(t.dims) >= 256]
    floats = [t for t in large if t.data_type == TensorProto.FLOAT]
    assert floats and not any(t.raw_data or t.float_data for t in floats)
    assert all(numpy_helper.to_array(t).size for t in large if t.data_type != TensorProto.FLOAT)
