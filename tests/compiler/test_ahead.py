"""Kernels that are built while their program is lowered: which these are, and that they compute what others do."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.compiler import ahead, stages
from vmkit.compiler.ahead import KernelsAhead
from vmkit.compiler.all_cores import using_cores
from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.errors import CompileError
from vmkit.target import canonical_target

RNG = np.random.default_rng(0)
WIDTHS = range(16, 80, 4)
DATA = RNG.standard_normal((1, WIDTHS[0], 6, 6)).astype("float32")
WEIGHTS = [RNG.standard_normal((n, m, 1, 1)).astype("float32") / 6 for m, n in itertools.pairwise(WIDTHS)]


def network() -> relay.Function:
    """Return fifteen convolutions, each of sizes of its own."""
    x = y = relay.var("x", shape=DATA.shape)
    for weight in WEIGHTS:
        y = relay.nn.conv2d(y, relay.const(weight), kernel_size=(1, 1), channels=len(weight))
    return relay.Function([x], y)


def expected() -> np.ndarray:
    y = DATA
    for weight in WEIGHTS:
        y = np.einsum("nihw,oi->nohw", y, weight[:, :, 0, 0])
    return y


def check(executable: vmkit.Executable) -> None:
    got = vmkit.VirtualMachine(executable, "cpu").run(DATA).numpy()
    np.testing.assert_allclose(got, expected(), rtol=1e-3, atol=1e-4)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Have four kernels built ahead at a time; return a list to which the symbols of a program's are added."""
    monkeypatch.setattr(ahead, "_TOGETHER", 4)
    monkeypatch.setattr(ahead, "_FIRST", 8)
    found: list[dict[str, str]] = []
    take = KernelsAhead.taken

    def noted(self: KernelsAhead, kernels: tvm.IRModule) -> tuple[dict[str, str], list[Callable[[], bytes]]]:
        symbols, codes = take(self, kernels)
        found.append(symbols)
        return symbols, codes

    monkeypatch.setattr(KernelsAhead, "taken", noted)
    return found


def compiled(cores: int = 2, **how: Any) -> vmkit.Executable:
    with using_cores(cores):
        return vmkit.compile(network(), "native", **how)


@pytest.mark.parametrize("is_in_time", [True, False])
def test_kernels_are_in_memory_once(
    taken: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, is_in_time: bool
) -> None:
    found: list[tuple[KernelsAhead, tvm.IRModule]] = []
    take = KernelsAhead.taken

    def noted(self: KernelsAhead, kernels: tvm.IRModule) -> tuple[dict[str, str], list[Callable[[], bytes]]]:
        wait([each for each in self._started if is_in_time])
        symbols, codes = take(self, kernels)
        parts = {name: part for module in self._modules for name, part in module.parts.items()}
        if is_in_time:
            assert not any(name in parts for name in symbols)
        else:
            assert all(parts[name].body.same_as(kernels[name].body) for name in symbols)
        assert symbols and not any(module._kernels for module in self._modules if module.symbols)
        found.append((self, kernels))
        return symbols, codes

    monkeypatch.setattr(KernelsAhead, "taken", noted)
    if not is_in_time:
        monkeypatch.setattr(ahead.ThreadPoolExecutor, "submit", lambda *_: Future())
        monkeypatch.setattr("vmkit.compiler.all_cores.ThreadPoolExecutor", Here)
    check(compiled())
    assert len(found) == len(taken) == 1


def test_kernels_are_built_while_others_are_lowered_and_scheduled(taken: list[dict[str, str]]) -> None:
    executable = compiled()
    check(executable)
    (symbols,) = taken
    assert len(symbols) == 16  # of seventeen: two turn the data round
    assert any("layout_transform" in name for name in symbols)
    assert all(symbol.startswith(f"vmkit_{name}_") for name, symbol in symbols.items())
    (group,) = (executable.info["kernel_groups"] or {}).values()
    assert set(symbols) < set(group)
    assert not running()


def test_those_that_no_core_had_time_for_are_built_in_the_end(
    taken: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = compiled()
    monkeypatch.setattr(ahead.ThreadPoolExecutor, "submit", lambda *_: Future())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vmkit.compiler.all_cores.ThreadPoolExecutor", Here)
        late = compiled()
    check(late)
    assert taken[0] == taken[1] and len(taken[0]) == 16
    assert begun._objects is not None and late._objects is not None
    assert late._objects._objects == begun._objects._objects


class Here:
    """What runs everything at once, in the thread that asks for it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[..., Any], items: Any) -> Any:
        return map(function, items)


def test_kernels_that_change_after_all_are_built_as_they_are(
    taken: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "final", lambda mod: mod)
    check(compiled())
    assert taken == [{}]


def test_one_core_few_kernels_a_cache_and_kernels_by_themselves_build_nothing_ahead(
    taken: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    check(compiled(cores=1))
    check(compiled(cache=tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(ahead.KernelsAhead, "offer", lambda *_: pytest.fail("what is no part is not linked"))
        with vmkit.PassContext(disabled_pass=["GroupKernels"]):
            check(compiled())
    assert taken == []
    monkeypatch.setattr(ahead, "_FIRST", 20)
    check(compiled())
    assert taken == [{}]


def test_a_compilation_that_fails_leaves_no_threads(
    monkeypatch: pytest.MonkeyPatch, taken: list[dict[str, str]]
) -> None:
    def failing(*_: object) -> None:
        assert running()
        raise CompileError("as it were")

    monkeypatch.setattr(stages, "generate_bytecode", failing)
    with pytest.raises(CompileError, match="as it were"):
        compiled()
    assert not running() and taken == []


def test_a_compiler_in_stages_builds_ahead_too(taken: list[dict[str, str]]) -> None:
    compiler = VMCompiler()
    with using_cores(2):
        compiler.lower(tvm.IRModule({"main": network()}), "native")
        compiler.codegen()
    check(compiler.get_exec())
    assert [len(symbols) for symbols in taken] == [16]


def test_objects_are_kept_where_something_links_them() -> None:
    why = {name: ahead.why_not_in_objects(canonical_target(name).primary) for name in ("native", "portable", "c")}
    assert why == {
        "native": None, "portable": "they are for a family of processors", "c": "they are not for LLVM",
    }  # fmt: skip


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vmkit-ahead")]


def test_what_returns_the_rank_of_a_tensor_is_no_kernel(
    taken: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_TOGETHER", 2)  # so that it would be built with a kernel
    network_of = network()
    unranked = relay.op.build("unranked.of", network_of.body)
    both = relay.Function(network_of.params, relay.Tuple([network_of.body, relay.op.build("unranked.rank", unranked)]))
    with using_cores(2):
        executable = vmkit.compile(both, "native")
    assert taken[0]
    result, rank = vmkit.VirtualMachine(executable, "cpu").run(DATA)
    np.testing.assert_allclose(result.numpy(), expected(), rtol=1e-3, atol=1e-4)
    assert int(rank.numpy()) == 4
