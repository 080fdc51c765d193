"""tvmc from Python, as scripts used it."""

import tempfile
from pathlib import Path

import numpy as np
import tvm
from tvm import autotvm
from tvm.driver import tvmc
from tvm.driver.tvmc.autotuner import filter_tasks
from tvm.driver.tvmc.common import parse_shape_string
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.model import TVMCException, TVMCModel, TVMCPackage, TVMCResult
from tvm.driver.tvmc.target import target_from_cli
from tvm.ir.memory_pools import WorkspaceMemoryPools, WorkspacePoolInfo
from tvm.relay.backend import Executor, Runtime

folder = Path(tempfile.mkdtemp())
path = folder / "model.relay"
path.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 4), float32]) { nn.relu(add(%x, %x)) }')

model = tvmc.load(str(path))
assert type(model) is TVMCModel and parse_shape_string("x:[2,4]") == {"x": [2, 4]}
package = tvmc.compile(
    model,
    target="llvm",
    executor=Executor("graph"),
    runtime=Runtime("cpp"),
    pass_context_configs=["tir.disable_vectorize=1"],
    disabled_pass=["AlterOpLayout"],
    package_path=str(folder / "m.tar"),
)
assert type(package) is TVMCPackage and type(package.graph) is str
result = tvmc.run(package, device="cpu", inputs={"x": np.ones((2, 4), "float32")}, end_to_end=True)
assert type(result) is TVMCResult and result.outputs["output_0"].sum() == 16

assert _main(["run", str(folder / "m.tar"), "--print-time"]) == 0
assert _main(["compile", "nosuch.onnx", "--target", "llvm"]) == 4
try:
    target_from_cli("nosuch")
except TVMCException as error:
    assert "needs to be a TVM target" in str(error)

# A pool of memory can be described, and is refused where it is asked for.
pools = WorkspaceMemoryPools([WorkspacePoolInfo("sram", [tvm.target.Target("llvm")])])
try:
    tvmc.compile(model, target="llvm", workspace_pools=pools)
except ValueError as error:
    assert "memory pools are of the ahead-of-time executor" in str(error)
else:
    raise AssertionError("memory pools are taken")
with autotvm.apply_history_best(None) as best:
    assert isinstance(best, autotvm.task.dispatcher.ApplyHistoryBest)
assert filter_tasks([10, 11, 12], "1-") == ([11, 12], False)
