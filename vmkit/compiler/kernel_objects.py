"""A library of kernels out of objects that are linked: without a cache one of some kernels each, with one one a kernel.

Those that a cache has are taken, the others built. In one module for LLVM, as without a cache, kernels of a group are
private functions, and one that changes has all built again. For a cache each is built as a function that the linker
finds by its key, so equal kernels are one, and what calls them is built by itself.

Of a module that is built all but its object ends at once: LLVM's own form of kernels takes fifty times as much memory.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from ..cache import Key
from ..cache.kernels import Kernels
from ..errors import ExecutableError
from ..executable.linker import linker_for
from ..executable.objects import Objects, linked, loaded
from ..relax.kernel_groups.parts import by_itself, is_part
from ..relax.shape_pipeline import SHAPES
from ..stack import on_deep_stack
from ..target.llvm import description_of
from ..values.host_memory import return_free_memory
from .ahead import KernelsAhead, why_not_in_objects
from .all_cores import cores_to_use, on_all_cores
from .cache_key import kernel_key
from .code_target import code_target, llvm_level
from .kernel_modules import modules_to_link, number_of_modules
from .kernel_pipeline import PIPELINE
from .pool_code import has_pool, pool_object
from .surroundings import Surroundings
from .units import Unit, built

__all__ = ["LinkedKernels", "kernel_objects", "linked_kernels"]

# The names that Relax numbers values by: they move with everything that comes before.
_NUMBERED = re.compile(r'"((?:gv|lv)\d*)"')

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LinkedKernels:
    """A library that is loaded, and the file that it was loaded from."""

    library: tvm.runtime.Module
    file: bytes


def linked_kernels(
    kernels: tvm.IRModule | None, shapes: tvm.IRModule | None, target: Target, kept: Kernels
) -> LinkedKernels | None:
    """Return the library of kernels and of functions that compute shapes, with what is kept of them taken as it is.

    None if nothing here links for the target, or the linker fails; the log says so then.
    """
    link = linker_for(description_of(target)[0])
    if link is None:
        logger.info("cache: kernels are not kept, since no C compiler is there to link them")
        return None
    objects = [*_objects(_units(kernels, shapes), target, kept), *_pool(target)]
    try:
        file = linked(objects, link)
    except RuntimeError as error:
        logger.warning("cache: kernels are not kept, since they cannot be linked: %s", str(error).strip())
        return None
    return LinkedKernels(loaded(file), file)


def kernel_objects(
    kernels: tvm.IRModule | None,
    shapes: tvm.IRModule | None,
    target: Target,
    in_llvm: Callable[[], tuple[tvm.runtime.Module, ...]],
    ahead: KernelsAhead | None = None,
) -> Objects | None:
    """Return the machine code of kernels and of functions that compute shapes, made on all cores and not linked yet.

    None for few kernels, whose code is made sooner than it is linked, and where objects are not kept; see
    :func:`.ahead.why_not_in_objects`.
    """
    if kernels is None or number_of_modules(kernels, cores_to_use()) < 2:
        return None
    if (why := why_not_in_objects(target)) is not None:
        logger.info("kernels stay in memory as LLVM has them: %s", why)
        return None
    surroundings = Surroundings.capture()
    symbols, codes = ahead.taken(kernels) if ahead is not None else ({}, [])
    left = _without(kernels, symbols)
    modules = modules_to_link(left, number_of_modules(left, cores_to_use()), llvm_level)
    units = [Unit(mod, PIPELINE) for mod in modules]
    if shapes is not None:
        units.append(Unit(shapes, SHAPES))

    def again() -> tuple[tvm.runtime.Module, ...]:
        with surroundings.entered():
            return in_llvm()

    def code(unit: Unit) -> bytes:
        made = built(unit, code_target(target, unit.mod))
        return_free_memory()  # of each thread's heap all that the largest module took would stay
        return made

    # What other cores have begun comes last, so that nothing waits for it.
    jobs: list[Callable[[], bytes]] = [*(partial(code, unit) for unit in units), *codes]
    objects = (*on_all_cores(_called, jobs), *_pool(target))
    return Objects(objects, description_of(target)[0], lambda: on_deep_stack(again))


def _pool(target: Target) -> list[bytes]:
    """Return what kernels share their work by."""
    return [pool_object(target)] if has_pool(target) else []


def _called(job: Callable[[], bytes]) -> bytes:
    return job()


def _without(kernels: tvm.IRModule, symbols: Mapping[str, str]) -> tvm.IRModule:
    """Return a module of kernels without those that have symbols elsewhere, by which the others call them."""
    if not symbols:
        return kernels
    left = {gvar: function for gvar, function in kernels.functions.items() if gvar.name_hint not in symbols}
    functions = {gvar: by_itself(function, symbols, gvar.name_hint) for gvar, function in left.items()}
    return tvm.IRModule(functions, attrs=kernels.attrs)


def _units(kernels: tvm.IRModule | None, shapes: tvm.IRModule | None) -> Iterator[Unit]:
    if kernels is not None:
        named = {gvar.name_hint: function for gvar, function in kernels.functions.items()}
        symbols = {name: _symbol(function) for name, function in named.items() if is_part(function)}
        for name, function in named.items():
            mod = tvm.IRModule({symbols.get(name, name): by_itself(function, symbols, name)}, attrs=kernels.attrs)
            yield Unit(mod, PIPELINE)
    if shapes is not None:
        yield Unit(shapes, SHAPES)


def _symbol(part: tvm.tirx.PrimFunc) -> str:
    """Return what the linker finds a part by, which is equal for parts that are equal but for their names."""
    text = _text(part.without_attr("global_symbol"))
    return f"vmkit_part_{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _key_of(unit: Unit, target: Target) -> Key:
    # What it is called by is no name of a value, whatever it looks like.
    names = sorted(gvar.name_hint for gvar in unit.mod.get_global_vars())
    return kernel_key("\n".join([*names, _text(unit.mod)]), unit.pipeline, target)


def _text(node: tvm.IRModule | tvm.tirx.PrimFunc) -> str:
    """Return all of a module or function as text, in which values that Relax named are numbered anew."""
    names: dict[str, str] = {}
    return _NUMBERED.sub(lambda found: names.setdefault(found[0], f'"value{len(names)}"'), tvm.ir.save_json(node))


def _objects(units: Iterable[Unit], target: Target, kept: Kernels) -> list[bytes]:
    """Return the objects of units, of equal ones one; those that are not kept yet are built on all cores."""
    keyed = [(_key_of(unit, target), unit) for unit in units]
    wanted = {key.digest: (key, unit) for key, unit in keyed}
    found = {digest: made for digest, (key, _) in wanted.items() if (made := kept.get(key)) is not None}
    missing = [digest for digest in wanted if digest not in found]

    def code(digest: str) -> bytes:
        unit = wanted[digest][1]
        return built(unit, code_target(target, unit.mod))

    for digest, made in zip(missing, on_all_cores(code, missing), strict=True):
        found[digest] = made
        try:
            kept.put(wanted[digest][0], made)
        except ExecutableError as error:
            logger.warning("a kernel was built, but the cache cannot keep it: %s", error)
    logger.info("cache: %d of %d kernels found, %d built", len(wanted) - len(missing), len(wanted), len(missing))
    return [found[digest] for digest in wanted]
