"""Calls of kernels as parts, and the functions that make them."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.script import tirx as T
from tvm.sym import Analyzer

from vmkit.errors import CompileError
from vmkit.relax.kernel_groups.functions import KernelCall, KernelGroup, group_function, kernel_call
from vmkit.relax.kernel_groups.looks import run_state
from vmkit.relax.kernel_groups.loop_functions import KernelLoop, Move, flag_part, loop_function, move_part
from vmkit.relax.kernel_groups.needs import with_needs
from vmkit.relax.kernel_groups.own_tensors import with_own_tensors
from vmkit.relax.kernel_groups.parts import CALLS_PARTS, as_part, parts_called, told_by_shapes
from vmkit.values.kernel_needs import KnownTensor


@T.prim_func(private=True, s_tir=True)
def scaled(x: T.handle, factor: T.int64, y: T.handle) -> None:
    n = T.int64()
    source = T.match_buffer(x, (n, 4), "float32")
    target = T.match_buffer(y, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.sblock("y"):
            row, column = T.axis.remap("SS", [i, j])
            target[row, column] = source[row, column] * T.Cast("float32", factor)


KERNEL = ir.GlobalVar("scaled")
N = tirx.Var("rows", "int64")


def tensor(name: str, *shape: tirx.Expr | int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def call(*args: relax.Expr) -> KernelCall | None:
    return kernel_call(ir.Call(KERNEL, list(args), ret_ty=relax.TupleType([])), {KERNEL: scaled}, Analyzer())


def names(function: tirx.PrimFunc) -> list[str]:
    """Return the functions that a function calls as parts, in their order."""
    found: list[str] = []

    def visit(one: ir.Call) -> None:
        if getattr(one.op, "name", "") == "tirx.call_extern":
            found.append(str(one.args[0].value))

    tvm_ffi.structural_walk(function.body, (ir.Call, visit))
    return found


def test_a_kernel_is_told_what_it_read_from_shapes() -> None:
    ((symbol, position, axis),) = told_by_shapes(scaled)
    assert (symbol.name, position, axis) == ("n", 0, 0)
    found = call(tensor("x", N, 4), tirx.IntImm("int64", 3), tensor("y", N, 4))
    assert found is not None
    assert [size.name for size in found.sizes] == ["rows"]
    assert [each.name for each in found.tensors] == ["x", "y"]


def test_a_call_that_may_fail_its_checks_stays_a_call_of_the_vm() -> None:
    three = tirx.IntImm("int64", 3)
    assert call(tensor("x", N, 5), three, tensor("y", N, 4)) is None
    assert call(tensor("x", N, 4), three, tensor("y", N + 1, 4)) is None
    assert call(tensor("x", N, 4, dtype="float16"), three, tensor("y", N, 4)) is None
    assert call(tensor("x", N, 4), tensor("y", N, 4)) is None


def group() -> KernelGroup:
    """Return a group that scales x into its workspace and that into y."""
    x, y, inner = tensor("x", N, 4), tensor("y", N, 4), tensor("inner", N, 4)
    three = tirx.IntImm("int64", 3)
    calls = tuple(c for c in (call(x, three, inner), call(inner, three, y)) if c is not None)
    offset = {inner: tirx.IntImm("int64", 0)}
    return KernelGroup(ir.GlobalVar("kernel_group"), calls, (x, y), frozenset([y]), {x: 0, y: 1}, offset, N * 16, None)


def test_a_group_is_a_function_of_tensors_workspace_and_symbols() -> None:
    made = group_function(group(), {KERNEL: "scaled_part"}, "look")
    assert [param.name for param in made.params] == ["x", "y", "workspace", "rows"]
    assert names(made) == ["vmkit.part:scaled_part"] * 2
    assert list(made.attrs[CALLS_PARTS]) == ["scaled", "scaled"]


def test_a_loop_copies_runs_and_copies_again() -> None:
    one = group()
    x, y = one.tensors
    goes_on, state = tensor("goes_on", dtype="bool"), run_state()
    size = tirx.IntImm("int64", 64)
    fields = {name: getattr(one, name) for name in ("name", "calls", "made", "position", "offset", "size")}
    fields["position"] = {**one.position, goes_on: 2, state: 3}
    loop = KernelLoop(
        **fields, tensors=(x, y, goes_on, state), head=1, condition=goes_on, goes_on=True,
        before=(Move(x, y, size),), after=(Move(y, x, size),), swaps=(), state=state,
    )  # fmt: skip
    made = loop_function(loop, {KERNEL: "scaled"}, "move", "flag", "look")
    parts = [f"vmkit.part:{name}" for name in ("move", "look", "scaled", "flag", "scaled", "move")]
    assert names(made) == parts


def test_a_group_tells_what_it_needs_of_memory_that_it_does_not_look_at() -> None:
    x, y = tensor("x", 3, 4), tensor("y", 3, 4)
    three = tirx.IntImm("int64", 3)
    calls = tuple(c for c in (call(x, three, y), call(y, three, y)) if c is not None)
    one = KernelGroup(ir.GlobalVar("g"), calls, (x, y), frozenset([y]), {x: 0, y: 1}, {}, tirx.IntImm("int64", 0), None)
    assert one.needs == [None, KnownTensor((2, 32, 1), (3, 4))]
    functions = with_needs(tvm.IRModule({"g": group_function(one, {KERNEL: "scaled_part"}, "look")})).functions
    told = {str(f.attrs["global_symbol"]) for f in functions.values() if "global_symbol" in f.attrs}
    assert told == {"g_needs"}
    # Where extents are known only when the program runs, the group looks itself, as it does at the workspace.
    assert group().needs == [None, None]
    params = group_function(group(), {KERNEL: "scaled_part"}, "look").params
    shapes = [[getattr(dim, "name", None) or int(dim) for dim in param.ty.shape] for param in params[:3]]
    assert shapes == [["rows", 4], ["rows", 4], ["words"]]


def test_a_group_does_not_look_at_its_own_tensors() -> None:
    """It takes their addresses; at what a user gives, and at the workspace, it looks."""
    x, y = tensor("x", 3, 4), tensor("y", 3, 4)
    three = tirx.IntImm("int64", 3)
    calls = tuple(c for c in (call(x, three, y), call(y, three, y)) if c is not None)
    one = KernelGroup(ir.GlobalVar("g"), calls, (x, y), frozenset([y]), {x: 0, y: 1}, {}, tirx.IntImm("int64", 0), None)
    function = group_function(one, {KERNEL: "scaled"}, "look").with_attr({"global_symbol": "g"})
    target = tvm.target.Target("llvm")
    packed = tirx.transform.MakePackedAPI()(
        tirx.transform.BindTarget(target.with_host(target))(tvm.IRModule({"g": function}))
    )["g"]
    assert types_read(packed) == [0, 1]
    assert types_read(with_own_tensors(packed, "g")) == [0]
    with pytest.raises(CompileError, match="the tensors of kernel group g are not to be found"):
        with_own_tensors(function.with_attr("calling_conv", 1).with_body(packed.body), "g")


def types_read(packed: tirx.PrimFunc) -> list[int]:
    """Return the positions of the arguments whose types a function in the packed convention reads."""
    found: list[int] = []

    def visit(one: ir.Call) -> None:
        is_type = getattr(one.op, "name", "") == "tirx.tvm_struct_get" and int(one.args[2].value) == 13
        if is_type and int(one.args[1].value) not in found:
            found.append(int(one.args[1].value))

    tvm_ffi.structural_walk(packed.body, (ir.Call, visit))
    return found


def test_only_modules_with_parts_are_changed() -> None:
    mod = tvm.IRModule({"scaled": scaled})
    assert parts_called(mod).same_as(mod)
    assert str(as_part(scaled).attrs["vmkit.part"]) == "bnb"
    assert [str(part.attrs["vmkit.part"]) for part in (move_part(), flag_part())] == ["bb", "bb"]


def test_a_part_outside_of_the_packed_convention_is_an_error() -> None:
    # TVM hands errors of its passes on as its own.
    with pytest.raises(RuntimeError, match="the parameters of kernel scaled are not to be found"):
        parts_called(tvm.IRModule({"scaled": as_part(scaled)}))
