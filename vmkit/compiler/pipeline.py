"""Relax to machine code: fusion, schedules, memory, bytecode, kernels.

The passes of TVM that the compiler relies on are named here, in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import transform
from tvm.target import Target

from .. import bytecode
from .._dataclasses import dataclass
from .._tvm import database_in_force, kernels_of, link_executable, put_code
from ..bytecode.integer_tensors import with_integer_tensors
from ..bytecode.loops import with_loops
from ..bytecode.outside_constants import Outside, put_back, taken_out
from ..bytecode.releases import with_releases
from ..cache.kernels import Kernels
from ..executable.executable import Parts
from ..relax.branches import branches_apart, branches_back, outline_branches
from ..relax.dataflow import isolate_definitions
from ..relax.dead_code import eliminate_dead_code
from ..relax.fields import fields_of_tuples
from ..relax.fusion import fuse_operators
from ..relax.identities import without_identities
from ..relax.kernel_groups.flags import flags_in_kernels
from ..relax.kernel_groups.grouping import group_kernels, kernels_of_groups
from ..relax.kernel_groups.marks import with_marks
from ..relax.kernel_groups.needs import with_needs
from ..relax.kernel_groups.quick_workspaces import quick_workspaces
from ..relax.large_results import large_results
from ..relax.legalization import kernels_for_the_target, kernels_of_operators
from ..relax.long_loops import cut_long_loops
from ..relax.parameter_sizes import sizes_from_casts, sizes_of_parameters
from ..relax.patterns import annotate_patterns
from ..relax.places import keeping_places, nodes_of_kernels
from ..relax.planning import plan_memory
from ..relax.read_sizes import sizes_read_where_named
from ..relax.rewrite import with_functions
from ..relax.scaled_storage import share_scaled_storage
from ..relax.shape_heap import lower_shapes
from ..relax.shape_pipeline import SHAPES
from ..relax.shared_kernels import share_kernels
from ..relax.sharing import merge_views
from ..relax.size_classes import round_storage
from ..relax.size_names import name_sizes
from ..relax.storage import own_storage_of_branches
from ..relax.symbols import with_prefix
from ..relax.views import copies_of_given_values, views_of_reshapes
from ..relay.lower.repeated_kernels import Tell
from ..relay.pass_options import FILL_SPAN
from ..schedule.cpu import schedule_kernels
from ..schedule.float_algebra import with_float_algebra
from ..schedule.rule import CHOSEN
from ..target.llvm import operating_system
from ..tophub.choosing import choose
from .ahead import KernelsAhead, final
from .all_cores import cores_to_use, on_all_cores
from .code_target import code_target
from .failures import failures_named
from .instructions import check_instructions
from .kernel_modules import modules_of
from .kernel_objects import kernel_objects, linked_kernels
from .kernel_pipeline import PIPELINE
from .options import OWN_KERNELS, CompilerOptions
from .pool_code import has_pool, pool_library, shares_work, with_slot

__all__ = [
    "Bytecode",
    "fuse_relax",
    "generate_bytecode",
    "kernel_functions",
    "kernel_hashes",
    "link",
    "link_marked",
    "optimize_relax",
]

_MANY = 6  # kernels of one kind, which take long to be scheduled and built each by itself


@dataclass(frozen=True)
class Bytecode:
    """The bytecode of a module, the kernels that it calls, not built yet, and the large constants that it names.

    `nodes` says which nodes of the model each call of a kernel is for, by the kernel's name, where that is asked for;
    `large`, which functions return much; `ahead`, which kernels are being built already; `on_host`, whether all tensors
    are where shape heaps are.
    """

    builder: relax.ExecBuilder
    kernels: tvm.IRModule | None
    constants: Sequence[Outside] = ()
    nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    ahead: KernelsAhead | None = None
    on_host: bool = False

    @property
    def kernel_groups(self) -> dict[str, list[str]]:
        """The names of the kernels that one call of the VM runs, in their order, by the name of the group."""
        return {} if self.kernels is None else kernels_of_groups(self.kernels)


@failures_named(lambda mod, *_, **__: mod)
def optimize_relax(
    mod: tvm.IRModule, target: Target, options: CompilerOptions, tell: Tell | None = None
) -> tvm.IRModule:
    """Return a Relax module as calls of fused, scheduled kernels, still with tensors as values.

    For a CPU `tell` is called with the name of each kernel and the kernel as soon as it is scheduled.
    """
    mod = fuse_relax(mod, target, options)
    check_instructions(mod, target)
    with target:
        return _schedule(mod, target, options, tell)


@failures_named(lambda mod, *_, **__: mod)
def fuse_relax(mod: tvm.IRModule, target: Target, options: CompilerOptions) -> tvm.IRModule:
    """Return a Relax module as calls of fused kernels that have no schedules yet."""
    passes = [
        sizes_from_casts(),
        outline_branches(),
        transform.LambdaLift(),
        *kernels_for_the_target(),
        transform.ConvertToDataflow(1),
        branches_apart(),
        kernels_of_operators(),
        annotate_patterns(),
        eliminate_dead_code(),
        isolate_definitions(),
    ]
    if options.runs("FuseOps", 1):
        passes += [fuse_operators(), _fuse_kernels(), without_identities()]
    passes += [branches_back(), views_of_reshapes(), eliminate_dead_code()]
    if options.runs("NameSizes", 0):
        passes.append(name_sizes())
    if target.kind.name == "llvm" and options.runs("ShareKernels", 1):
        passes.append(share_kernels() if options.opt_level < OWN_KERNELS else share_kernels(_MANY, maps_alone=True))
    with target:
        # A Sequential would leave out at level 0 what every program needs: lifted closures, and dead code gone.
        for each in passes:
            if each.info.name not in options.disabled:
                mod = keeping_places(each)(mod) if options.config.get(FILL_SPAN) else each(mod)
        return mod


def _fuse_kernels() -> tvm.transform.Pass:
    """Return TVM's ``FuseTIR``, of which the last step takes out dead code, with vmkit's pass for that.

    Its first step takes time by the square of a function's length, and is for fused operators that take tuples.
    """
    expand, *fuse, _ = transform.FuseTIR().passes
    rest = tvm.transform.Sequential([*fuse, eliminate_dead_code()])

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return rest(expand(mod) if any(map(_takes_tuples, mod.functions.values())) else mod)

    return tvm.transform.module_pass(run, opt_level=0, name="FuseTIR")


def _takes_tuples(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, relax.Function) and any(isinstance(p.ty, relax.TupleType) for p in function.params)


def _schedule(mod: tvm.IRModule, target: Target, options: CompilerOptions, tell: Tell | None) -> tvm.IRModule:
    """Return the module with its kernels scheduled: MetaSchedule records in force first, then default rules."""
    if database_in_force() is not None:
        mod = _with_database(mod)
    if "gpu" in target.keys:
        from ..schedule import gpu

        return cut_long_loops(gpu.schedule_kernels(mod, target, choose))
    # The rules make vectors, which the generators of C and its relatives do not know.
    if target.kind.name != "llvm":
        return cut_long_loops(mod)
    return final(schedule_kernels(mod, target, choose, is_short=options.opt_level < OWN_KERNELS, tell=tell))


def _with_database(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with the kernels that the MetaSchedule database in force knows scheduled as it says."""
    before = {v.name_hint for v, f in mod.functions.items() if _is_scheduled(f)}
    mod = transform.MetaScheduleApplyDatabase(enable_warning=False)(mod)
    found = {v: f.with_attr(CHOSEN, "tuned") for v, f in mod.functions.items() if _is_scheduled(f)}
    mod.update(tvm.IRModule({v: f for v, f in found.items() if v.name_hint not in before}))
    return mod


