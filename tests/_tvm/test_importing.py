"""TVM comes into a process in two steps: what runs programs, and the rest when something of it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

import vmkit
from vmkit import relay
from vmkit._tvm import watching_tables
from vmkit._tvm.importing import TvmFinder

_COMPILER = "def has_compiler(): return 'libtvm_compiler' in open('/proc/self/maps').read()\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a program that doubles a vector."""
    x = relay.var("x", shape=(2,))
    path = tmp_path_factory.mktemp("saved") / "double.vmx"
    vmkit.compile(relay.Function([x], relay.add(x, x)), target="llvm").export(path)
    return path


def told_by(code: str, path: str | Path = "") -> Any:
    """Return what a fresh process prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path or None)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of loaded libraries")
def test_running_loads_the_runtime_alone_and_compiling_still_works_after_it(saved: Path) -> None:
    code = f"""import json, sys, numpy as np, vmkit, tvm
{_COMPILER}
machine = vmkit.VirtualMachine(vmkit.load({str(saved)!r}))
before = machine.run(np.array([1, 2], "float32"))
given = tvm.runtime.empty((2,), "float32")
machine.invoke_with_outputs("main", {{"x": before}}, [given])
told = [before.numpy().tolist(), given.numpy().tolist(), has_compiler(), "tvm.relax" in sys.modules]
from vmkit import relay
x = relay.var("x", shape=(2,))
compiled = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.exp(relay.log(x))), target="llvm"))
after = compiled.run(before)
told += [after.numpy().round(3).tolist(), has_compiler(), type(after) is type(before) is tvm.runtime.Tensor]
told += [machine.run(after).numpy().round(3).tolist(), str(machine.executable.target.kind.name)]
print(json.dumps(told))
"""
    assert told_by(code) == [[2, 4], [4, 8], False, False, [2, 4], True, True, [4, 8], "llvm"]


@pytest.mark.skipif(sys.platform == "win32", reason="torch has to be loaded first there")
@pytest.mark.parametrize("package", ["torch", "cuda"])
def test_packages_that_take_long_are_left_alone_unless_the_process_has_them(
    tmp_path: Path, saved: Path, package: str
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise RuntimeError('{package} was imported')\n")
    code = f"""import json, sys; sys.path.insert(0, "")
import vmkit; vmkit.VirtualMachine(vmkit.load({str(saved)!r}))
import tvm; tvm.relax
told = ["{package}" in sys.modules]
try: import {package}
except RuntimeError as error: told.append(str(error))
print(json.dumps(told))"""
    assert told_by(code, tmp_path) == [False, f"{package} was imported"]


# TVM's own import of its distributed runtime fails half-way, and leaves parts behind.
_CONTENTS = """import json, sys, tvm_ffi
tvm.relax.frontend, tvm.relax.training, tvm.s_tir.dlight, tvm.s_tir.meta_schedule, tvm.tirx.cuda
from tvm_ffi import registry
def own(names): return sorted(name for name in names if "disco" not in name)
modules = own(name for name in sys.modules if name.split(".")[0] == "tvm")
classes = sorted(name for module in modules for name, value in vars(sys.modules[module]).items()
                 if isinstance(value, type) and "__tvm_ffi_type_info__" in vars(value))
tables = {module: own(vars(sys.modules[module])) for module in modules if module.endswith("_ffi_api")}
operators = sorted(map(str, tvm.ir.Op.list_op_names()))
printed = [str(tvm.ir.Op.get(name).get_attr("TScriptPrinterName")) for name in operators]
print(json.dumps([sorted(vars(tvm)), modules, own(registry.list_global_func_names()), classes, tables, operators,
                  printed, type(tvm).__name__, repr(tvm.IRModule({})), tvm.base._RUNTIME_ONLY,
                  sorted(tvm.base._LOADED_LIBS), sys.excepthook.__module__]))
"""


def test_all_of_tvm_is_what_a_plain_import_gives() -> None:
    plain, ours = told_by("import tvm\n" + _CONTENTS), told_by("import vmkit, tvm, tvm.runtime\n" + _CONTENTS)
    for one, other in zip(plain, ours, strict=True):
        assert one == other


def test_what_compiling_does_without_is_imported_when_it_is_asked_for() -> None:
    code = """import json, sys, vmkit, tvm
