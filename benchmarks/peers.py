"""The peers: the same model under onnxruntime, plain TVM, OpenVINO and torch.compile, on as many threads as vmkit.

OpenVINO and torch are optional (``pip install '.[peers]'``). `MISSING` says which are not here and why; the tables
repeat it, so that a column that is not there is explained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm.relax.frontend.onnx import from_onnx

from vmkit.target import canonical_target

__all__ = [
    "MISSING",
    "OPTIONAL",
    "assert_agree",
    "onnxruntime_run",
    "onnxruntime_session",
    "plain_tvm_run",
    "threads",
    "torch_run",
]

Arrays = Mapping[str, np.ndarray]
Run = Callable[[], Any]
MISSING: dict[str, str] = {}


def threads() -> int:
    """Return on how many threads all run."""
    return int(os.environ["TVM_NUM_THREADS"])


def onnxruntime_session(model: onnx.ModelProto | str, provider: str = "CPU") -> onnxruntime.InferenceSession:
    """Return a session of a model, or of its file, on the CPU with as many threads as TVM has, or on CUDA."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    given = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(given, options, providers=[f"{provider}ExecutionProvider"])


def onnxruntime_run(model: onnx.ModelProto, inputs: Arrays, provider: str = "CPU") -> Run:
    """Return a call of onnxruntime: arrays in, arrays out."""
    session = onnxruntime_session(model, provider)
    return lambda: session.run(None, dict(inputs))


def plain_tvm_run(model: onnx.ModelProto, inputs: Arrays) -> Run:
    """Return a call of what ``tvm.compile`` alone makes of the model, as TVM imports it, with its inputs ready."""
    module = from_onnx(model, shape_dict={name: list(array.shape) for name, array in inputs.items()})
    executable = tvm.compile(module, canonical_target("native").primary)
    main = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"]
    ready = [tvm.runtime.tensor(array) for array in inputs.values()]
    return lambda: main(*ready)


def openvino_run(model: onnx.ModelProto, inputs: Arrays) -> Run | None:
    """Return a call of OpenVINO, arrays in and arrays out, float32 throughout.

    None where it is not installed, or does not read the model.
    """
    openvino = _optional("openvino")
    if openvino is None:
        return None
    core = openvino.Core()
    options = {
        "INFERENCE_NUM_THREADS": threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    try:
        shaped = core.read_model(model.SerializeToString())
        shaped.reshape({name: list(array.shape) for name, array in inputs.items()})
    except RuntimeError as error:
        reason = str(error).strip().splitlines()
        MISSING[f"openvino of {model.graph.name}"] = f"it does not read it: {reason[-1] if reason else 'no reason'}"
        return None
    request = core.compile_model(shaped, "CPU", options).create_infer_request()
    count = len(model.graph.output)

    def run() -> list[np.ndarray]:
        request.infer(dict(inputs), share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(count)]

    return run


def torch_run(model: onnx.ModelProto, inputs: Arrays, device: str = "cpu") -> Run | None:
    """Return a call of torch.compile on the model as onnx2torch reads it; None where these are not installed."""
    torch, onnx2torch = _optional("torch"), _optional("onnx2torch")
    if torch is None or onnx2torch is None:
        return None
    torch.set_num_threads(threads())
    try:
        module = onnx2torch.convert(model)
    except NotImplementedError as error:
        MISSING[f"torch.compile of {model.graph.name}"] = f"onnx2torch does not read it: {error}"
        return None
    compiled = torch.compile(module.eval().to(device))
    ready = [torch.from_numpy(np.asarray(array)).to(device) for array in inputs.values()]

    def run() -> list[np.ndarray]:
        with torch.inference_mode():
            result = compiled(*ready)
        return [value.cpu().numpy() for value in (result if isinstance(result, tuple | list) else (result,))]

    return run


OPTIONAL: dict[str, Callable[[onnx.ModelProto, Arrays], Run | None]] = {
    "openvino": openvino_run,
    "torch_compile": torch_run,
}


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        MISSING[name] = str(error)
        return None


def assert_agree(
    actual: Any, expected: Sequence[np.ndarray], by: str = "vmkit", of_largest: float | None = None
) -> None:
    """Assert that what vmkit or a peer returned is what onnxruntime returned.

    With `of_largest`, differences may be so much of the largest result: of quantised networks a number that is rounded
    at a half one way or the other moves what follows by whole steps.
    """
    results = actual if isinstance(actual, tuple | list) else [actual]
    assert len(results) == len(expected), by
    for result, array in zip(results, expected, strict=True):
        value = result if isinstance(result, np.ndarray) else result.numpy()
        if of_largest is not None:
            np.testing.assert_allclose(value, array, rtol=0, atol=of_largest * np.abs(array).max(), err_msg=by)
            continue
        np.testing.assert_allclose(value, array, rtol=1e-3, atol=1e-4, err_msg=by)
