"""Runs the source of CUDA kernels on the CPU: barriers, vectors and tensor cores as they stand there."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from vmkit.schedule.gpu.launch import lowered_body

__all__ = ["cuda_source", "run_source"]

_SHIM = Path(__file__).parent / "cuda_shim"
_TAGS = [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"]


def cuda_source(module: Any) -> str:
    """Return the source in CUDA of a compiled module."""

    def within(part: Any) -> Iterator[str]:
        if part.kind.startswith("cuda"):
            yield part.inspect_source()
        for other in part.imports:
            yield from within(other)

    return "".join(within(module))


def run_source(function: tirx.PrimFunc, target: Any, operands: list[np.ndarray], folder: Path) -> None:
    """Run a scheduled kernel on arrays, the last of which it writes, by the source that it is compiled to."""
    function = function.with_attr("global_symbol", "kernel")
    # Common parts of sizes would be computed on the host, and given to kernels by names that say nothing.
    with tvm.transform.PassContext(config={"tirx.disable_cse_tir": True}):
        source = cuda_source(tvm.compile(tvm.IRModule({"kernel": function}), target).mod)
    sizes = _sizes(function, operands)
    buffers = {f"{p.name}_ptr": array for p, array in zip(function.params, operands, strict=True)}
    body = lowered_body(function, target)
    for name, shape, dtype in _workspaces(body, sizes):
        buffers[f"{name}_ptr"] = np.full(shape, np.nan, dtype)
    grids = list(_grids(body, sizes))
    signatures = re.findall(r"__launch_bounds__\(\d+\) (\w+)\(([^)]*)\) \{", source)
    assert len(grids) == len(signatures)
    wrappers, calls = [], []
    for (kernel, parameters), grid in zip(sorted(signatures), grids, strict=True):
        names = []
        for parameter in parameters.split(", "):
            kind, name = re.sub(r" __restrict__", "", parameter).rsplit(" ", 1)
            if not kind.endswith("*"):
                names.append(f"({kind}){sizes[name]}")
            else:
                names.append(f"({kind})pointers[{list(buffers).index(name)}]")
        wrappers.append(f"static void run_{kernel}() {{ {kernel}({', '.join(names)}); }}")
        block, threads = (
            ", ".join(str(grid[tag]) for tag in _TAGS if tag.startswith(k)) for k in ("blockI", "threadI")
        )
        calls.append(f"shim::launch({{{block}}}, {{{threads}}}, run_{kernel});")
    program = "\n".join(
        [
            re.sub(r"(extern )?__shared__ (alignas|__align__)\(64\)", "alignas(64) static", source).replace(
                "buf_dyn_shmem_ptr[]", "buf_dyn_shmem_ptr[1 << 17]"
            ),
            "static void** pointers;",
            *wrappers,
            f'extern "C" void run(void** given) {{ pointers = given; {" ".join(calls)} }}',
        ]
    )
    (folder / "kernel.cc").write_text(program)
    library = folder / "kernel.so"
    command = ["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-I", str(_SHIM), "kernel.cc", "-o", str(library)]
    subprocess.run(command, cwd=folder, check=True)
    pointers = (ctypes.c_void_p * len(buffers))(*(array.ctypes.data for array in buffers.values()))
    ctypes.CDLL(str(library)).run(pointers)


def _sizes(function: tirx.PrimFunc, operands: list[np.ndarray]) -> dict[str, int]:
    """Return the sizes that are unknown to the kernel, by the names that they have in its source."""
    found: dict[str, int] = {}
    for param, array in zip(function.params, operands, strict=True):
        for dim, size in zip(param.ty.shape, array.shape, strict=True):
            if isinstance(dim, tirx.Var):
                found[dim.name] = size
    return found


def _known(expr: Any, sizes: Mapping[str, int]) -> int:
    placed = tvm_ffi.structural_map(expr, (tirx.Var, lambda v: tirx.IntImm(str(v.ty.dtype), sizes[v.name])))
    return int(Analyzer().simplify(placed))


def _grids(body: tirx.Stmt, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    found: list[dict[str, int]] = []

    def note(node: tirx.AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            found[-1][str(node.node.thread_tag)] = _known(node.value, sizes)

    for part in _launched(body):
        found.append({})
        tvm_ffi.structural_walk(part, (tirx.AttrStmt, note))
    for grid in found:
        yield {tag: grid.get(tag, 1) for tag in _TAGS}


def _launched(stmt: tirx.Stmt) -> Iterator[tirx.Stmt]:
    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from _launched(part)
    elif isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == "thread_extent":
        yield stmt


def _workspaces(body: tirx.Stmt, sizes: Mapping[str, int]) -> Iterator[tuple[str, list[int], str]]:
    """Yield the name, shape and type of each buffer that launches share."""
    for part in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(part, tirx.AllocBuffer):
            buffer = part.buffer
            yield str(buffer.name), [_known(d, sizes) for d in buffer.ty.shape], str(buffer.ty.dtype)
