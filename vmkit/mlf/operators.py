"""Single operators as an archive: functions of TE, TIR or Relay, each a function of C, for one or several targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import te, tirx
from tvm.target import Target
from tvm.tirx.buffer import is_buffer_var

from .._dataclasses import dataclass
from ..errors import ModelError
from ..target.plan import command_line
from .c_kernels import declaration, kernels_source
from .c_names import c_function_name, c_name
from .c_numbers import c_type
from .kernels import Kernel, buffer_bytes, lowered_kernel
from .objects import object_file, object_module
from .workspaces import workspace_lines

__all__ = ["Operators", "as_functions", "is_operators"]

_CPU = 1  # DLPack's number of the device, which is a part of the name of the TIR's file


def as_functions(operators: Any, name: str) -> dict[str, tirx.PrimFunc] | None:
    """Return what is given as functions of TIR by name; None where it is nothing that consists of such.

    Parameters
    ----------
    operators
        A function of TIR, a module of those, or the tensors of TE that a function takes and gives.
    name : str
        That of a function without one.
    """
    if isinstance(operators, tirx.PrimFunc):
        symbol = operators.attrs.get("global_symbol") if operators.attrs else None
        return {str(symbol or name): operators}
    if isinstance(operators, list | tuple) and operators and all(isinstance(t, te.Tensor) for t in operators):
        return {name: te.create_prim_func(list(operators))}
    if isinstance(operators, tvm.IRModule):
        functions = {v.name_hint: f for v, f in operators.functions.items()}
        if functions and all(isinstance(f, tirx.PrimFunc) for f in functions.values()):
            return functions
    return None


def is_operators(model: Any) -> bool:
    """Say whether a model can be nothing but operators: functions of TE or TIR, or several things by their targets."""
    return isinstance(model, Mapping) or as_functions(model, "") is not None


@dataclass(frozen=True)
class Operators:
    """Functions for targets.

    Attributes
    ----------
    name : str
        What the archive is called.
    functions : sequence of (Target, mapping of str to PrimFunc)
        By target.
    target_text : callable
        Returns how the description names a target; by default as on a command line.
    """

    name: str
    functions: Sequence[tuple[Target, Mapping[str, tirx.PrimFunc]]]
    target_text: Callable[[Target], str] = command_line

    def files(self) -> dict[str, bytes]:
        """Return the files of the archive, by their places in it."""
        made: dict[str, bytes] = {}
        texts: list[str] = []
        heads: list[str] = []
        sources = objects = 0
        for target, functions in self.functions:
            kernels = {name: lowered_kernel(name, f, target) for name, f in functions.items()}
            inner = {name: _inner_name(name) for name in kernels}
            entries = [_entry(kernel, c_function_name(name), inner[name]) for name, kernel in kernels.items()]
            heads += [f"{head};" for head, _ in entries]
            made[f"codegen/host/src/lib{sources}.c"] = _entries(kernels, inner, [body for _, body in entries]).encode()
            sources += 1
            if target.kind.name == "c":
                made[f"codegen/host/src/lib{sources}.c"] = kernels_source(kernels, inner).encode()
                sources += 1
            else:
                made[f"codegen/host/lib/lib{objects}.o"] = object_file(object_module(kernels, inner, target))
                objects += 1
            texts.append(str(tvm.IRModule(dict(functions)).script()))
        made[f"codegen/host/include/{c_name(self.name)}.h"] = _header(self.name, heads).encode()
        made[f"src/tir-{_CPU}.txt"] = "\n".join(texts).encode()
        return made

    def metadata(self, export_datetime: str) -> dict[str, Any]:
        """Return what ``metadata.json`` says."""
        memory = {
            name: [_described(param) for param in function.params]
            for _, functions in self.functions
            for name, function in functions.items()
        }
        return {
            "model_name": self.name,
            "export_datetime": export_datetime,
            "memory": memory,
            "target": [self.target_text(target) for target, _ in self.functions],
            "executors": [],
            "style": "operator",
        }

    def check(self) -> None:
        """Raise ModelError listing functions that an archive cannot have together, and sizes that are not known."""
        names = [c_function_name(name) for _, functions in self.functions for name in functions]
        names += [_inner_name(name) for name in dict.fromkeys(names)]
        problems = [
            f"{name}: two functions have that name" for name in sorted({n for n in names if names.count(n) > 1})
        ]
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            problems.append(f"{self.name!r} is no identifier of C")
        for _, functions in self.functions:
            for name, function in functions.items():
                for param in function.params:
                    if not is_buffer_var(param) or not all(isinstance(d, tirx.IntImm) for d in param.ty.shape):
                        problems.append(f"{name}: {param.name} is of a size that is known at run time only")
        if problems:
            raise ModelError("\n  ".join(["these operators cannot be exported", *problems]))


def _described(param: tvm.ir.Var) -> dict[str, Any]:
    shape = [int(d) for d in param.ty.shape]
    return {
        "size_bytes": buffer_bytes(param),
        "shape": shape,
        "dtype": str(param.ty.dtype),
        "input_binding": str(param.name),
    }


def _inner_name(name: str) -> str:
    """Return the name of the kernel inside of an operator's function."""
    return f"{c_function_name(name)}_kernel"


def _entry(kernel: Kernel, name: str, inner: str) -> tuple[str, str]:
    """Return the head of an operator's function, and the function, which has the kernel's workspace itself."""
    memory, addresses = workspace_lines(kernel)
    params = [f"p{place}" for place in range(len(kernel.params))]
    kinds = ["" if place in kernel.written else "const " for place in range(len(kernel.params))]
    types = [c_type(str(param.ty.dtype)) for param in kernel.params]
    head = f"int32_t {name}({', '.join(map('{}{}* {}'.format, kinds, types, params)) or 'void'})"
    args = [*params, *addresses]
    return head, "\n".join([f"{head} {{", *memory, f"  {inner}({', '.join(args)});", "  return 0;", "}"])


def _entries(kernels: Mapping[str, Kernel], symbols: Mapping[str, str], bodies: Sequence[str]) -> str:
    heads = "\n".join(f"{declaration(kernel, symbols[name])};" for name, kernel in kernels.items())
    return "\n\n".join(["#include <stdint.h>", heads, *bodies]) + "\n"


def _header(name: str, heads: Sequence[str]) -> str:
    guard = f"{c_name(name).upper()}_H_"
    opened = ['#ifdef __cplusplus\nextern "C" {\n#endif', "/* Each returns 0; none of its tensors may overlap. */"]
    body = ["#include <stdint.h>", *opened, "\n".join(heads), "#ifdef __cplusplus\n}\n#endif"]
    return "\n\n".join([f"#ifndef {guard}\n#define {guard}", *body, f"#endif /* {guard} */"]) + "\n"
