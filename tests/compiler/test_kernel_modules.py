"""Kernels that are built on several cores, as several modules: the values, the files and the sources are all there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.support import cc

import vmkit
from vmkit import relay
from vmkit.compiler import kernel_modules
from vmkit.compiler.all_cores import cores_to_use, on_all_cores, using_cores
from vmkit.compiler.code_target import code_target, llvm_level
from vmkit.compiler.kernel_modules import modules_of, modules_to_link, number_of_modules
from vmkit.executable import objects
from vmkit.kernels.builder import WRITTEN_OUT, T, constant, integer, kernel
from vmkit.relax.kernel_groups import segments
from vmkit.relax.kernel_groups.parts import CALLS_PARTS, as_part, call_part
from vmkit.target import canonical_target

RNG = np.random.default_rng(0)
WIDTHS = range(8, 30, 2)
DATA = RNG.standard_normal((3, WIDTHS[0])).astype("float32")
WEIGHTS = [RNG.standard_normal((m, n)).astype("float32") for n, m in itertools.pairwise(WIDTHS)]


def network() -> relay.Function:
    """Return ten layers, each of a width of its own, and so twenty kernels."""
    x = y = relay.var("x", shape=DATA.shape)
    for weight in WEIGHTS:
        y = relay.nn.softmax(relay.nn.dense(y, relay.const(weight)))
    return relay.Function([x], y)


def expected() -> np.ndarray:
    y = DATA
    for weight in WEIGHTS:
        e = np.exp(y @ weight.T)
        y = e / e.sum(axis=1, keepdims=True)
    return y


def check(executable: vmkit.Executable) -> None:
    got = vmkit.VirtualMachine(executable, "cpu").run(DATA).numpy()
    np.testing.assert_allclose(got, expected(), rtol=1e-4, atol=1e-6)


def test_kernels_are_built_as_several_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_ENOUGH_KERNELS", 3)
    monkeypatch.setattr(segments, "_ENOUGH_BYTES", 0)
    with using_cores(3):
        executable = vmkit.compile(network(), "native")
        (library,) = executable.libraries
    sources = [each.inspect_source("ll") for each in (library, *library.imports)]
    assert len(sources) == 3
    for name, parts in (executable.info.kernel_groups or {}).items():
        (source,) = [each for each in sources if f"@__tvm_ffi_{name}(" in each]
        assert len(parts) > 1 and all(f"@{part}_compute_" in source or f"@{part}(" in source for part in parts)
    check(executable)
    executable.export(tmp_path / "m.vmx")
    check(vmkit.load(tmp_path / "m.vmx"))
    check(vmkit.Executable.load_exec(*executable.save()))  # which looks at what groups of all modules need


def test_machine_code_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[int] = []
    found = objects.linker_for

    def counted(*args: Any) -> Any:
        def link(path: str, files: list[str]) -> None:
            links.append(len(files))
            found(*args)(path, files)

        return link

    monkeypatch.setattr(objects, "linker_for", counted)
    with using_cores(2):
        executable = vmkit.compile(network(), "native")
        monkeypatch.setattr(tvm.tirx, "build", lambda *_: pytest.fail("kernels are built once more"))
        check(executable)
        executable.export(tmp_path / "m.vmx")
        check(executable)
        executable.export(tmp_path / "again.vmx")
    assert links == [4]  # parts of two modules, what calls them, and the threads that they share work among
    assert (tmp_path / "m.vmx").read_bytes() == (tmp_path / "again.vmx").read_bytes()
    check(vmkit.load(tmp_path / "m.vmx"))
    # Another form of the program, and one whose constants come later, have the same kernels.
    machine, out = vmkit.VirtualMachine(executable, "cpu"), tvm.runtime.empty(expected().shape, "float32")
    machine.invoke_with_outputs("main", {"x": DATA}, [out])
    np.testing.assert_allclose(out.numpy(), expected(), rtol=1e-4, atol=1e-6)
    executable.load_late_bound_consts_from_map(executable.get_late_bound_consts(100))
    check(executable)
    assert links == [4]  # parts of two modules, what calls them, and the threads that they share work among


def test_a_kernel_of_two_modules_is_built_for_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_ENOUGH_KERNELS", 3)
    monkeypatch.setattr(segments, "_ENOUGH_BYTES", 0)
    monkeypatch.setattr(kernel_modules, "_FEWEST", 2)
    weights = [RNG.standard_normal((8, 8)).astype("float32") for _ in range(6)]
    x = y = relay.var("x", shape=DATA.shape)
    for weight in weights:  # layers of three kernels each, which all have in common
        y = relay.cumsum(relay.nn.softmax(relay.nn.dense(y, relay.const(weight))), axis=1)
    build, built = tvm.tirx.build, list[set[str]]()

    def watched(mod: tvm.IRModule, *args: Any) -> Any:
        built.append({gvar.name_hint for gvar in mod.get_global_vars()})
        return build(mod, *args)

    monkeypatch.setattr(tvm.tirx, "build", watched)
    with using_cores(2):
        executable = vmkit.compile(relay.Function([x], y), "native")
    groups = executable.info.kernel_groups or {}
    assert len(groups) > 1 and sum(map(len, built)) == len(set().union(*built))
    assert not any(
        groups.keys() & each and each & {part for parts in groups.values() for part in parts} for each in built
    )
    wanted = DATA
    for weight in weights:
        e = np.exp(wanted @ weight.T)
        wanted = np.cumsum(e / e.sum(axis=1, keepdims=True), axis=1, dtype="float32")
    executable.export(tmp_path / "m.vmx")
    for each in (executable, vmkit.load(tmp_path / "m.vmx")):
        got = vmkit.VirtualMachine(each, "cpu").run(DATA).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_parts_of_one_group_are_spread() -> None:
    parts = {f"part{n}": as_part(stores(8)) for n in range(40)}
    calls = tirx.SeqStmt([call_part(name, []) for name in parts])
    group = tirx.PrimFunc([], calls).with_attr({"global_symbol": "group", CALLS_PARTS: list(parts)})
    modules = modules_to_link(tvm.IRModule({"group": group, **parts}), 4, llvm_level)
    named = [{gvar.name_hint for gvar in each.get_global_vars()} for each in modules]
    assert {"group"} in named and sorted(map(len, named)) == [1, 10, 10, 10, 10]
    assert set().union(*named) == {"group", *parts}


@pytest.mark.parametrize("level", [1, 2])
def test_llvm_optimises_no_function_that_only_calls_others(level: int) -> None:
    group = tirx.PrimFunc([], call_part("part", [])).with_attr(CALLS_PARTS, ["part"])
    n = tirx.Var("n", "int64")
    looped = group.with_body(tirx.For(n, 0, 9, tirx.ForKind.SERIAL, group.body))
    with tvm.transform.PassContext(opt_level=level):
        full = llvm_level(stores(1).without_attr(WRITTEN_OUT))
        assert [llvm_level(group), llvm_level(looped)] == [0, full]
        (target,) = canonical_target("native").targets
        alone = code_target(target, tvm.IRModule({"group": group}))
        mixed = code_target(target, tvm.IRModule({"group": group, "looped": looped}))
    assert dict(alone.export())["opt-level"] == 0
    assert dict(mixed.export()).get("opt-level") == full
    own = tvm.target.Target({**dict(target.export()), "opt-level": 3})
    assert dict(code_target(own, tvm.IRModule({"group": group})).export())["opt-level"] == 3


def test_kernels_that_cannot_be_linked_are_built_once_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with using_cores(2):
        executable = vmkit.compile(network(), "native")

    def failing(*_: Any) -> None:
        raise RuntimeError("  ld: no space  ")

    monkeypatch.setattr(objects, "linker_for", lambda *_: failing)
    check(executable)
    assert "kernels are built once more: the kernels cannot be linked for" in caplog.text
    assert "ld: no space" in caplog.text


def test_a_linker_of_the_caller_links_objects(tmp_path: Path) -> None:
    with using_cores(2):
        executable = vmkit.compile(network(), "native")
    given: list[list[str]] = []

    def own(path: str, files: list[str], **_: Any) -> None:
        given.append(sorted(Path(file).suffix for file in files))
        cc.create_shared(path, files)

    executable.export(tmp_path / "m.vmx", linker=own)
    assert given == [[".o"] * 4]
    check(vmkit.load(tmp_path / "m.vmx"))


def test_many_kernels_are_in_memory_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = tvm.IRModule({f"kernel{n}": stores(8) for n in range(48)})
    assert number_of_modules(kernels, 2) == 48 * (16 + 8) // 200
    assert number_of_modules(tvm.IRModule({f"kernel{n}": stores(1) for n in range(16)}), 2) == 2
    monkeypatch.setattr(kernel_modules, "_LARGEST", 300)
    assert number_of_modules(kernels, 2) == 48 * (16 + 8) // 300
    monkeypatch.setattr(kernel_modules, "_LARGEST", 1)
    assert number_of_modules(kernels, 2) == 6  # each has several functions


@pytest.mark.parametrize("target", ["portable", "llvm -mcpu=x86-64-v3"])
def test_what_is_stored_for_many_processors_stays_with_llvm(target: str, tmp_path: Path) -> None:
    with using_cores(2):
        executable = vmkit.compile(network(), target)
    assert [each.kind for each in executable.libraries] == ["llvm"]
    executable.export(tmp_path / "m.vmx", portable=True)
    check(vmkit.load(tmp_path / "m.vmx"))


def test_sources_are_built_under_the_options_that_were_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    with using_cores(2), tvm.transform.PassContext(opt_level=3, config={"tirx.disable_vectorize": True}):
        executable = vmkit.compile(network(), "native")
    build, seen = tvm.tirx.build, list[Any]()

    def watched(*args: Any) -> Any:
        seen.append(dict(tvm.transform.PassContext.current().config))
        return build(*args)

    monkeypatch.setattr(tvm.tirx, "build", watched)
    (library,) = executable.libraries
    assert library.kind == "llvm" and "define" in library.inspect_source("ll")
    assert seen and all(each["tirx.disable_vectorize"] for each in seen)
    assert executable.libraries == (library,)


def stores(count: int) -> tirx.PrimFunc:
    with kernel() as builder:
        out = T.match_buffer(T.arg("out", T.handle()), (count,), "float32", layout=None)
        for i in range(count):
            T.buffer_store(out, constant(1.0), [integer(i)])
    return builder.get()


def test_small_kernels_take_time_too() -> None:
    sizes = [64] * 4 + [1] * 20
    kernels = tvm.IRModule({f"kernel{n}": stores(size) for n, size in enumerate(sizes)})
    assert [len(each.functions) for each in modules_of(kernels, 2)] == [5, 19]


def test_a_few_large_kernels_are_spread_too() -> None:
    """As the products of a network at level 1, of which seven are most of what is built."""
    large = {f"kernel{n}": stores(150) for n in range(6)}
    kernels = tvm.IRModule(large | {f"small{n}": stores(1) for n in range(12)})
    assert number_of_modules(kernels, 2) == 4
    assert sorted(len(each.functions) for each in modules_to_link(kernels, 4)) == [1, 2, 2, 13]
    assert number_of_modules(tvm.IRModule(large), 2) == 1  # they are built sooner than linked


def test_one_core_and_few_kernels_make_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_modules, "_LARGEST", 1000)
    with using_cores(1):
        executable = vmkit.compile(network(), "native")
    assert [len(library.imports) for library in executable.libraries] == [0]
    assert len(executable.info.kernel_groups or ()) == 1  # what moves few bytes stays one call
    x = relay.var("x", shape=(4,))
    with using_cores(3):
        small = vmkit.compile(relay.Function([x], relay.cumsum(relay.exp(x))), "native")
    assert [len(library.imports) for library in small.libraries] == [0]


def test_what_the_caller_entered_is_in_force_on_every_core() -> None:
    def level(number: int) -> tuple[int, int]:
        return number, int(tvm.transform.PassContext.current().opt_level)

    with using_cores(2), tvm.transform.PassContext(opt_level=3):
        assert cores_to_use() == 2
        assert list(on_all_cores(level, range(4))) == [(number, 3) for number in range(4)]
        with pytest.raises(ZeroDivisionError):
            list(on_all_cores(lambda number: 1 // number, range(2)))
