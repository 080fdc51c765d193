"""Loops of kernels are one call of the VM; what they compute stays the same, and other loops stay what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.onnx.programs import Compiled, array, check, graph, model, node
from vmkit import relay

# Each is a loop `@loop` of Relay and a function that computes the same; %n counts down to 0.
LOOPS: dict[str, str] = {
    "a sum": """
def @loop(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
  if (%n == 0) { %a } else { @loop(%n - 1, %a + 1f) } }
def @main(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] { @loop(%n, %a) }""",
    "the condition the other way round": """
def @loop(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
  if (%n > 0) { @loop(%n - 1, nn.softmax(%a + 1f)) } else { %a } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] { @loop(%n, %a) }""",
    "values that change places": """
def @loop(%n: int32, %a: Tensor[(4, 3), float32], %b: Tensor[(4, 3), float32], %c: Tensor[(4, 3), float32])
    -> (Tensor[(4, 3), float32], Tensor[(4, 3), float32], Tensor[(4, 3), float32]) {
  if (%n == 0) { (%a, %b, %c) } else { @loop(%n - 1, %b, %c, %a + %b) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32])
    -> (Tensor[(4, 3), float32], Tensor[(4, 3), float32], Tensor[(4, 3), float32]) {
  @loop(%n, %a, %a + 1f, %a * 2f) }""",
    "two that become the same, one that becomes a constant, one that becomes one that stays": """
