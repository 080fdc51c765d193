"""Storage of unknown sizes is planned as TVM's planner plans it, each size by itself."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from vmkit.relax.planning import plan_memory


@I.ir_module
class Program:
    @T.prim_func(private=True)
    def kernel(a: T.handle, b: T.handle):
        T.evaluate(0)

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n", "m"), "float32"):
        n, m = T.int64(), T.int64()
        cls = Program
        a = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
        _1: R.Tuple() = cls.kernel(x, a)
        b = R.builtin.alloc_tensor(R.shape([m]), R.dtype("float32"), R.prim_value(0), R.str("global"))
        _2: R.Tuple() = cls.kernel(a, b)
        d = R.builtin.alloc_tensor(R.shape([2, n * 2]), R.dtype("float32"), R.prim_value(0), R.str("global"))
        _3: R.Tuple() = cls.kernel(b, d)
        e = R.builtin.alloc_tensor(R.shape([m]), R.dtype("float32"), R.prim_value(0), R.str("global"))
        _4: R.Tuple() = cls.kernel(d, e)
        out = R.builtin.alloc_tensor(R.shape([n, m]), R.dtype("float32"), R.prim_value(0), R.str("global"))
        _5: R.Tuple() = cls.kernel(e, out)
        return out


def storages(mod: tvm.IRModule) -> dict[str, str]:
    """Return the storage of each planned tensor, by the tensor's name."""
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    planned = [
        b
        for b in bindings
        if isinstance(b.value, relax.Call) and getattr(b.value.op, "name", "") == "relax.memory.alloc_tensor"
    ]
    return {b.var.name: b.value.args[0].name for b in planned}


def test_equal_sizes_share_storage_and_others_do_not() -> None:
    found = storages(plan_memory()(Program))
    assert found["a"] == found["d"]
    assert found["b"] == found["e"]
    assert found["a"] != found["b"]
    assert "out" not in found


def test_the_plan_is_that_of_tvm() -> None:
    ours, theirs = plan_memory()(Program), relax.transform.StaticPlanBlockMemory()(Program)
    assert ours.script() == theirs.script()
