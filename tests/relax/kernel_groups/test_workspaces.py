"""Where storage lies in a workspace, and which groups share one."""

from __future__ import annotations

from tvm import ir, relax, tirx
from tvm.sym import Analyzer

from vmkit.relax.kernel_groups.functions import KernelCall, KernelGroup
from vmkit.relax.kernel_groups.workspaces import places_of, with_workspaces

NUMBER = tirx.Var("n", "int64")


def size(number: int) -> tirx.IntImm:
    return tirx.IntImm("int64", number)


def group(name: str, needed: tirx.Expr | None) -> tuple[relax.VarBinding, KernelGroup]:
    """Return a group of one call without arguments that needs some bytes of a workspace, or none."""
    inner = relax.Var("inner", relax.TensorType([1], "uint8"))
    offset = {} if needed is None else {inner: size(0)}
    call = KernelCall(ir.GlobalVar("kernel"), (), ())
    made = KernelGroup(
        ir.GlobalVar(name), (call,), (), frozenset(), {}, offset, size(0) if needed is None else needed, None
    )
    return relax.VarBinding(relax.Var(name, relax.TupleType([])), relax.Tuple([])), made


def test_places_are_aligned_and_known_sizes_come_first() -> None:
    sizes = {"a": NUMBER * 4, "b": size(100), "c": size(64)}
    places, end = places_of(sizes, Analyzer())
    assert list(places) == ["b", "c", "a"]
    assert [int(places[name]) for name in places] == [0, 128, 192]
    assert Analyzer().can_prove_equal(end, (NUMBER * 4 + 63) // 64 * 64 + 192)


def test_groups_share_a_workspace_of_the_largest_size() -> None:
    made = with_workspaces([group("f", size(64)), group("g", None), group("h", size(128))], set(), Analyzer())
    assert [binding.var.name for binding in made] == ["workspace_storage", "workspace", "f", "g", "h"]
    assert int(made[0].value.args[0].values[0]) == 128
    assert [len(binding.value.args) for binding in made[2:]] == [1, 0, 1]


def test_where_symbols_are_defined_another_workspace_begins() -> None:
    x = relax.Var("x", relax.TensorType(ndim=1, dtype="float32"))
    cast = relax.MatchCast(
        relax.Var("y", relax.TensorType([NUMBER], "float32")), x, relax.TensorType([NUMBER], "float32")
    )
    made = with_workspaces([group("f", size(64)), cast, group("g", NUMBER * 4)], set(), Analyzer())
    assert [binding.var.name for binding in made].count("workspace") == 2
