"""Prints what memory compiling takes, as JSON: ``python -m benchmarks.compiling MODEL.onnx INPUTS.npz FILE.vmx``.

The numbers, in MB above a process that has compiled one operator: the most until the model is compiled and written to a
file, the most until it has run once as well, and what stays of that.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
from onnx import helper

import vmkit
from benchmarks.catalogue import static_shapes
from benchmarks.resident import peak, resident


def one_operator() -> onnx.ModelProto:
    """Return a model of one operator."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "one", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main(model: str, inputs: str, path: str) -> None:
    """Compile, save and run a model, and print the numbers."""
    given = dict(np.load(inputs))
    first = vmkit.compile(one_operator())
    first.export(path)
    vmkit.VirtualMachine(first, "cpu").run(np.ones((4, 8), "float32"))
    before = resident()
    executable = vmkit.compile(model, shapes=static_shapes(given))
    executable.export(path)
    compiled = peak() - before
    vmkit.VirtualMachine(executable, "cpu").run(**given)
    print(json.dumps({"compiled": compiled, "run": peak() - before, "left": resident() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