late = ["tvm.relax.frontend", "tvm.relax.training", "tvm.s_tir.dlight", "tvm.s_tir.meta_schedule"]
from vmkit import relay
x = relay.var("x", shape=(2,))
vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm")
told = [[name for name in late if name in sys.modules], "meta_schedule" in dir(tvm.s_tir), "frontend" in dir(tvm.relax)]
from tvm.s_tir import meta_schedule
import tvm.relax.frontend.nn
told += [meta_schedule is sys.modules["tvm.s_tir.meta_schedule"] is tvm.s_tir.meta_schedule]
told += [tvm.relax.frontend.nn.Module.__name__, tvm.relax.pipeline.ms.Database is meta_schedule.Database]
try: tvm.s_tir.no_such
except AttributeError as error: told += [str(error)]
print(json.dumps(told))"""
    missing = "module 'tvm.s_tir' has no attribute 'no_such'"
    assert told_by(code) == [[], True, True, True, "Module", True, missing]


@pytest.mark.parametrize(
    "first",
    [
        "import tvm.s_tir.meta_schedule.database",
        "import tvm.relax.op",
        "from tvm import relax",
        "from tvm.relax import op",
        "from tvm.ir.instrument import PassTimingInstrument",
        "import tvm; dir(tvm)",
        "import tvm; hasattr(tvm, 'te')",
        "from tvm.runtime import Tensor; import tvm.tirx",
    ],
)
def test_whatever_is_asked_for_first_brings_in_the_rest_once(first: str) -> None:
    code = f"""import json, sys, vmkit
{first}
import tvm
own = [tvm.relax is sys.modules["tvm.relax"], tvm.relax.op is sys.modules["tvm.relax.op"], type(tvm).__name__]
spec = sys.modules["tvm.relax.op"].__spec__
own.append([name for name in ("tvm.ir.expr", "tvm.relax.expr", "tvm.relax.op.base", "tvm.tirx.buffer")
            if vars(sys.modules[name.rpartition(".")[0]])[name.rpartition(".")[2]] is not sys.modules[name]])
print(json.dumps([*own, type(spec.loader).__name__, len([m for m in sys.meta_path if "TvmFinder" in repr(m)])]))
"""
    assert told_by(code) == [True, True, "module", [], "SourceFileLoader", 0]


def test_threads_that_ask_together_get_the_same() -> None:
    code = """import json, threading, vmkit, tvm
start, found = threading.Barrier(4), []
def ask():
    start.wait()
    found.append(tvm.relax.Function.__name__ + tvm.tirx.PrimFunc.__name__)
threads = [threading.Thread(target=ask) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(found))
"""
    assert told_by(code) == ["FunctionPrimFunc"] * 4


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    code = """import json, vmkit, tvm
errors = []
for name in ("no_such", "__no_such__"):
    try: getattr(tvm, name)
    except AttributeError as error: errors.append(str(error))
print(json.dumps(errors))"""
    assert told_by(code) == [f"module 'tvm' has no attribute '{name}'" for name in ("no_such", "__no_such__")]


def test_a_module_that_is_found_and_not_loaded_yet_has_its_source() -> None:
    spec = TvmFinder().find_spec("tvm")
    assert spec is not None
    loader: Any = spec.loader
    assert type(loader).__name__ == "_RuntimeFirst"
    assert loader.is_package("tvm")
    assert "Deep Learning" in loader.get_source("tvm")


def test_a_tvm_that_was_there_before_stays_as_it_is() -> None:
    code = (
        "import json, sys, tvm; before = list(sys.meta_path); import vmkit; print(json.dumps(before == sys.meta_path))"
    )
    assert told_by(code) is True


def test_a_program_that_calls_functions_of_tvm_in_python_finds_them(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(),))
    path = tmp_path / "where.vmx"
    vmkit.compile(relay.Function([x], relay.argwhere(x)), target="llvm").export(path)
    code = f"""import json, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load({str(path)!r}))
print(json.dumps(machine.run(np.array([0, 1, 0, 2], "float32")).numpy().tolist()))"""
    assert told_by(code) == [[1], [3]]


_RUN_FIRST = """import json, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load({saved!r}))
ran = machine.run(np.array([1, 2], "float32"))
import onnxruntime, tvm
import vmkit.compat; vmkit.compat.install()
"""
_TVM_FIRST = """import json, onnxruntime, tvm, numpy as np
import vmkit.compat; vmkit.compat.install()
machine = vmkit.VirtualMachine(vmkit.load({saved!r}))
ran = machine.run(np.array([1, 2], "float32"))
"""
_AFTERWARDS = """
from onnx import helper, TensorProto
from tvm import relay
info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negative", info[:1], info[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
peer = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": ran.numpy()})[0]
own = vmkit.VirtualMachine(vmkit.compile(model, target="llvm")).run(ran)
x = relay.var("x", shape=(2,))
func = relay.create_executor("vm", tvm.IRModule.from_expr(relay.Function([x], relay.add(x, x)))).evaluate()
with tvm.transform.PassContext(opt_level=3):
    empty = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0)).with_attr("global_symbol", "main")
    assert tvm.compile(empty, target="llvm")["main"]() is None
told = [peer.tolist(), own.numpy().tolist(), func(ran).numpy().tolist(), machine.run(own).numpy().tolist()]
print(json.dumps([*told, type(tvm).__name__, type(ran) is tvm.runtime.Tensor, tvm.TVMError is RuntimeError]))
"""


@pytest.mark.parametrize("begin", [_RUN_FIRST, _TVM_FIRST], ids=["run first", "tvm first"])
def test_all_that_compiles_works_whatever_was_imported_first(begin: str, saved: Path) -> None:
    told = told_by(begin.format(saved=str(saved)) + _AFTERWARDS)
    assert told == [[-2, -4], [-2, -4], [4, 8], [-4, -8], "module", True, True]


def test_blocks_that_watch_tables_may_be_nested() -> None:
    told = []
    with (
        watching_tables(lambda table: told.append(("outer", table)), before=lambda *table: told.append(table)),
        watching_tables(lambda table: told.append(("inner", table))),
    ):
        tvm_ffi.init_ffi_api("no.such", __name__)
    assert told == [("no.such", __name__), ("outer", __name__), ("inner", __name__)]
