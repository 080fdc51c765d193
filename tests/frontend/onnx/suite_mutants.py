"""Mutants of the cases of ONNX's backend suite, one of every operator, and of the exported families."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.frontend.onnx.backend_cases import case_of, cases
from tests.frontend.onnx.mutations import FEEDS, change_attribute, change_opset, forget_sizes, mutant, mutated
from tests.frontend.onnx.test_exported import SIZES, SLOW, feed_of, model_of

__all__ = ["Mutant", "family_mutant", "own_mutant", "suite_mutant"]

# Two runs of these need not agree.
_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
_LARGEST = 20_000


@dataclass(frozen=True)
class Mutant:
    """A file that may be no model, and what is fed to it, in the order of its inputs."""

    data: bytes
    feed: Sequence[np.ndarray]


def own_mutant(number: int) -> Mutant:
    """Return the mutant of a number, of a model that is written for this."""
    return Mutant(mutant(number), list(FEEDS.values()))


@functools.cache
def _by_operator() -> dict[str, list[str]]:
    """Return the names of the small cases by their first node's operator."""
    found: dict[str, list[str]] = {}
    for name, case in cases().items():
        if case.model is None or case.model.ByteSize() > _LARGEST or name.endswith("_expanded"):
            continue
        op_type = case.model.graph.node[0].op_type
        if op_type not in _RANDOM and all(isinstance(v, np.ndarray) for v in case_of(name)[1][0][0]):
            found.setdefault(op_type, []).append(name)
    return found


def suite_mutant(number: int) -> Mutant:
    """Return the mutant of a number, of a case of the suite: each operator is as likely as the others."""
    rng = random.Random(number)
    name = rng.choice(_by_operator()[rng.choice(sorted(_by_operator()))])
    original, sets = case_of(name)
    return _mutant(original, list(sets[0][0]), rng)


def family_mutant(number: int) -> Mutant:
    """Return the mutant of a number, of a family of exported models."""
    rng = random.Random(number)
    name = rng.choice(sorted(set(SIZES) - SLOW))
    return _mutant(model_of(name), list(feed_of(model_of(name), SIZES[name][0]).values()), rng)


def _mutant(original: onnx.ModelProto, feed: list[np.ndarray], rng: random.Random) -> Mutant:
    made = onnx.ModelProto()
    made.CopyFrom(original)
    if rng.random() < 0.15:
        return Mutant(mutated(made, rng), feed)
    # The sizes of results are those of the case, which another attribute changes.
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    for _ in range(rng.choice([1, 1, 2, 3])):
        change = rng.choice(_CHANGES)
        if change in _OF_MODELS:
            _OF_MODELS[change](made, rng)
        elif feed:
            _OF_FEEDS[change](made, feed, rng)
    return Mutant(made.SerializeToString(deterministic=True), feed)


# -- mutations of models that stay models: what they take and compute is another thing


def _fix_input(proto: onnx.ModelProto, feed: list[np.ndarray], rng: random.Random) -> None:
    """An input becomes an initializer of the same value."""
    index = rng.randrange(len(feed))
    given = proto.graph.input[index]
    proto.graph.initializer.append(numpy_helper.from_array(feed.pop(index), given.name))
    del proto.graph.input[index]


def _change_values(proto: onnx.ModelProto, feed: list[np.ndarray], rng: random.Random) -> None:
    """An element of what is fed is another one: an axis that there is not, a size below 0, no number."""
    index = rng.randrange(len(feed))
    values = _VALUES.get(feed[index].dtype.kind)
    if feed[index].size and values:
        changed = feed[index].copy()
        changed.reshape(-1)[rng.randrange(changed.size)] = rng.choice(values)
        feed[index] = changed


_VALUES = {
    "i": [-100, -3, -1, 0, 1, 2, 5, 100],
    "u": [0, 1, 2, 5, 100],
    "f": [-1.0, 0.0, 1.0, 1e4, np.inf, np.nan],
}


def _change_type(proto: onnx.ModelProto, feed: list[np.ndarray], rng: random.Random) -> None:
    """Inputs of one data type have another one, and so have the results that had it."""
    old = feed[rng.randrange(len(feed))].dtype
    new = np.dtype(rng.choice(["float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"]))
    if old.kind not in "iufb":
        return
    for index, value in enumerate(feed):
        if value.dtype == old:
            with np.errstate(invalid="ignore", over="ignore"):
                feed[index] = value.astype(new)
    codes = [helper.np_dtype_to_tensor_dtype(t) for t in (old, new)]
    for declared in (*proto.graph.input, *proto.graph.output):
        if declared.type.tensor_type.elem_type == codes[0]:
            declared.type.tensor_type.elem_type = codes[1]


def _change_shape(proto: onnx.ModelProto, feed: list[np.ndarray], rng: random.Random) -> None:
    """An input has one axis more, of size 1, or an axis that is shorter, of one row, or empty."""
    index = rng.randrange(len(feed))
    value = feed[index]
    axis = rng.randrange(value.ndim + 1)
    if axis == value.ndim:
        value = np.expand_dims(value, rng.choice([0, -1]))
    else:
        value = np.take(value, range(min(value.shape[axis], rng.choice([0, 1, 1, 2, 3]))), axis)
    feed[index] = value
    shape = proto.graph.input[index].type.tensor_type.shape
    shape.Clear()
    for size in value.shape:
        shape.dim.add().dim_value = size


_OF_MODELS = {f.__name__: f for f in (change_attribute, change_opset, forget_sizes)}
_OF_FEEDS = {f.__name__: f for f in (_fix_input, _change_values, _change_type, _change_shape)}
_CHANGES = [*_OF_MODELS, *_OF_FEEDS]
