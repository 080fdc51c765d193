"""Is anything in Relay's front half quadratic? Programs of 500 to 4,000 operators are parsed, typed and printed.

The peer of a program is one of half its size: where the work is linear in the program the ratio is 2, where it is
quadratic it is 4.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm

from vmkit import relay
from vmkit.relay.transform import InferType

SIZES = (1000, 2000, 4000)


def program(operators: int) -> str:
    """Return a Relay program with unknown dimensions, every value used by the two that follow it."""
    lines = [f"  %{i} = add(%{i - 1}, %{i - 2});" if i > 1 else f"  %{i} = nn.relu(%x);" for i in range(operators - 1)]
    header = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 16), float32]) -> Tensor[(?, 16), float32] {'
    return "\n".join([header, *lines, f"  tanh(%{operators - 2})", "}"])


def infer(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module with types; what was inferred before is inferred again."""
    return InferType()(module)


@pytest.mark.parametrize("operators", SIZES)
@pytest.mark.benchmark(group="relay: parse")
def test_parse(ratio: Callable[..., None], operators: int) -> None:
    text, half = program(operators), program(operators // 2)
    assert len(relay.astext(relay.parse(text)).splitlines()) >= operators
    ratio(lambda: relay.parse(text), half_the_size=lambda: relay.parse(half))


@pytest.mark.parametrize("operators", SIZES)
@pytest.mark.benchmark(group="relay: infer types")
def test_infer(ratio: Callable[..., None], operators: int) -> None:
    module, half = relay.parse(program(operators)), relay.parse(program(operators // 2))
    assert str(infer(module)["main"].ret_type) == "Tensor[(?, 16), float32]"
    ratio(lambda: infer(module), half_the_size=lambda: infer(half))


@pytest.mark.parametrize("operators", SIZES)
@pytest.mark.benchmark(group="relay: print")
def test_print(ratio: Callable[..., None], operators: int) -> None:
    module, half = relay.parse(program(operators)), relay.parse(program(operators // 2))
    assert relay.astext(module).count("add(") == operators - 3
    ratio(lambda: relay.astext(module), half_the_size=lambda: relay.astext(half))
