"""AutoTVM's tasks, as scripts extract, tune and apply them: kernels, and records of vmkit's."""

import json
import tempfile
from pathlib import Path

import numpy as np
import tvm
from tvm import autotvm, relay
from tvm.autotvm.task import Task
from tvm.driver import tvmc

x, w = relay.var("x", shape=(4, 16)), relay.const(np.eye(16, dtype="float32"))
mod = tvm.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))

(task,) = autotvm.task.extract_from_program(mod, target="llvm", params={}, ops=[relay.op.get("nn.dense")])
assert type(task) is Task and "dense" in task.name and ("TENSOR", (4, 16), "float32") in task.args
assert str(task).startswith(f"Task(func_name={task.name}, args=[('TENSOR', (4, 16)") and len(task.config_space) > 1
assert autotvm.task.extract_from_program(mod, {}, "llvm", ops=["nn.conv2d"]) == []
assert len(autotvm.task.extract_from_multiple_program([mod, mod], [{}, {}], "llvm")) == 1
assert tvmc.autotuner.gen_task_list([task]).endswith(f"(len={len(task.config_space)})")

log = Path(tempfile.mkdtemp()) / "records.json"
how = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=1, repeat=1, min_repeat_ms=1))
tvmc.autotuner.tune_tasks([task], str(log), how, "xgb", trials=2)
assert len(json.loads(log.read_text())["records"]) == 1
tvmc.autotuner.tune_tasks([], str(log), how, "ga", trials=2)

with autotvm.apply_history_best(str(log)), tvm.transform.PassContext(opt_level=3):
    exe = relay.vm.compile(mod, target="llvm")
    assert exe.info["kernels"]["tuned"] == 1
a = np.ones((4, 16), "float32")
np.testing.assert_array_equal(tvm.runtime.vm.VirtualMachine(exe, tvm.cpu()).run(a).numpy(), a)


def refuses(call, said):
    try:
        call()
    except (tvmc.TVMCException, NotImplementedError, ValueError) as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"nothing is refused: {said}")


refuses(lambda: Task("conv", []).kernel, "kernels come of models: extract_from_program")
refuses(lambda: Task("conv", []).target, "has no target")
refuses(lambda: autotvm.LocalBuilder(build_func="ndk"), "linked by the cross compiler")
refuses(lambda: autotvm.LocalRunner(enable_cpu_cache_flush=True), "are not offered")
refuses(lambda: autotvm.RPCRunner("board", "127.0.0.1", 1, module_loader=print), "are not offered")
refuses(lambda: autotvm.measure_option("remote", "local"), "expected 'local', a builder and a runner")
refuses(lambda: tvmc.autotuner.tune_tasks([task], str(log), how, "xgbb", 1), "did you mean 'xgb'")
