"""Machine code is made of all of LLVM's libraries at once, before a machine asks for their functions one by one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.executable import machine_code
from vmkit.executable.machine_code import make_machine_code


class Library:
    """Stands for a runtime module: tells which functions are asked for, and waits until two libraries are asked."""

    def __init__(self, functions: Sequence[str], asked: threading.Barrier, kind: str = "llvm") -> None:
        self.functions, self.kind, self.imports = functions, kind, list[Any]()
        self.asked, self.given = asked, list[str]()

    def implements_function(self, name: str) -> bool:
        return name in self.functions

    def get_function(self, name: str) -> None:
        self.given.append(name)
        self.asked.wait(timeout=30)  # who asks for one after the other waits for ever


def test_every_library_of_llvm_is_asked_at_once() -> None:
    together = threading.Barrier(2)
    first, other, linked = Library("ab", together), Library("cd", together), Library("e", together, "library")
    first.imports = [other, linked, Library("", together)]
    made: Any = make_machine_code
    made([first], lambda: "dcbae")
    assert [first.given, other.given, linked.given] == [["b"], ["d"], []]


def test_one_library_is_left_to_the_machine() -> None:
    alone = Library("a", threading.Barrier(1))
    made: Any = make_machine_code
    made([alone], lambda: pytest.fail("no names are needed"))
    assert alone.given == []


def test_a_program_of_kernels_and_sizes_runs() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    executable = vmkit.compile(relay.Function([x], relay.concatenate([x, relay.exp(x)], axis=0)), "native")
    # That of sizes, and that of the threads which share the work of kernels.
    assert [len(library.imports) for library in executable.libraries] == [2]
    value = np.ones((2, 3), "float32")
    got = vmkit.VirtualMachine(executable, "cpu").run(value).numpy()
    np.testing.assert_allclose(got, np.concatenate([value, np.exp(value)]), rtol=1e-6)


def test_it_is_made_once_for_programs_that_machines_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are given to the program of a machine, which is another than the executable's."""
    x = relay.var("x", shape=(1, 256))
    weight = relay.const(np.ones((256, 256), "float32"))
    executable = vmkit.compile(relay.Function([x], relay.nn.dense(x, weight)), "native")
    made = list[Any]()
    monkeypatch.setattr(machine_code, "make_machine_code", lambda libraries, _: made.append(libraries))
    for _ in range(2):
        got = vmkit.VirtualMachine(executable, "cpu").run(np.ones((1, 256), "float32")).numpy()
        np.testing.assert_allclose(got, np.full((1, 256), 256, "float32"))
    assert len(made) == 1 and [library.kind for library in made[0]] == ["llvm"]
