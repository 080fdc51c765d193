"""Random numbers: those of a seed are numpy's, and without a seed they differ from run to run."""

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.onnx.programs import Compiled, array, model, node
from vmkit.errors import ModelError


def test_numbers_of_a_seed_are_those_of_numpy_at_every_run_and_size() -> None:
    nodes = [
        node("RandomUniform", "", "u", shape=[3, 400], seed=7.0, low=-1.0, high=3.0),
        node("RandomNormal", "", "n", shape=[5, 3], seed=8.0, mean=1.0, scale=2.0, dtype=TensorProto.DOUBLE),
        node("RandomUniformLike", "x", "v", seed=9.9, dtype=TensorProto.FLOAT),
        node("RandomNormalLike", "y", "m", seed=-1.0),
        node("RandomNormal", "", "h", shape=[2, 0], seed=1.0, dtype=TensorProto.FLOAT16),
        node("Bernoulli", "p", "b", seed=3.0),
        node("Bernoulli", "p", "flags", seed=3.0, dtype=TensorProto.BOOL),
    ]
    inputs = {"x": (("a", 3), "int64"), "y": (("a", "b"), "float32"), "p": (("c",), "float32")}
    compiled = Compiled(model(nodes, inputs, "u n v m h b flags"))
    rng = np.random.RandomState
    for a, b in ((1, 1), (7, 90)):
        chances = np.random.default_rng(a).uniform(0, 1, b).astype("float32")
        feed = {"x": np.zeros((a, 3), "int64"), "y": array(a, b), "p": chances}
        for _ in range(2):
            u, n, v, m, h, drawn, flags = compiled(**feed)
            np.testing.assert_allclose(u, rng(7).rand(3, 400).astype("float32") * 4 - 1, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(n, rng(8).randn(5, 3) * 2 + 1, rtol=1e-12)
            np.testing.assert_array_equal(v, rng(9).rand(a, 3).astype("float32"))
            np.testing.assert_allclose(m, rng(2**32 - 1).randn(a, b).astype("float32"), rtol=1e-6)
            assert h.shape == (2, 0) and h.dtype == np.float16
            np.testing.assert_array_equal(drawn, rng(3).binomial(1, chances).astype("float32"))
            np.testing.assert_array_equal(flags, drawn.astype(bool))


def test_numbers_without_a_seed_differ_by_run_and_by_node() -> None:
    nodes = [
        node("RandomUniform", "", "u", shape=[100]),
        node("RandomUniform", "", "v", shape=[100]),
        node("RandomNormal", "", "n", shape=[20000]),
        node("Multinomial", "x", "k", sample_size=50),
    ]
    compiled = Compiled(model(nodes, {"x": (("r", 9), "float32")}, "u v n k"))
    drawn = [compiled(x=np.zeros((2, 9), "float32")) for _ in range(3)]
    for output in range(4):
        for one, two in ((0, 1), (1, 2), (0, 2)):
            assert (drawn[one][output] != drawn[two][output]).any()
    u, v, n, _ = drawn[0]
    assert (u != v).any() and u.min() >= 0 and u.max() < 1
    assert abs(n.mean()) < 0.05 and abs(n.std() - 1) < 0.05


def test_samples_of_classes_follow_their_logarithms() -> None:
    nodes = [
        node("Multinomial", "x", "k", sample_size=4000, seed=5.0),
        node("Multinomial", "x", "wide", sample_size=3, seed=5.0, dtype=TensorProto.INT64),
    ]
    compiled = Compiled(model(nodes, {"x": (("r", "c"), "float32")}, "k wide"))
    chances = np.array([[0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        logarithms = (np.log(chances) + 3).astype("float32")
    k, wide = compiled(x=logarithms)
    assert (k.dtype, wide.dtype, wide.shape) == (np.int32, np.int64, (3, 3))
    shares = np.stack([np.bincount(row, minlength=4) / 4000 for row in k])
    np.testing.assert_allclose(shares, chances, atol=0.03)
    assert not shares[chances == 0].any()
    np.testing.assert_array_equal(compiled(x=logarithms)[0], k)
    assert compiled(x=np.zeros((1, 1), "float32"))[0].tolist() == [[0] * 4000]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("RandomUniformLike", "x", "y"), "random numbers are floats; of int64 there are none"),
        (node("RandomNormal", "", "y", shape=[-1]), "has a negative dimension"),
        (node("Multinomial", "f", "y", sample_size=-2), "sample_size is -2"),
    ],
)
def test_random_numbers_that_cannot_be_are_refused(made: object, message: str) -> None:
    inputs = {"x": ((2,), "int64"), "f": ((2, 2), "float32")}
    with pytest.raises(ModelError, match=message):
        Compiled(model([made], inputs, "y"))  # type: ignore[list-item]