def _is_scheduled(function: tvm.ir.BaseFunc) -> bool:
    return isinstance(function, tvm.tirx.PrimFunc) and bool(function.attrs.get("tirx.is_scheduled", False))


@failures_named(lambda mod, *_, **__: mod)
def generate_bytecode(
    mod: tvm.IRModule, target: Target, options: CompilerOptions, prefix: str = "", *, is_alone: bool = True
) -> Bytecode:
    """Return the bytecode of an optimised Relax module: memory planned, shapes computed on a heap, names resolved.

    The names of kernels begin with `prefix`; `is_alone` says whether there is no other device.
    """
    on_host = is_alone and target.kind.name == "llvm"
    passes = [
        copies_of_given_values(),
        transform.RewriteDataflowReshape(),
        merge_views(),
        eliminate_dead_code(),
        transform.ToNonDataflow(),
        transform.CallTIRRewrite(),
        fields_of_tuples(),
        # The planner takes a plain call of a packed function for a kernel, which does not keep what it is given. A
        # pure one, which values of data types are made by, must still be called by its operator here.
        plan_memory(),
        share_scaled_storage(),
        own_storage_of_branches(),
        transform.RemovePurityChecking(),
        transform.LowerAllocTensor(),
        *_grouping(target, options),
        *_rounding(target, options),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        sizes_of_parameters(),
        *([sizes_read_where_named(), quick_workspaces()] if on_host else []),
        lower_shapes(ask=target.kind.name == "llvm"),
    ]
    nodes = nodes_of_kernels(mod) if options.config.get(FILL_SPAN) else {}
    large = large_results(mod)
    with target:
        mod = tvm.transform.Sequential(passes)(with_prefix(mod, prefix) if prefix else mod)
        mod = transform.AttachGlobalSymbol()(with_prefix(mod, prefix) if prefix else mod)
    builder = relax.ExecBuilder()
    mod, constants = taken_out(mod)
    return Bytecode(builder, kernels_of(put_code(builder, mod)), constants, nodes, large, on_host=on_host)


