"""Machine code of the pool of threads that share the work of kernels: ``pool.ll``, for a target.

It is linked into each library of kernels, and a process uses that of the first one. A process that runs programs needs
neither LLVM nor a compiler for it.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
import string

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.target import Target

from ..executable.pool_names import SLOT
from ..executable.scratch import scratch_folder
from ..kernels.builder import AS_WRITTEN
from ..target.llvm import architecture, description_of, operating_system
from .kernel_pipeline import PIPELINE

__all__ = ["has_pool", "pool_library", "pool_object", "shares_work", "with_slot"]

_SLOT_ADDRESS = """
@__TVMBackendParallelLaunch = external global ptr
define i64 @vmkit_slot_address() {
  ret i64 ptrtoint (ptr @__TVMBackendParallelLaunch to i64)
}
"""

# What a processor does while it looks again and again, so that its other thread, or its clock, may have the time.
_PAUSES = {
    "x86_64": 'call void asm sideeffect "pause", "~{memory}"()',
    "aarch64": 'call void asm sideeffect "yield", "~{memory}"()',
}
_SYSTEMS = ("linux", "darwin")  # those with threads of POSIX
_LAYOUT = re.compile(r"^target (?:datalayout|triple) = .*$", re.M)
_FLAG = re.compile(r'^!\d+ = !\{i32 \d+, !"tvm_target", .*\}$', re.M)


def has_pool(target: Target) -> bool:
    """Tell whether there is a pool for a target; where there is none, kernels share work by TVM's own."""
    if str(target.kind.name) != "llvm":
        return False
    triple, _, _ = description_of(target)
    return architecture(triple) in _PAUSES and operating_system(triple) in _SYSTEMS


def pool_library(target: Target) -> tvm.runtime.Module:
    """Return the pool for a target as a library that LLVM holds."""
    return _library(str(target))


def pool_object(target: Target) -> bytes:
    """Return the pool for a target as an object."""
    return _object(str(target))


def with_slot(kernels: ir.IRModule, number: int) -> ir.IRModule:
    """Return a module of kernels with a function that returns the address of what they share work by.

    Of a library that LLVM holds nothing else tells it. Its name is that of the number, so that the objects of several
    modules can be linked.
    """
    name = f"{SLOT}{number}"
    told = tirx.Return(tirx.call_extern("int64", "vmkit_slot_address"))
    body = tirx.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", ir.StringImm(_SLOT_ADDRESS), told)
    function = tirx.PrimFunc([], body, ret_type=ir.PrimType("int64"), attrs=_named(name))
    return ir.IRModule({**kernels.functions, ir.GlobalVar(name): function}, attrs=kernels.attrs)


def shares_work(kernels: ir.IRModule) -> bool:
    """Tell whether any of these kernels shares its work among threads."""
    found = False

    def look(loop: tirx.For) -> None:
        nonlocal found
        found = found or loop.kind == tirx.ForKind.PARALLEL

    for function in kernels.functions.values():
        tvm_ffi.structural_walk(function.body, (tirx.For, look))
    return found


def _library(target: str) -> tvm.runtime.Module:
    with scratch_folder() as folder:
        source = folder / "pool.ll"
        source.write_text(_code(target), "utf-8")
        return tvm.runtime.load_module(str(source))


@functools.cache
def _object(target: str) -> bytes:
    with scratch_folder() as folder:
        made = folder / "pool.o"
        _library(target).write_to_file(str(made), "o")
        return made.read_bytes()


@functools.cache
def _code(target: str) -> str:
    described = Target(json.loads(target))
    # What LLVM calls the target stands in any module for it.
    nothing = tirx.PrimFunc([], tirx.Evaluate(0), attrs=_named("nothing"))
    text = tvm.tirx.build(ir.IRModule({"nothing": nothing}), described, PIPELINE).inspect_source("ll")
    flag = _FLAG.search(text)
    assert flag is not None, "TVM writes the target into each module"
    template = string.Template(importlib.resources.files(__package__).joinpath("pool.ll").read_text("utf-8"))
    return template.substitute(
        layout="\n".join(_LAYOUT.findall(text)),
        pause=_PAUSES[architecture(description_of(described)[0]) or ""],
        flags=f"!llvm.module.flags = !{{!0}}\n!0 = {flag[0].partition(' = ')[2]}",
    )


def _named(name: str) -> ir.DictAttrs:
    return ir.make_node("ir.DictAttrs", global_symbol=name, **AS_WRITTEN)
