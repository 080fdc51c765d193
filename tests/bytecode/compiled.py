"""Programs that the tests of bytecode compile, by name."""

from __future__ import annotations

from tests.relax import programs as vm_programs

PROGRAMS = {
    "sum": lambda: vm_programs.Sum,
    "swap": lambda: vm_programs.Swap,
    "nested": lambda: vm_programs.Nested,
    "triangle": lambda: vm_programs.Triangle,
    "add_rows": lambda: vm_programs.add_rows()[0],
    "tuples": lambda: vm_programs.tuples()[0],
    "constant_add": lambda: vm_programs.constant_add()[0],
}