def _grouping(target: Target, options: CompilerOptions) -> list[tvm.transform.Pass]:
    """Return what makes groups of kernels, whose parts are functions that only LLVM's code can call."""
    if target.kind.name != "llvm" or not options.groups_kernels:
        return []
    return [flags_in_kernels(), group_kernels(operating_system(str(target.attrs["mtriple"])))]


def _rounding(target: Target, options: CompilerOptions) -> list[tvm.transform.Pass]:
    """Return what makes storage of few sizes, where memory that is not written takes none."""
    return [round_storage()] if target.kind.name == "llvm" and options.runs("RoundStorage", 0) else []


@failures_named(lambda code, *_, **__: code.kernels)
def link(
    code: Bytecode,
    target: Target,
    modules: Sequence[tvm.runtime.Module] = (),
    kept: Kernels | None = None,
    *,
    in_objects: bool = False,
) -> tvm.runtime.Module | Parts:
    """Return what an executable is made of: kernels built for a target, bytecode with its self-calls made loops.

    Parameters
    ----------
    modules
        What else the bytecode calls: it becomes part of the library of kernels.
    kept
        Kernels that were built before, and where to keep others.
    in_objects
        Whether to make machine code now, and to keep that alone.
    """
    # Only LLVM's modules can be linked into one library afterwards; two of C define the same names.
    is_llvm = target.kind.name == "llvm"
    kernels, shapes = _apart(code.kernels) if is_llvm else (code.kernels, None)
    kernels = None if kernels is None else with_needs(kernels)
    if kept is not None and is_llvm and not modules and code.kernels is not None:
        linked = linked_kernels(kernels, shapes, target, kept)
        if linked is not None:
            return Parts(_program(code, target), (linked.library,), (linked.file,))
    if in_objects and is_llvm and not modules:
        objects = kernel_objects(kernels, shapes, target, partial(_in_llvm, code.kernels, target), code.ahead)
        if objects is not None:
            return Parts(_program(code, target), (), objects=objects)
    if is_llvm:
        own = _libraries(kernels, shapes, target)
        built = link_executable(code.builder, target, None, PIPELINE)
    else:
        if kernels is not None:
            zeros = target.kind.name != "c"
            changed = {v: with_float_algebra(f, zeros=zeros) for v, f in kernels.functions.items()}
            kernels = with_functions(kernels, changed)
        built = link_executable(code.builder, target, kernels, "default")
        # Where there is no kernel, TVM puts an empty file of C in its place, which would have to be compiled.
        own = () if kernels is None else tuple(built.imports)
    libraries = _with_modules(own, modules) if modules else own
    text = bytecode.blob_of(built)
    looped = _finished(text, code.large, code.on_host)
    if code.constants:
        return Parts(put_back(bytecode.decode(looped), code.constants), libraries)
    return built if looped == text and own and not is_llvm else bytecode.module_of(looped, libraries)


