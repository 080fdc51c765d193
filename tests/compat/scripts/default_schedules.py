# Computations of TE built by their default schedule, and written as operators of the Model Library Format.
import tempfile
from pathlib import Path

import numpy as np
import tvm
import tvm.micro as micro
from tvm import te
from tvm.relay.backend import Runtime

import vmkit.mlf

a = te.placeholder((4,), name="A", dtype="int8")
b = te.placeholder((1,), name="B", dtype="int8")
total = te.compute(a.shape, lambda i: a[i] + b[0], name="C")
schedule = te.create_schedule(total.op)
host = tvm.build(schedule, [a, b, total], "llvm", name="plus")
x, y, out = (tvm.nd.array(np.array(each, "int8")) for each in ([1, 2, 3, 127], [1], [0, 0, 0, 0]))
host(x, y, out)
assert out.numpy().tolist() == [2, 3, 4, -128]
host["plus"](out, y, out)
assert out.numpy().tolist() == [3, 4, 5, -127] and "plus" in host.get_source("ll")

target = tvm.target.target.micro("host")
crt = Runtime("crt", {"system-lib": True})
mod = tvm.build(schedule, [a, b, total], tvm.target.Target(target, target), runtime=crt, name="plus")
((given, functions),) = mod.ir_module_by_target.items()
assert tvm.device(str(given)).device_type == 1
path = Path(tempfile.mkdtemp()) / "plus.tar"
assert micro.export_model_library_format(mod, path) == path
library = vmkit.mlf.load(path)
assert (library.style, library.models, library.metadata["target"]) == ("operator", ("plus",), [str(target)])
assert [each["input_binding"] for each in library.metadata["memory"]["plus"]] == ["A", "B", "C"]
assert library.files["src/tir-1.txt"].decode() == str(functions)


def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


refused(lambda: micro.export_model_library_format([mod, mod], path), RuntimeError, "Multiple operator is not supported")
refused(lambda: schedule[total].op, NotImplementedError, "stages of a schedule of TE are gone; tvm.s_tir.Schedule")
refused(lambda: schedule.cache_write(total, "local"), NotImplementedError, "primitives of a schedule of TE are gone")
refused(lambda: te.create_schedule(total), ValueError, "expected operations of TE, such as C.op, got Tensor")
refused(lambda: tvm.build(schedule, target="llvm"), ValueError, "build(schedule, [A, B, C])")
