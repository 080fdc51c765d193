"""The peers: the same model under onnxruntime and under plain TVM, on as many threads as vmkit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm.relax.frontend.onnx import from_onnx

from vmkit.target import canonical_target

__all__ = ["assert_agree", "onnxruntime_run", "onnxruntime_session", "plain_tvm_run"]

Arrays = Mapping[str, np.ndarray]


def onnxruntime_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return a session on the CPU with as many threads as TVM has."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["TVM_NUM_THREADS"])
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnxruntime_run(model: onnx.ModelProto, inputs: Arrays) -> Callable[[], list[np.ndarray]]:
    """Return a call of onnxruntime: arrays in, arrays out."""
    session = onnxruntime_session(model)
    return lambda: session.run(None, dict(inputs))


def plain_tvm_run(model: onnx.ModelProto, inputs: Arrays) -> Callable[[], Any]:
    """Return a call of what ``tvm.compile`` alone makes of the model, as TVM imports it, with its inputs ready."""
    module = from_onnx(model, shape_dict={name: list(array.shape) for name, array in inputs.items()})
    executable = tvm.compile(module, canonical_target("native").primary)
    main = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"]
    ready = [tvm.runtime.tensor(array) for array in inputs.values()]
    return lambda: main(*ready)


def assert_agree(actual: Any, expected: Sequence[np.ndarray]) -> None:
    """Assert that what vmkit or TVM returned is what onnxruntime returned."""
    results = actual if isinstance(actual, tuple | list) else [actual]
    assert len(results) == len(expected)
    for result, array in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result.numpy()), array, rtol=1e-3, atol=1e-4)
