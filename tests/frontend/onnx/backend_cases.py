"""The cases of ONNX's own backend suite: a model, what goes in, what must come out, and how near."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from vmkit import backend

__all__ = ["RANDOM", "ROUNDED", "case_of", "cases", "run"]

_KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")


RANDOM = frozenset(f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded"))
"""The cases whose results are random, of which the suite calls what it expects informational."""


@functools.cache
def cases() -> dict[str, Any]:
    """Return every case by name, those of the training domain left out: vmkit runs models and does not train them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes what it expects, infinities included
        every = {case.name: case for kind in _KINDS for case in load_model_tests(kind=kind)}
    return {name: case for name, case in sorted(every.items()) if not _is_training(case)}


def _is_training(case: Any) -> bool:
    model = case.model
    if model is None and case.model_dir is not None:
        model = onnx.load(Path(case.model_dir) / "model.onnx")
    return model is not None and any(o.domain == "ai.onnx.preview.training" for o in model.opset_import)


ROUNDED = frozenset({"test_dft_inverse", "test_dft_inverse_opset19"})
"""The cases of which the suite expects what numpy rounds to: 2e-7 for a 0 beside 50, of which it allows 1e-7."""

Change = Callable[[onnx.ModelProto], onnx.ModelProto]


def run(name: str, *, change: Change | None = None) -> None:
    """Run a case; AssertionError where a result is wrong, vmkit's errors where the model is refused.

    With `change`, what it makes of the case's model is run, which must give the same. Of random results only the shapes
    and data types are compared.
    """
    case = cases()[name]
    model, sets = case_of(name)
    prepared = backend.prepare(change(model) if change else model)
    for inputs, expected in sets:
        outputs = prepared.run(inputs)
        if name in RANDOM:
            assert [(o.shape, o.dtype) for o in outputs] == [(e.shape, e.dtype) for e in expected]
            continue
        # Where sizes are not known, sums have another order: what is 0 beside large numbers is nearly so.
        is_exact = change is None and name not in ROUNDED
        atol = case.atol if is_exact else max([case.atol, *(1e-6 * _largest(e) for e in expected)])
        assert _form(outputs) == _form(expected)
        # The suite takes the elements of sequences for results with a length, which scalars have none of.
        Runner.assert_similar_outputs([*_tensors(expected)], [*_tensors(outputs)], rtol=case.rtol, atol=atol)


def _form(value: Any) -> Any:
    """Return how values lie in sequences."""
    return [_form(v) for v in value] if isinstance(value, list | tuple) else value is None


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of a value that may be sequences of sequences."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _tensors(element)
    elif value is not None:
        yield value


def _largest(value: Any) -> float:
    is_number = isinstance(value, np.ndarray) and value.size and value.dtype.kind == "f"
    return float(np.abs(value[np.isfinite(value)]).max(initial=0)) if is_number else 0.0


def case_of(name: str) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """Return the model of a case, and what goes in and must come out, once or more."""
    case = cases()[name]
    if case.model is not None:
        return case.model, [([_array(v) for v in i], [_array(v) for v in o]) for i, o in case.data_sets]
    if case.url is not None:
        return _light(case)
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    return model, [
        (list(_read(data, "input", model.graph.input)), list(_read(data, "output", model.graph.output)))
        for data in sorted(folder.glob("test_data_set_*"))
    ]


def _light(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """Return a network of the package whose weights are numbers that it makes itself."""
    path = Path(os.path.dirname(onnx.__file__)).parent / case.url
    model = onnx.load(path)
    initializers = {i.name for i in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in initializers]
    return model, [(inputs, [numpy_helper.to_array(onnx.load_tensor(f"{path.with_suffix('')}_output_0.pb"))])]


def _read(folder: Path, what: str, declared: Any) -> Iterator[Any]:
    for index in range(len(list(folder.glob(f"{what}_*.pb")))):
        kind = declared[index].type.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
        proto.ParseFromString((folder / f"{what}_{index}.pb").read_bytes())
        yield _array(proto)


def _array(value: Any) -> Any:
    match value:
        case onnx.TensorProto():
            return numpy_helper.to_array(value)
        case onnx.SequenceProto():
            return numpy_helper.to_list(value)
        case onnx.OptionalProto():
            return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
