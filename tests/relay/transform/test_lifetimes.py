"""Where values are not needed any more, and how much memory is in use."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import module
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.transform import AnnotateUsedMemory, InferType, ManifestLifetimes, ToANormalForm


def parsed(body: str) -> tvm.IRModule:
    return relay.fromtext(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32], %c: bool) {{\n{body}\n}}')


def assert_killed(before: str, after: str) -> None:
    got = ManifestLifetimes()(parsed(before))
    assert tvm_ffi.structural_equal(got["main"], parsed(after)["main"]), f"got\n{got}"


def test_a_value_is_killed_after_its_last_use() -> None:
    assert_killed(
        "let %y = exp(%x); let %z = %y + %y; %z",
        "let %y = exp(%x); let %k = memory.kill(%x); let %z = %y + %y; let %l = memory.kill(%y); %z",
    )


def test_a_variable_for_another_is_that() -> None:
    assert_killed("let %y = %x; let %z = exp(%y); %z", "let %z = exp(%x); let %k = memory.kill(%x); %z")


def test_what_one_branch_needs_is_killed_there() -> None:
    assert_killed(
        "let %y = exp(%x); let %z = if (%c) { let %a = %y + %y; let %b = tanh(%a); %b } else { %x }; %z",
        """let %y = exp(%x);
        let %z = if (%c) {
          let %a = %y + %y; let %k = memory.kill(%y); let %b = tanh(%a); let %l = memory.kill(%a); %b
        } else { %x };
        let %m = memory.kill(%c); %z""",
    )


def test_kills_change_no_result() -> None:
    main = ManifestLifetimes()(parsed("let %y = exp(%x); let %z = %y + %x; %z"))["main"]
    x = np.array([0, 1, 2, 3], "float32")
    assert_same(compiled(list(main.params), main.body)(x, np.array(True)), np.exp(x) + x)


def test_another_form_is_refused() -> None:
    with pytest.raises(ModelError, match="a If stands in an expression: bring the function to A-normal form first"):
        ManifestLifetimes()(parsed("let %y = exp(if (%c) { %x } else { %x }); %y"))


def kernel(build: object, *shape: object) -> relay.Function:
    p = relay.var("p", shape=shape, dtype="int8")
    return relay.Function([p], build(p), attrs={"Primitive": 1})  # type: ignore[operator]


def used_memory(mod: tvm.IRModule) -> tuple[list[list[int]], int]:
    """Return the annotations of the kernels of main, in order, and of main."""
    main = AnnotateUsedMemory()(InferType()(ToANormalForm()(mod)))["main"]
    found, expr = [], main.body
    while isinstance(expr, relay.Let):
        if isinstance(expr.value, relay.Function):
            found.append([int(n) for n in expr.value.attrs["used_memory"]])
        expr = expr.body
    return found, int(main.attrs["io_used_memory"])


def test_inputs_results_and_what_waits_are_in_use() -> None:
    x = relay.var("x", shape=(4, 8), dtype="int8")
    first, second = (kernel(relay.nn.relu, 4, 8)(x) for _ in range(2))
    mod = module(relay.concatenate([first, second], axis=0), x)
    assert used_memory(mod) == ([[64], [96]], 32 + 64)


def test_each_call_of_a_kernel_has_its_number() -> None:
    x = relay.var("x", shape=(4, 8), dtype="int8")
    relu = kernel(relay.nn.relu, 4, 8)
    assert used_memory(module(relu(relu(x)), x)) == ([[64, 64]], 64)


def test_elements_of_any_size_are_counted_in_bytes() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    assert used_memory(module(kernel(lambda p: relay.cast(p, "float64"), 4)(x), x)) == ([[4 + 32]], 36)


def test_sizes_that_the_run_decides_are_refused() -> None:
    x = relay.var("x", shape=(relay.Any(), 8), dtype="int8")
    with pytest.raises(ModelError, match="AnnotateUsedMemory does not support dynamic shapes"):
        used_memory(module(kernel(relay.nn.relu, relay.Any(), 8)(x), x))
