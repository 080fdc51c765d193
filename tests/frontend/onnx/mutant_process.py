"""The process that imports mutants, so that one that kills it or hangs is seen: numbers in, one line of JSON out each.

``python -m tests.frontend.onnx.mutant_process FOLDER [--run]``: with ``--run`` what imports is compiled too,
and run beside onnxruntime.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import vmkit
from tests.frontend.onnx.mutations import FEEDS, mutant
from vmkit.errors import VMKitError
from vmkit.relay.frontend import from_onnx

Outcome = dict[str, Any]


def outcome(number: int, folder: Path, is_run: bool) -> Outcome:
    """Return what became of a mutant: imported, refused by a VMKitError, raised by anything else; ran, differs."""
    path = folder / "mutant.onnx"
    path.write_bytes(mutant(number))
    try:
        module, _ = from_onnx(path)
    except VMKitError as error:
        return {"became": "refused", "said": str(error)}
    except Exception:
        return {"became": "raised", "said": traceback.format_exc()}
    if not is_run:
        return {"became": "imported", "said": ""}
    return compared(module, path)


def compared(module: Any, path: Path) -> Outcome:
    """Return whether a mutant that is imported gives what onnxruntime gives, where that takes it too."""
    expected = None
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        expected = session.run(None, FEEDS)
    except Exception as error:
        reason = str(error)
    try:
        result = vmkit.VirtualMachine(vmkit.compile(module, "llvm")).run(**FEEDS)
        results = [np.asarray(v.numpy()) for v in (result if isinstance(result, tuple) else (result,))]
    except VMKitError as error:
        return {"became": "refused", "said": str(error), "beside": expected is not None}
    except Exception:
        return {"became": "raised", "said": traceback.format_exc()}
    if expected is None:
        return {"became": "imported", "said": f"onnxruntime does not run it: {reason[:200]}"}
    try:
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    except (AssertionError, ValueError) as error:
        return {"became": "differs", "said": str(error)[:500]}
    return {"became": "ran", "said": ""}


def main() -> None:
    """Read numbers, print outcomes."""
    logging.disable(logging.CRITICAL)
    folder, is_run = Path(sys.argv[1]), "--run" in sys.argv
    (folder / "short.bin").write_bytes(bytes(3))
    for line in sys.stdin:
        print(json.dumps(outcome(int(line), folder, is_run)), flush=True)


if __name__ == "__main__":
    main()
