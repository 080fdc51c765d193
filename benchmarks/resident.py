"""Prints the memory of a process that runs a model once, as JSON: ``python -m benchmarks.resident MODEL INPUTS.npz``.

`MODEL` is an ONNX file, which onnxruntime runs, or an executable of vmkit (``.vmx``). The numbers, in MB: resident with
the libraries loaded and nothing else, resident after the run, and the most that ever was.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np


def resident() -> float:
    """Return how much memory the process has in use now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak() -> float:
    """Return the most memory that the process ever had in use, in MB."""
    # getrusage counts the process from which this one was forked as well.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError("/proc/self/status has no VmHWM")


def main(model: str, inputs: str) -> None:
    """Run a model and print the numbers."""
    given = dict(np.load(inputs))
    if model.endswith(".vmx"):
        import vmkit
        import vmkit.runtime.machine

        before = resident()
        result = vmkit.VirtualMachine(vmkit.load(model), "cpu").run(**given)
    else:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["TVM_NUM_THREADS"])
        options.log_severity_level = 3
        before = resident()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        result = session.run(None, given)
    after, most = resident(), peak()
    assert result is not None
    print(json.dumps({"libraries": before, "resident": after, "peak": most}))


if __name__ == "__main__":
    main(*sys.argv[1:])
