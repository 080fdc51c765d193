"""The process that imports mutants, so that one that kills it or hangs is seen: a path in, one line of JSON out each.

``python -m tests.frontend.onnx.mutant_process [--run] [--alone]``: beside ``N.onnx`` lies ``N.feed``, a pickled list of
arrays. With ``--run`` what imports is compiled too, and run beside onnxruntime; with ``--alone``, without it.
"""

from __future__ import annotations

import pickle
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import vmkit
from tests.children import Outcome, answer
from vmkit.errors import VMKitError
from vmkit.relay.frontend import from_onnx

Arrays = Sequence[Any]
# Of a product of numbers of eight bits the last may be rounded otherwise; narrow floats have few digits.
_TOLERANCES = {"float16": 1e-2, "bfloat16": 4e-2, "int8": 1.0, "uint8": 1.0}


def outcome(path: Path, is_run: bool, is_alone: bool) -> Outcome:
    """Return what became of a mutant: imported, refused by a VMKitError, raised by anything else; ran, differs."""
    try:
        module, _ = from_onnx(path)
    except VMKitError as error:
        return {"became": "refused", "said": str(error)}
    except Exception:
        return {"became": "raised", "said": traceback.format_exc()}
    return compared(module, path, is_alone) if is_run else {"became": "imported", "said": ""}


def compared(module: Any, path: Path, is_alone: bool) -> Outcome:
    """Return whether a mutant that is imported gives what onnxruntime gives, where that takes it too."""
    feed = pickle.loads(path.with_suffix(".feed").read_bytes())
    try:
        executable = vmkit.compile(module, "llvm")
        if not vmkit.check(path).is_supported:
            return {"became": "differs", "said": f"it compiles, but check says: {vmkit.check(path)}"}
        result = vmkit.VirtualMachine(executable).run(*feed)
        results = [_array(v) for v in (result if executable.signature.result_is_tuple else [result])]
    except VMKitError as error:
        return {"became": "refused", "said": str(error)}
    except Exception:
        return {"became": "raised", "said": traceback.format_exc()}
    if is_alone:
        return {"became": "imported", "said": "not compared"}
    try:
        expected = _of_onnxruntime(path, feed)
    except Exception as error:
        return {"became": "imported", "said": f"onnxruntime does not run it: {str(error)[:200]}"}
    difference = _difference(results, expected)
    if difference is None:
        return {"became": "ran", "said": ""}
    # onnxruntime errs as well, and leaves out checks: what ONNX's own reference gives too is right.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            proto = onnx.load(path)
            names = [i.name for i in proto.graph.input]
            reference = ReferenceEvaluator(proto).run(None, dict(zip(names, feed, strict=True)))
        if _difference(results, reference) is None:
            return {"became": "imported", "said": f"as ONNX's reference gives, unlike onnxruntime: {difference}"}
    except Exception:
        pass  # the reference does not take what is compared
    return {"became": "differs", "said": difference}


def _of_onnxruntime(path: Path, feed: Arrays) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: v for i, v in zip(session.get_inputs(), feed, strict=True)})


def _array(value: Any) -> Any:
    return [_array(v) for v in value] if isinstance(value, list | tuple) else None if value is None else value.numpy()


def _difference(results: Arrays, expected: Arrays) -> str | None:
    try:
        for ours, theirs in zip(results, expected, strict=True):
            if isinstance(theirs, list):
                if (found := _difference(ours, theirs)) is not None:
                    return found
                continue
            if theirs.size == 0 and ours.ndim == theirs.ndim and ours.size == 0:
                continue  # of a loop that never runs ONNX does not say which sizes the rows have that there are none of
            assert (ours.shape, ours.dtype.kind) == (theirs.shape, theirs.dtype.kind), (ours.shape, theirs.shape)
            if theirs.dtype.kind in "OUST":
                np.testing.assert_array_equal(ours.astype(object), theirs.astype(object))
                continue
            tolerance = _TOLERANCES.get(str(theirs.dtype), 1e-4)
            wide = [v if v.dtype.kind in "iub" else v.astype("float64") for v in (ours, theirs)]
            # What is 0 beside large numbers is nearly so: sums are rounded to the digits of what is summed.
            largest = np.abs(wide[1][np.isfinite(wide[1])]).max(initial=0) if theirs.dtype.kind == "f" else 0
            relative = max(1e-3, tolerance if tolerance < 1 else 0)
            np.testing.assert_allclose(*wide, rtol=relative, atol=max(tolerance, 1e-6 * largest))
    except (AssertionError, ValueError, TypeError) as error:
        return str(error)[:700] or "other shapes"
    return None


if __name__ == "__main__":
    answer(lambda line: outcome(Path(line), "--run" in sys.argv, "--alone" in sys.argv))
