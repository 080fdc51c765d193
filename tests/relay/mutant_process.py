"""The process that compiles and runs damaged programs of Relay: a number in, what became of that program out."""

from __future__ import annotations

import functools
import random
import re
from typing import Any

import numpy as np
import tvm

import vmkit
import vmkit.optimize  # registers its operators
from tests.children import Outcome, answer
from tests.golden import selected
from tests.relay.op.samples import SAMPLES, Given
from tests.relay.text.mutations import HEADER, MUTATIONS, with_word_of_a_kind
from vmkit import relay
from vmkit.errors import VMKitError
from vmkit.relay.ir import post_order
from vmkit.relay.op import REGISTRY
from vmkit.values.signature import TensorSpec

Source = tuple[str, list[np.ndarray]]
LONGEST = 2_000  # characters; a sample of an operator has some hundred
MOST = 1 << 16  # elements of an input
SECONDS = 5
_NUMBER = re.compile(r"(?<![\w%@.])-?\d+\b")
DIGITS = {"float16": 2e-2, "bfloat16": 4e-2, "float64": 1e-6}


@functools.cache
def golden() -> list[Source]:
    """Return short programs of Relay 0.14 whose inputs are tensors."""
    short = [p for p in selected() if len(p.text) < LONGEST and all(isinstance(i, np.ndarray) for i in p.inputs)]
    return [(p.text, p.inputs) for p in short]


def whole(draw: random.Random) -> Source:
    """Return a sound program and its inputs."""
    if draw.random() < 0.2:
        return draw.choice(golden())
    given = Given(dynamic=draw.random() < 0.3)
    body = SAMPLES[draw.choice(sorted(SAMPLES))](given)
    return relay.astext(tvm.IRModule({"main": relay.Function(given.params, body)})), given.arrays


def mutant(number: int) -> Source:
    """Return a damaged program, and inputs of the sound one."""
    draw = random.Random(number)
    text, arrays = whole(draw)
    for _ in range(draw.choice([1, 1, 2])):
        # Most texts that are damaged anywhere do not parse, which others test.
        change = draw.choice([with_other_number, with_other_number, with_word_of_a_kind, draw.choice(MUTATIONS)])
        text = change(draw, text)
    return (text if text.startswith(HEADER.strip()) else HEADER + text), arrays


def with_other_number(draw: random.Random, text: str) -> str:
    """Return a program with another extent, axis or attribute."""
    numbers = list(_NUMBER.finditer(text, len(HEADER)))
    if not numbers:
        return text
    found = draw.choice(numbers)
    value = int(found.group())
    other = draw.choice([0, 1, 2, 3, -1, value + 1, value - 1, value * 2, 7, 1000, 1 << 31, 1 << 62])
    return f"{text[: found.start()]}{other}{text[found.end() :]}"


def inputs_for(executable: vmkit.Executable, arrays: list[np.ndarray]) -> list[np.ndarray] | None:
    """Return inputs that a program takes, those of the sound one where they fit; None where there are none so small."""
    made = []
    for at, spec in enumerate(executable.signature.inputs):
        if not isinstance(spec, TensorSpec):
            return None
        like = arrays[at] if at < len(arrays) else np.zeros(0)
        known = [d if isinstance(d, int) else like.shape[i] if i < like.ndim else 2 for i, d in enumerate(spec.shape)]
        if spec.dtype == str(like.dtype) and tuple(known) == like.shape:
            made.append(like)
            continue
        count = int(np.prod(known, dtype=object))
        if count > MOST or spec.dtype not in np.sctypeDict:
            return None
        draw = np.random.default_rng(at)
        is_float = spec.dtype.startswith("float")
        values = draw.uniform(0.1, 0.9, count) if is_float else np.arange(count) % 2
        made.append(values.astype(spec.dtype).reshape(known))
    return made


def results(executable: vmkit.Executable, inputs: list[np.ndarray]) -> list[Any]:
    """Return what a program gives, as a flat list."""
    machine = vmkit.VirtualMachine(executable, "cpu", num_threads=1, timeout=SECONDS, max_memory=1 << 30)
    return _flat(machine.run(*inputs))


def _flat(value: Any) -> list[Any]:
    return [each for field in value for each in _flat(field)] if isinstance(value, tuple | list) else [value]


def is_defined(module: tvm.IRModule) -> bool:
    """Say whether equal inputs give equal results."""
    called = (node.op.name for f in module.functions.values() for node in post_order(f)
              if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op))  # fmt: skip
    return all(REGISTRY[name].is_pure and not REGISTRY[name].allocates for name in called)


def outcome(number: int) -> Outcome:
    """Return what became of a mutant: refused, ran as the unoptimised program does, or what it must not."""
    text, arrays = mutant(number)
    stage = "read"
    try:
        module = relay.parse(text)
        stage = "compiled"
        executable = vmkit.compile(module, "llvm")
        stage = "ran"
        inputs = inputs_for(executable, arrays)
        if inputs is None:
            return {"became": "compiled", "said": ""}
        found = results(executable, inputs)
    except VMKitError as error:
        return {"became": "refused" if stage == "read" else f"not {stage}", "said": str(error)}
    except BaseException as error:
        return {"became": "raised", "said": f"{error!r}\n{text[-600:]}"}
    try:
        with vmkit.PassContext(opt_level=0):
            expected = results(vmkit.compile(relay.parse(text), "llvm"), inputs)
    except VMKitError:
        return {"became": "ran alone", "said": ""}
    except BaseException as error:
        return {"became": "raised", "said": f"unoptimised: {error!r}\n{text[-600:]}"}
    difference = _difference(found, expected) if is_defined(relay.parse(text)) else ""
    return {"became": "differs" if difference else "ran", "said": difference and f"{difference}\n{text[-600:]}"}


def _difference(found: list[Any], expected: list[Any]) -> str:
    try:
        for one, other in zip(found, expected, strict=True):
            if not isinstance(one, tvm.runtime.Tensor):
                assert str(one) == str(other)
                continue
            assert (one.shape, one.dtype) == (other.shape, other.dtype), (one.shape, other.shape)
            digits = DIGITS.get(str(one.dtype), 1e-4 if "float" in str(one.dtype) else 0)
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=digits, atol=digits)
    except (AssertionError, ValueError, TypeError) as error:
        return str(error)[:500] or "other values"
    return ""


if __name__ == "__main__":
    answer(lambda line: outcome(int(line)))
