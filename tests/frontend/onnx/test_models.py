"""Whole models: each is compiled once and agrees with onnxruntime at several sizes of every unknown dimension, in the
process that compiled it and in a fresh one that loaded it.

The nine ``light`` models come with the onnx package: real networks whose weights are all the same number. The weights
are made random here, so that the results depend on them. Those that compile and run for long are tested nightly.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.frontend.onnx.programs import Compiled, assert_agrees, session
from tests.places import DATA, SHARED
from vmkit.errors import VMError

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
QUICK = ("squeezenet",)
SLOW = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "vgg19", "zfnet512"),
)


@cache
def packed(name: str) -> bytes:
    return lzma.decompress((DATA / f"{name}.onnx.xz").read_bytes())


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def check(proto: onnx.ModelProto, compiled: Compiled, feeds: list[Mapping[str, Any]], folder: Path) -> None:
    peer, names = session(proto), [o.name for o in proto.graph.output]
    for feed, elsewhere in zip(feeds, compiled.in_fresh_process(feeds, folder), strict=True):
        expected = peer.run(None, dict(feed))
        assert_agrees(compiled(**feed), expected, names)
        assert_agrees(elsewhere, expected, names)


def check_batches(proto: onnx.ModelProto, sizes: tuple[int, ...], folder: Path, scale: float = 1.0) -> None:
    """Compare a model of one image with batches, each image of which onnxruntime takes alone."""
    initializers = {i.name for i in proto.graph.initializer}
    (given,) = [i for i in proto.graph.input if i.name not in initializers]
    image = [d.dim_value for d in given.type.tensor_type.shape.dim][1:]
    compiled = Compiled(proto, {given.name: ("n", *image)})
    peer, names = session(proto), [o.name for o in proto.graph.output]
    feeds = [{given.name: random(size, *image, seed=size) * np.float32(scale)} for size in sizes]
    for feed, elsewhere in zip(feeds, compiled.in_fresh_process(feeds, folder), strict=True):
        images = feed[given.name]
        rows = [peer.run(None, {given.name: images[i : i + 1]}) for i in range(len(images))]
        expected = [np.concatenate(r) for r in zip(*rows, strict=True)]
        assert_agrees(compiled(**feed), expected, names)
        assert_agrees(elsewhere, expected, names)


def test_mnist(tmp_path: Path) -> None:
    with resources.as_file(resources.files("vmkit") / "data" / "mnist.onnx") as path:
        check_batches(onnx.load(path), (1, 2, 5), tmp_path, scale=100)


@pytest.mark.nightly
def test_ultraface(tmp_path: Path) -> None:
    check_batches(onnx.load_from_string(packed("ultraface")), (1, 2, 3), tmp_path)


def silero_feed(batch: int, sequence: int) -> dict[str, Any]:
    return {
        "input": random(batch, sequence) / 10,
        "state": random(2, batch, 128, seed=1),
        "sr": np.array(16000),
    }


def test_silero(tmp_path: Path) -> None:
    proto = onnx.load_from_string(packed("silero_op15"))
    compiled = Compiled(proto)
    assert str(compiled.executable.signature) == (
        "main(input: float32[batch, sequence], state: float32[2, batch, 128], sr: int64)"
        " -> (output: float32[batch, 1], stateN: float32[2, batch, 128])"
    )
    sizes = ((1, 512), (2, 512), (5, 256), (3, 640), (1, 192))
    check(proto, compiled, [silero_feed(*size) for size in sizes], tmp_path)
    # Longer pieces make no sense to the model: its recurrent layer would get five dimensions.
    with pytest.raises(VMError, match=r"the model cannot run at these sizes or values, .* a sequence has 3 dimensions"):
        compiled(**silero_feed(1, 1024))


@pytest.mark.skipif(
    not (SHARED / "models").is_dir(),
    reason="magika's model is too large to be kept with the tests and does not lie beside them; the others are run",
)
def test_magika(tmp_path: Path) -> None:
    proto = onnx.load(SHARED / "models" / "magika_v3_3.onnx")
    compiled = Compiled(proto)
    generator = np.random.default_rng(0)
    feeds = [{"bytes": generator.integers(0, 257, (n, 2048)).astype("int32")} for n in (1, 2, 5)]
    check(proto, compiled, feeds, tmp_path)


def with_random_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a light model with random weights in the place of those it fills with one number."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    shapes = {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}
    filled = [n for n in proto.graph.node if n.op_type == "ConstantOfShape"]
    del made.graph.node[:]
    made.graph.node.extend(n for n in proto.graph.node if n.op_type != "ConstantOfShape")
    generator = np.random.default_rng(0)
    for node in filled:
        shape = shapes[node.input[0]].tolist()
        fan_in = max(1, int(np.prod(shape[1:])))
        # Vectors are scales and variances among others: near 1. Matrices keep the size of what they are given.
        weights = generator.uniform(0.8, 1.2, shape) if len(shape) == 1 else generator.normal(0, fan_in**-0.5, shape)
        made.graph.initializer.append(numpy_helper.from_array(weights.astype("float32"), node.output[0]))
    return made


Light = Callable[[str], onnx.ModelProto]


def light(name: str) -> onnx.ModelProto:
    return with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx"))


@pytest.mark.parametrize("name", QUICK)
def test_light_model(name: str, tmp_path: Path) -> None:
    check_batches(light(name), (1, 2, 3), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
def test_slow_light_model(name: str, tmp_path: Path) -> None:
    check_batches(light(name), (1, 2, 3), tmp_path)