def _program(code: Bytecode, target: Target) -> bytecode.Program:
    """Return the bytecode of a program whose kernels are built by themselves."""
    plain = link_executable(code.builder, target, None, PIPELINE)
    return put_back(bytecode.decode(_finished(bytecode.blob_of(plain), code.large, code.on_host)), code.constants)


def _in_llvm(functions: tvm.IRModule | None, target: Target) -> tuple[tvm.runtime.Module, ...]:
    """Return the libraries of kernels once more, in the form that LLVM holds."""
    kernels, shapes = _apart(functions)
    return _libraries(None if kernels is None else with_needs(kernels), shapes, target)


def _finished(text: bytes, large: Collection[str], on_host: bool) -> bytes:
    """Return bytecode whose self-calls are loops, and whose functions of large results let go of the last ones."""
    program = with_releases(with_loops(bytecode.decode(text)), large)
    return bytecode.encode(with_integer_tensors(program) if on_host else program)


def _libraries(
    kernels: tvm.IRModule | None, shapes: tvm.IRModule | None, target: Target
) -> tuple[tvm.runtime.Module, ...]:
    """Return the library of what is built for LLVM, which imports the others that it is made of; none of nothing."""
    most = cores_to_use()
    if kernels is not None and "wasm" in str(target.attrs.get("mtriple", "")):
        # There a library is linked into the program that runs it, and registers its functions when that starts.
        kernels, most = kernels.with_attr("system_lib_prefix", ""), 1
    mods = [] if kernels is None else modules_of(kernels, most)
    with_pool = has_pool(target) and any(map(shares_work, mods))
    if with_pool:
        mods = [with_slot(mod, number) for number, mod in enumerate(mods)]
    units = [(mod, PIPELINE) for mod in mods]
    if shapes is not None:
        units.append((shapes, SHAPES))
    made = list(on_all_cores(lambda unit: tvm.tirx.build(unit[0], code_target(target, unit[0]), unit[1]), units))
    if with_pool:
        made.append(pool_library(target))
    for each in made[1:]:
        made[0].import_module(each)
    return tuple(made[:1])


def _with_modules(
    libraries: tuple[tvm.runtime.Module, ...], modules: Sequence[tvm.runtime.Module]
) -> tuple[tvm.runtime.Module, ...]:
    """Return libraries, the first of which imports other modules: where there are none, the first of those does."""
    first, *others = (*libraries[:1], *modules)
    for each in others:
        first.import_module(each)
    return (first, *libraries[1:])


def link_marked(kernels: tvm.IRModule, target: Target) -> tuple[tvm.runtime.Module, ...]:
    """Return the libraries of kernels once more, of groups that tell a profiler when each of their kernels has run."""
    marked, shapes = _apart(with_marks(kernels))
    return _libraries(marked, shapes, target)


def kernel_hashes(kernels: tvm.IRModule | None) -> dict[str, str]:
    """Return a digest of what each kernel computes and how, by its name: equal for equal kernels of one process."""
    named = kernel_functions(kernels).items()
    return {name: f"{tvm_ffi.structural_hash(f) & (1 << 64) - 1:016x}" for name, f in named}


def kernel_functions(kernels: tvm.IRModule | None) -> dict[str, tvm.tirx.PrimFunc]:
    """Return the kernels of a module by their names."""
    functions = {} if kernels is None else kernels.functions
    return {gvar.name_hint: f for gvar, f in functions.items() if isinstance(f, tvm.tirx.PrimFunc)}


def _apart(mod: tvm.IRModule | None) -> tuple[tvm.IRModule | None, tvm.IRModule | None]:
    """Return the kernels of a module and the functions that compute shapes, each None where there are none.

    Compiled in one module with a shape function, a kernel comes out of LLVM several times slower.
    """
    if mod is None:
        return None, None
    shapes = {v: f for v, f in mod.functions.items() if f.attrs.get("tirx.is_host_func", False)}
    kernels = {v: f for v, f in mod.functions.items() if v not in shapes}
    return (
        tvm.IRModule(kernels, attrs=mod.attrs) if kernels else None,
        tvm.IRModule(shapes, attrs=mod.attrs) if shapes else None,
    )
