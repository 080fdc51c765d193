"""A program with a constant, as bytecode."""

from __future__ import annotations

import pytest

from tests.relax import programs as vm_programs


@pytest.fixture(scope="module")
def constant_add() -> bytes:
    return vm_programs.code_of(vm_programs.compiled(vm_programs.constant_add()[0]))
