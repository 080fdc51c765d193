"""Kernels that are built while the rest of their program is still lowered and scheduled.

Lowering and scheduling are Python, which runs on one core; LLVM runs without Python's lock. A kernel that is written
out is final when lowering makes it, and any other when it has its schedule, so the other cores build it meanwhile,
together with some others, as a part with a symbol of its own. Should a pass change it after all, or the program call it
otherwise, it is built again as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import tvm
from tvm import tirx
from tvm.target import Target
from tvm.tirx.buffer import is_buffer_var

from ..executable.linker import linker_for
from ..executable.objects import has_room
from ..relax.alignment import expecting_elements
from ..relax.kernel_groups.parts import as_part, by_itself, is_part, linker_symbol
from ..relax.long_loops import cut_long_loops
from ..stack import on_deep_stack
from ..target.families import is_generic
from ..target.llvm import description_of
from ..values.host_memory import return_free_memory
from .all_cores import cores_to_use
from .code_target import code_target
from .kernel_pipeline import PIPELINE
from .options import CompilerOptions
from .surroundings import Surroundings
from .units import Unit, built

__all__ = ["KernelsAhead", "final", "why_not_in_objects"]

_TOGETHER = 5  # kernels of a module: LLVM has 2 MB for each in memory, and setting it up takes less than 10 ms
_FIRST = 24  # kernels before the first module is begun: a program of few is not built on several cores at all


def why_not_in_objects(target: Target) -> str | None:
    """Return why kernels for a target are not kept as machine code that is linked later; None if they are.

    Those that are, are built on several cores.
    """
    if target.kind.name != "llvm":
        return "they are not for LLVM"
    if is_generic(target):
        return "they are for a family of processors"
    if Surroundings.capture().has_instruments:
        return "passes are observed"
    triple = description_of(target)[0]
    if "wasm" in triple or linker_for(triple) is None:
        return f"there is no C compiler for {triple}"
    return None if has_room() else "there is no room for files"


def final(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose kernels, which have schedules, are as they are built."""
    return cut_long_loops(expecting_elements(mod))


Kernels = dict[str, tirx.PrimFunc]


def _is_to_be_named(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel has sizes that are expressions, for which :func:`.size_names.name_sizes` will put names."""
    sizes = [size for param in kernel.params if is_buffer_var(param) for size in param.ty.shape]
    return not all(isinstance(size, tirx.IntImm | tvm.ir.Var) for size in sizes)


def _is_of_elements(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel takes elements and numbers, as parts do, and not a tensor of which it returns the rank."""
    return all(is_buffer_var(param) or isinstance(param.ty, tvm.ir.PrimType) for param in kernel.params)


class _Module:
    """Kernels that are built together."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self.parts = kernels, Kernels()
        self.symbols: dict[str, str] = {}  # what the linker finds each of the parts by

    def become_parts(self) -> None:
        """Make `parts` of the kernels: what they become if nothing changes them.

        The kernels themselves would be in memory beside them for as long as the program is compiled.
        """
        made = final(tvm.IRModule(self._kernels))
        self.parts = {gvar.name_hint: as_part(function) for gvar, function in made.functions.items()}
        self._kernels = {}
        self.symbols = {name: linker_symbol(name, part) for name, part in self.parts.items()}

    def unchanged(self, parts: Kernels) -> Kernels:
        """Return those of a program's parts that are equal to this module's: the symbols tell, which have a digest."""
        found = {name: parts[name] for name in self.symbols if name in parts}
        return {name: part for name, part in found.items() if linker_symbol(name, part) == self.symbols[name]}


class KernelsAhead:
    """The kernels of one program that are built while it is lowered.

    Parameters
    ----------
    target
        What for, under the options in force.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._surroundings = Surroundings.capture()
        self._offered: set[str] = set()
        self._waiting: Kernels = {}
        self._modules: list[_Module] = []
        self._started: list[Future[bytes]] = []
        self._pool = ThreadPoolExecutor(cores_to_use() - 1, thread_name_prefix="vmkit-ahead")

    @staticmethod
    def of(target: Target, options: CompilerOptions) -> KernelsAhead | None:
        """Return what builds kernels ahead for a target; None where that is not done: only parts are linked."""
        is_done = cores_to_use() > 1 and options.groups_kernels and why_not_in_objects(target) is None
        return KernelsAhead(target) if is_done else None

    def offer(self, name: str, kernel: tirx.PrimFunc) -> None:
        """Take a kernel that has its schedule, of that name in the program; once, and not before it is as it stays."""
        if name in self._offered or _is_to_be_named(kernel) or not _is_of_elements(kernel):
            return
        self._offered.add(name)
        self._waiting[name] = kernel
        if len(self._waiting) == _TOGETHER:
            self._modules.append(_Module(self._waiting))
            self._waiting = {}
        if len(self._modules) * _TOGETHER >= _FIRST:
            self._started += [self._begun(each) for each in self._modules[len(self._started) :]]

    def end(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._pool.shutdown(cancel_futures=True)

    def taken(self, kernels: tvm.IRModule) -> tuple[dict[str, str], list[Callable[[], bytes]]]:
        """Return the symbols of the parts of a program that are not to be built with it, and what returns their code.

        Which these are depends on nothing but the program: those that no core had time for are built when the code is
        asked for.
        """
        parts = {gvar.name_hint: function for gvar, function in kernels.functions.items() if is_part(function)}
        symbols: dict[str, str] = {}
        codes: list[Callable[[], bytes]] = []
        for module, started in zip(self._modules, self._started, strict=False):
            same = module.unchanged(parts)
            if same:
                symbols |= {name: module.symbols[name] for name in same}
                if is_left := started.cancel():
                    module.parts.update((name, part.without_attr("global_symbol")) for name, part in same.items())
                codes.append(partial(self._code, module) if is_left else started.result)
        return symbols, codes

    def _begun(self, module: _Module) -> Future[bytes]:
        module.become_parts()
        return self._pool.submit(self._code, module)

    def _code(self, module: _Module) -> bytes:
        def code() -> bytes:
            try:
                with self._surroundings.entered():
                    return self._built(module)
            finally:
                return_free_memory()  # of this thread's heap

        return on_deep_stack(code)

    def _built(self, module: _Module) -> bytes:
        # The symbols tell later whether the program still has the parts; it has each as well.
        parts, module.parts = module.parts, Kernels()
        symbols = module.symbols
        unit = Unit(tvm.IRModule({symbols[n]: by_itself(p, symbols, n) for n, p in parts.items()}), PIPELINE)
        del parts
        return built(unit, code_target(self._target, unit.mod))
