"""The rooms of the package stand on layers: imports point down, inside functions and behind packages' faces, too."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.places import TOP
from vmkit._later import LATER
from vmkit.cli import COMMANDS

# From the bottom up. Rooms of one layer do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_dataclasses", "_deferred", "errors"),
    ("_later", "_version", "isolation", "stack"),
    ("_tvm",),
    ("target", "values"),
    ("relay",),
    ("kernels",),
    ("optimize", "relax", "schedule"),
    ("bytecode", "byoc", "tophub"),
    ("executable",),
    ("cache", "runtime"),
    ("frontend", "profiling"),
    ("compiler",),
    ("as_python", "benchmarking", "executor", "mlf", "pages", "tuning", "verification"),
    ("backend", "compat", "onnxruntime"),
    ("cli",),
    ("flow",),
    ("__main__",),
)
# The rooms inside relay, in the same way.
RELAY_LAYERS: tuple[tuple[str, ...], ...] = (
    ("diagnostics", "ir", "pass_options"),
    ("bind", "op", "params", "pattern_functor", "recurrent_loop", "signature", "type_functor"),
    ("analysis", "build_module", "expr_functor", "formulas", "image", "json", "nn", "random", "vision"),
    ("scope_builder", "text"),
    ("library", "loops", "transform"),
    ("data_dep_optimization", "dataflow_pattern", "lower", "prelude", "qnn", "quantize"),
    ("frontend", "testing"),
)
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}


@dataclass(frozen=True)
class Import:
    """An import of one module of the package by another."""

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def modules() -> dict[str, Path]:
    """Return the files of the package by the names of their modules."""
    found = {}
    for path in sorted((TOP / "vmkit").rglob("*.py")):
        parts = path.relative_to(TOP).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """Return the room of a module: the package or file directly in ``vmkit``; empty for ``vmkit`` itself."""
    return module.split(".")[1] if "." in module else ""


def relay_room(module: str) -> str:
    """Return the room of a module inside relay; empty for ``vmkit.relay`` itself and for what is not below it."""
    return module.split(".")[2] if module.startswith("vmkit.relay.") else ""


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """Yield every import of the package's modules but those for the type checker alone, wherever it stands."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                waiting += node.orelse
                continue
            case ast.Import():
                targets = [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
                home = base if node.level else node.module or ""
                targets = [f"{home}.{a.name}" if f"{home}.{a.name}" in known else home for a in node.names]
            case _:
                targets = []
        yield from (Import(name, target, node.lineno) for target in targets if target in known)  # type: ignore[attr-defined]
        waiting += ast.iter_child_nodes(node)


MODULES = modules()


@functools.cache
def all_imports() -> list[Import]:
    """Return every import of a module by another; read when a test asks, as collecting the tests does not need it."""
    return [each for name, path in MODULES.items() for each in imports(name, path, MODULES)]


def test_every_room_has_its_layer() -> None:
    assert {room(module) for module in MODULES} - {""} == set(HEIGHT)


def test_imports_point_down() -> None:
    across = [i for i in all_imports() if room(i.source) and room(i.source) != room(i.target)]
    up = [str(i) for i in across if not room(i.target) or HEIGHT[room(i.target)] >= HEIGHT[room(i.source)]]
    allowed = [f"vmkit.cli.{command}" for command in COMMANDS]  # the command line uses the public names
    assert [line for line in up if line.partition(":")[0] not in allowed] == []


def test_every_room_of_relay_has_its_layer() -> None:
    rooms = [each for layer in RELAY_LAYERS for each in layer]
    assert sorted({relay_room(module) for module in MODULES} - {""}) == sorted(rooms)


def test_imports_inside_relay_point_down() -> None:
    height = {each: height for height, layer in enumerate(RELAY_LAYERS) for each in layer}
    inside = [
        (relay_room(i.source), relay_room(i.target), i) for i in all_imports() if i.target.startswith("vmkit.relay")
    ]
    across = [(source, target, i) for source, target, i in inside if source and source != target]
    assert [str(i) for source, target, i in across if not target or height[target] >= height[source]] == []


# What has an underscore in front belongs to TVM itself; so do the tables of functions that it has from C++, and those
# functions that are fetched by a name.
PRIVATE = re.compile(
    r"\b(tvm|tvm_ffi|relax|tirx|topi|s_tir|Device|Tensor|GlobalVar)[\w.]*\._(?!_)\w|_ffi_api|\._create_view"
    r"|get_global_func\(f?\""
)


def test_private_names_of_tvm_stand_in_one_place() -> None:
    elsewhere = [
        f"{name}:{number}: {line.strip()}"
        for name, path in MODULES.items()
        if room(name) != "_tvm"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PRIVATE.search(line.partition("#")[0])
    ]
    assert elsewhere == []


def test_the_package_itself_imports_only_what_is_cheap() -> None:
    assert {room(i.target) for i in all_imports() if i.source == "vmkit"} == {"_later", "_tvm", "_version"}


@pytest.mark.parametrize("module", LATER)
def test_names_that_a_room_hands_on_from_above_are_where_the_table_says(module: str) -> None:
    for name, home in LATER[module].items():
        place, _, attribute = home.partition(":")
        assert place in MODULES, name
        tree = ast.parse(MODULES[place].read_text())
        exported = {
            e.value for n in ast.walk(tree) if isinstance(n, ast.List) for e in n.elts if isinstance(e, ast.Constant)
        }
        assert not attribute or attribute in exported, name


def test_modules_of_a_room_import_each_other_in_no_circle_of_more_than_three() -> None:
    # A package's face hands names on: what it imports is no step of a circle.
    faces = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    below: dict[str, set[str]] = {name: set() for name in MODULES if name not in faces}
    for each in all_imports():
        if each.source in below and each.target in below:
            below[each.source].add(each.target)
    assert [sorted(circle) for circle in circles(below) if len(circle) > 3] == []


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of nodes that reach each other."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for target in graph[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    reach = {node: reached(node) for node in graph}
    found: list[set[str]] = []
    for node in graph:
        if node in reach[node] and not any(node in circle for circle in found):
            found.append({other for other in reach[node] if node in reach[other]})
    return found


@pytest.mark.parametrize("module", LATER)
def test_no_module_hides_a_name_that_is_found_later(module: str) -> None:
    """Importing a module makes it an attribute of its package, in the place of what the package would have found."""
    hidden = [
        name for name, home in LATER[module].items() if f"{module}.{name}" in MODULES and home != f"{module}.{name}"
    ]
    assert hidden == []