def @loop(%n: int32, %a: float32, %b: float32, %c: float32, %d: float32, %s: float32)
    -> (float32, float32, float32, float32) {
  if (%n == 0) { (%a, %b, %c, %d) } else { let %x = %a + %b + %c + %d; @loop(%n - 1, %x, %x, 3f, %s, %s) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> (float32, float32, float32, float32) {
  @loop(%n, 1f, 2f, 5f, 7f, sum(%a)) }""",
    "a computation after the last iteration": """
def @loop(%n: int32, %a: Tensor[(4, 3), float32], %s: Tensor[(4, 3), float32]) -> Tensor[(3, 4), float32] {
  if (%n == 0) { transpose(nn.softmax(%a + %s) * %a) } else { @loop(%n - 1, %a * %s + 1f, %s) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(3, 4), float32] { @loop(%n, %a, %a) }""",
}
OTHERS: dict[str, str] = {
    "a value that grows": """
def @loop(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
  if (%n == 0) { %a } else { @loop(%n - 1, concatenate((%a, %a), axis=0)) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(?, 3), float32] { @loop(%n, %a) }""",
    "an iteration with a branch": """
def @loop(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
  if (%n == 0) { %a } else { let %b = if (%n == 2) { %a + 1f } else { nn.softmax(%a) }; @loop(%n - 1, %b * 2f) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] { @loop(%n, %a) }""",
    "what the condition was made of is returned": """
def @loop(%n: int32, %a: Tensor[(4, 3), float32]) -> float32 {
  let %s = sum(%a) + cast(%n, dtype="float32"); if (%s > 50f) { %s } else { @loop(%n + 1, %a + 1f) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> float32 { @loop(%n, %a) }""",
}


def compiled(text: str) -> vmkit.Executable:
    return vmkit.compile(relay.parse('#[version = "0.0.5"]' + text), target="native")


def runs_as_one(executable: vmkit.Executable) -> bool:
    return "invoke_packed kernel_loop" in executable.bytecode


def arrays(result: Any) -> list[np.ndarray]:
    return [each.numpy() for each in (result if isinstance(result, tuple | list) else [result])]


@pytest.mark.parametrize("name", [*LOOPS, *OTHERS])
def test_a_loop_of_kernels_is_one_call_and_gives_what_its_iterations_give(name: str) -> None:
    executable = compiled((LOOPS | OTHERS)[name])
    assert runs_as_one(executable) == (name in LOOPS)
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        one_by_one = compiled((LOOPS | OTHERS)[name])
    assert not runs_as_one(one_by_one)
    machine, other = vmkit.VirtualMachine(executable), vmkit.VirtualMachine(one_by_one)
    given = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    for count in (0, 1, 2, 3, 6, 7):
        mine, before = given.copy(), np.array(count, "int32")
        results, wanted = arrays(machine.run(before, mine)), arrays(other.run(before, given))
        assert len(results) == len(wanted)
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-6, err_msg=f"{count} iterations")
        np.testing.assert_array_equal(mine, given)


def test_results_of_two_runs_are_apart() -> None:
    machine = vmkit.VirtualMachine(compiled(LOOPS["a sum"]))
    given = np.zeros((2, 3), "float32")
    first, second = machine.run(np.int32(3), given), machine.run(np.int32(5), given)
    np.testing.assert_array_equal(first.numpy(), np.full((2, 3), 3))
    np.testing.assert_array_equal(second.numpy(), np.full((2, 3), 5))


def test_a_saved_loop_runs(tmp_path: Path) -> None:
    compiled(LOOPS["values that change places"]).export(tmp_path / "loop.vmx")
    machine = vmkit.VirtualMachine(vmkit.load(tmp_path / "loop.vmx"))
    a, b, c = arrays(machine.run(np.int32(4), np.ones((4, 3), "float32")))
    x, y, z = 1, 2, 2
    for _ in range(4):
        x, y, z = y, z, x + y
    assert (a[0, 0], b[0, 0], c[0, 0]) == (x, y, z)


def test_kernels_of_a_loop_may_be_called_elsewhere_too() -> None:
    executable = compiled("""
def @loop(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] {
  if (%n == 0) { %a } else { @loop(%n - 1, nn.softmax(%a)) } }
def @main(%n: int32, %a: Tensor[(4, 3), float32]) -> Tensor[(4, 3), float32] { nn.softmax(@loop(%n, %a)) }""")
    assert runs_as_one(executable)
    value = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    expected = value
    for _ in range(4):
        expected = np.exp(expected) / np.exp(expected).sum(-1, keepdims=True)
    np.testing.assert_allclose(vmkit.VirtualMachine(executable).run(np.int32(3), value).numpy(), expected, rtol=1e-5)


def test_rows_are_stacked_in_place() -> None:
    given = {"i": ([], "int64"), "go": ([], "bool"), "s": (["k", 3], "float32")}
    body = graph([node("MatMul", "s w", "t"), node("Tanh", "t", "u"), node("Identity", "go", "on")], given, "on u t")
    proto = model(
        [node("Loop", "n _ p", "y rows", body=body)],
        {"n": ([], "int64"), "p": (["k", 3], "float32")},
        "y rows",
        {"w": array(3, 3) / 2, "n": np.array(100, "int64")},
    )
    del proto.graph.input[0]
    assert runs_as_one(Compiled(proto).executable)
    check(proto, *[{"p": array(k, 3)} for k in (1, 4)])


def test_a_loop_in_a_loop_is_one_call_of_the_outer() -> None:
    inner = graph([node("Mul", "a half", "b"), node("Identity", "go2", "on2")], {
        "j": ([], "int64"), "go2": ([], "bool"), "a": ([3], "float32"),
    }, "on2 b")  # fmt: skip
    outer = graph([node("Loop", "i _ s", "t", body=inner), node("Add", "t one", "u"), node("Identity", "go", "on")], {
        "i": ([], "int64"), "go": ([], "bool"), "s": ([3], "float32"),
    }, "on u")  # fmt: skip
    proto = model(
        [node("Loop", "n _ p", "y", body=outer)],
        {"n": ([], "int64"), "p": ([3], "float32")},
        "y",
        {"half": np.float32(0.5), "one": np.float32(1)},
    )
    assert Compiled(proto).executable.bytecode.count("invoke_packed kernel_loop") == 1
    check(proto, *[{"n": np.array(n, "int64"), "p": array(3)} for n in (0, 1, 6)])


def test_a_scan_of_a_sequence_of_any_length_is_one_call() -> None:
    """Its slices are known to be inside the sequence: no check of that stands in an iteration."""
    body = graph([node("Add", "s row", "a"), node("Tanh", "a", "t"), node("Identity", "t", "out")], {
        "s": (["b", 3], "float32"), "row": (["b", 3], "float32"),
    }, "t out")  # fmt: skip
    proto = model(
        [node("Scan", "p x", "last y", body=body, num_scan_inputs=1)],
        {"p": (["b", 3], "float32"), "x": (["n", "b", 3], "float32")},
        "last y",
    )
    assert runs_as_one(Compiled(proto).executable)
    check(proto, *[{"p": array(b, 3), "x": array(n, b, 3)} for n, b in ((1, 1), (5, 2), (9, 1), (2, 4))])
