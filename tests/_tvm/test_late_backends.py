"""TVM's support of GPUs is there for whoever asks for something of it, by whatever way, and for nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._tvm.test_importing import told_by

_COMPILED = """import json, sys, vmkit
from vmkit import relay
x = relay.var("x", shape=(2,))
vmkit.compile(relay.Function([x], relay.exp(x)))
import tvm
def are_in(): return "tvm.backend.cuda.ptx.table" in sys.modules and "tvm.backend.trn.pipeline" in sys.modules
assert not are_in()
"""


@pytest.mark.sweep(each=4)
@pytest.mark.parametrize(
    "question",
    [
        "tvm.tirx.cuda",
        "tvm.backend.trn",
        "from tvm.script import tirx as T; T.ptx.add",
        "tvm.script.parser.tirx.nki",
        "from tvm.script.tirx import *; ptx, metal",
        "import tvm.tirx.cuda",
        "import tvm.backend.cuda.ptx.table",
        "from tvm.tirx.cuda import codegen",
        "from tvm.tirx.operator.tile_primitive import dispatcher",
        "tvm.tirx.operator.Gemm",
        "tvm.target.Target('cuda')",
        "tvm.target.Target({'kind': 'metal'}, 'llvm')",
        "tvm.target.Target('nvidia/nvidia-h100')",
        'tvm.target.Target(\'{"kind": "llvm", "host": "cuda"}\')',
        "assert 'nvidia/nvidia-h100' in tvm.target.list_tags()",
        "tvm.ir.Op.get('tirx.ptx.add')",
        "assert 'tirx.ptx.add' in list(tvm.ir.Op.list_op_names())",
        "assert tvm.backend.is_loaded('cuda')",
        "tvm.backend.load('trn')",
        "tvm.backend.loader.load('cuda')",
        "tvm.get_global_func('tirx.intrinsics.cuda.header_generator')([])",
        "tvm.ir.load_json(tvm.ir.save_json(tvm.target.Target('llvm')))",
        "import pytest; pytest.raises(Exception, tvm.target.detect_target.SUPPORTED_DEVICE['cuda'], tvm.cpu())",
    ],
)
def test_who_asks_for_something_of_the_backends_has_all_of_them(question: str) -> None:
    code = f"""{_COMPILED}{question}
left = [name for name in ("tvm.tirx", "tvm.backend", "tvm.tirx.script") if "__getattr__" in vars(sys.modules[name])]
watching = [finder for finder in sys.meta_path if "BackendFinder" in repr(finder)]
missing = [op for op in ("tirx.ptx.add", "tirx.ptx.mov") if op not in map(str, tvm.ir.Op.list_op_names())]
are_loaded = [*map(tvm.backend.is_loaded, ("cuda", "metal", "trn", "rocm", "adreno"))]
watches = "functools" in repr(tvm.ir._ffi_api.GetOp) or hasattr(tvm.target.Target.__init__, "__wrapped__")
print(json.dumps([are_in(), left, len(watching), missing, watches, are_loaded]))
"""
    assert told_by(code) == [True, [], 0, [], False, [True] * 5]


@pytest.mark.sweep(each=3)
@pytest.mark.parametrize(
    "question",
    [
        'tvm.target.Target(\'llvm\'); tvm.target.Target(\'{"kind": "llvm", "mcpu": "znver3"}\')',
        "tvm.target.Target({'kind': 'c', 'host': 'llvm'}); tvm.target.Target(tvm.target.Target('llvm'))",
        "tvm.ir.Op.get('tirx.exp')",
        "tvm.ir.load_json(tvm.ir.save_json(tvm.tirx.Var('x', 'int32')))",
        "assert {'cuda', 'ptx'} < {*dir(tvm.script.tirx)} and 'trn' in dir(tvm.tirx)",
        "assert not hasattr(tvm.tirx, 'no_such') and not hasattr(tvm.script.tirx, 'no_such')",
        "assert not tvm.backend.is_loaded('no_such')",
        "assert {'cuda', 'metal'} < tvm.target.detect_target.SUPPORTED_DEVICE.keys()",
        "assert not tvm.cuda(77).exist",
    ],
)
def test_what_others_ask_brings_in_none(question: str) -> None:
    assert told_by(f"{_COMPILED}{question}\nprint(json.dumps(are_in()))") is False


def test_threads_that_ask_together_find_them_whole() -> None:
    code = f"""{_COMPILED}
import threading
from tvm.script import tirx as T
start, found = threading.Barrier(4), []
def ask():
    start.wait()
    found.append(hasattr(T, "ptx") and tvm.target.Target("nvidia/nvidia-h100").kind.name == "cuda" and are_in())
threads = [threading.Thread(target=ask) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(found))
"""
    assert told_by(code) == [True] * 4


def test_a_backend_that_others_wrote_finds_all_of_tvm_s_own(tmp_path: Path) -> None:
    about = tmp_path / "other-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tvm.backends]\nother = other:begin\n")
    (tmp_path / "other.py").write_text(
        "found = []\ndef begin():\n import tvm\n found.append(hasattr(tvm.script.tirx, 'ptx'))\n"
    )
    code = """import json, sys; sys.path.insert(0, "")
import vmkit, tvm, other
tvm.tirx
print(json.dumps([other.found, "__getattr__" in vars(tvm.tirx), hasattr(tvm.tirx, "trn")]))"""
    assert told_by(code, tmp_path) == [[True], False, True]


def test_a_process_that_wants_none_has_none() -> None:
    code = f"""import os; os.environ["TVM_DEVICE_BACKEND_AUTOLOAD"] = "0"
{_COMPILED}print(json.dumps([hasattr(tvm.tirx, "cuda"), are_in(), tvm.target.Target("cuda").kind.name, are_in()]))
"""
    assert told_by(code) == [False, False, "cuda", False]


def test_what_others_put_in_the_place_of_something_watched_stays() -> None:
    """As targets of the old form have it, which scripts install before they ask for a GPU."""
    code = f"""{_COMPILED}make = tvm.target.Target.__init__
def own(self, target, host=None): make(self, 'llvm' if target == 'mine' else target, host)
tvm.target.Target.__init__ = own
tvm.target.Target('cuda')
assert are_in() and tvm.target.Target.__init__ is own
print(json.dumps(tvm.target.Target('mine').kind.name))
"""
    assert told_by(code) == "llvm"
