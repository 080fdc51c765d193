"""Sizes of kernels as plain variables: a kernel over ``(n - 1) // 4 + 1`` positions is one over ``s`` positions.

Every index of such a kernel would have the division in it, and no pass of TVM or LLVM that looks at indices gets
through them in good time, nor proves that a tile ends with its axis. A kernel that only knows how many positions there
are is also the same one at several places of a network, and is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.sym import Analyzer
from tvm.tirx.buffer import is_buffer_var

from .._dataclasses import dataclass
from .._tvm import retyped
from ..kernels.builder import with_fields
from ..relay.ir.dims import structural_key
from .kernel_uses import calls_in, only_called, results_of, with_kernels
from .rewrite import exchanged, substituted, variables_in
from .views import only_reshapes

__all__ = ["name_sizes"]


def name_sizes() -> tvm.transform.Pass:
    """Return the pass that gives sizes names in kernels, and makes one of kernels that are equal then.

    To be run when kernels are fused and not scheduled yet.
    """
    return tvm.transform.module_pass(lambda mod, _: _named(mod), opt_level=0, name="NameSizes")


@dataclass(frozen=True)
class _Renamed:
    """A kernel whose sizes have names.

    Attributes
    ----------
    kernel : PrimFunc
        It takes the numbers among the parameters of the old one that it still needs, and `sizes` after them.
    old : PrimFunc
        The kernel before.
    dropped : frozenset of int
        The positions of parameters that it does not take any more.
    sizes : tuple of Expr
        What it is given in addition, over symbols of the old one.
    """

    kernel: tirx.PrimFunc
    old: tirx.PrimFunc
    dropped: frozenset[int]
    sizes: tuple[tirx.Expr, ...]

    def args(self, args: Sequence[relax.Expr], results: Sequence[relax.Type]) -> list[relax.Expr]:
        """Return what the kernel is called with where the old one was called with `args`."""
        kept = [arg for position, arg in enumerate(args) if position not in self.dropped]
        if not self.sizes:
            return kept
        inputs = len(args)
        values = {p: arg for p, arg in zip(self.old.params[:inputs], args, strict=True) if not is_buffer_var(p)}
        types = [*(arg.ty for arg in args), *results]
        for param, ty in zip(self.old.params, types, strict=True):
            told = zip(param.ty.shape, ty.shape.values, strict=True) if is_buffer_var(param) else ()
            values.update((size, value) for size, value in told if isinstance(size, ir.Var))
        return [*kept, *(substituted(size, values) for size in self.sizes)]


def _named(mod: tvm.IRModule) -> tvm.IRModule:
    calls = [call for function in mod.functions.values() for call in calls_in(function)]
    inputs = {call.args[0]: len(call.args[1].fields) for call in calls}
    known = only_called(mod, calls)
    made = {gvar: _renamed(mod[gvar], count) for gvar, count in inputs.items() if gvar in known}
    renamed = {gvar: each for gvar, each in made.items() if each is not None}
    if not renamed:
        return mod
    names = _kernel_names({gvar: each.kernel for gvar, each in renamed.items()})

    def args(call: relax.Call) -> list[relax.Expr]:
        return renamed[call.args[0]].args(list(call.args[1].fields), results_of(call))

    return with_kernels(mod, {gvar: each.kernel for gvar, each in renamed.items()}, names, args)


def _kernel_names(kernels: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> dict[ir.GlobalVar, ir.GlobalVar]:
    """Return a name for each kernel, whose parameters are others now; one name for all that are equal."""
    found: dict[tvm_ffi.StructuralKey, ir.GlobalVar] = {}
    names: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for gvar, kernel in kernels.items():
        own = retyped(ir.GlobalVar(gvar.name_hint), kernel.ty)
        names[gvar] = found.setdefault(structural_key(kernel), own)
    return names


def _renamed(kernel: tirx.PrimFunc, inputs: int) -> _Renamed | None:
    """Return a kernel with names for its sizes; None where they are plain already.

    Parameters
    ----------
    kernel : PrimFunc
        A kernel of call_tir: its inputs and then its results are its parameters.
    inputs : int
        How many of its parameters are inputs.
    """
    names = _names_of(_sizes_of(kernel.params), _reduces(kernel))
    if not names or only_reshapes(kernel):
        return None  # its sizes tell later passes that it only reshapes
    made = _with_names(kernel, names)
    shapes = _sizes_of(made.params)
    told = {size for size in shapes if isinstance(size, ir.Var)}
    used = set(variables_in(made.body, *shapes))
    given = {name: size for size, name in names if isinstance(name, ir.Var) and name in used and name not in told}
    numbers = {at for at, param in enumerate(made.params[:inputs]) if not is_buffer_var(param)}
    dropped = frozenset(at for at in numbers if made.params[at] not in used)
    params = [param for at, param in enumerate(made.params[:inputs]) if at not in dropped]
    params += [*given, *made.params[inputs:]]
    function = tirx.PrimFunc(params, made.body, made.ret_type, made.attrs)
    return _Renamed(function, kernel, dropped, tuple(given.values()))


def _sizes_of(params: Sequence[ir.Var]) -> list[tirx.Expr]:
    return [size for param in params if is_buffer_var(param) for size in param.ty.shape]


def _atoms_in(size: tirx.Expr) -> list[tirx.Expr]:
    """Return the symbols, quotients, choices and the like of whose sums and products a size is made."""
    if isinstance(size, tirx.Add | tirx.Sub | tirx.Mul):
        return [*_atoms_in(size.a), *_atoms_in(size.b)]
    return [] if isinstance(size, tirx.IntImm) else [size]


def _without_constant(size: tirx.Expr) -> tuple[tirx.Expr, int]:
    """Return a size as a sum of an expression and a constant, which TVM writes last."""
    if isinstance(size, tirx.Add | tirx.Sub) and isinstance(size.b, tirx.IntImm):
        return size.a, int(size.b) if isinstance(size, tirx.Add) else -int(size.b)
    return size, 0


def _reduces(kernel: tirx.PrimFunc) -> bool:
    kinds: list[int] = []

    def note(block: s_tir.SBlock) -> None:
        kinds.extend(axis.iter_type for axis in block.iter_vars)

    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, note))
    return tirx.IterVar.CommReduce in kinds


def _names_of(sizes: Sequence[tirx.Expr], reduces: bool) -> list[tuple[tirx.Expr, tirx.Expr]]:
    """Return what stands for sizes, and for what they are made of, the largest first.

    A size that differs from a quotient by a constant alone tells the quotient, and so what else is made of it. Where
    not all is told that a size is made of, it is a variable as a whole, and the kernel may have to be given the rest.
    So is every size of a kernel that reduces, whose positions are cut into tiles; one that only moves elements may
    have parts whose sizes are told by differences.
    """
    told: dict[tvm_ffi.StructuralKey, tuple[tirx.Expr, tirx.Expr]] = {}

    def tell(size: tirx.Expr, constant: int = 0) -> None:
        name = tirx.Var("s", "int64")
        told.setdefault(structural_key(size), (size, name - constant if constant else name))

    compound = list(
        {structural_key(size): size for size in sizes if not isinstance(size, ir.Var | tirx.IntImm)}.values()
    )
    others = []
    for size in compound:
        part, constant = _without_constant(size)
        if isinstance(part, ir.Var | tirx.Add | tirx.Sub | tirx.Mul) or structural_key(part) in told:
            others.append(size)
        else:
            tell(part, constant)
    known = {*told, *(structural_key(size) for size in sizes if isinstance(size, ir.Var))}
    for size in others:
        part, constant = _without_constant(size)
        if isinstance(part, ir.Var) or structural_key(part) in known:
            if reduces:
                tell(size)
        elif reduces or any(structural_key(atom) not in known for atom in _atoms_in(size)):
            tell(part, constant)
    for atom in (atom for size in compound for atom in _atoms_in(size)):
        if not isinstance(atom, ir.Var):
            tell(atom)
    return sorted(told.values(), key=lambda pair: -_length(pair[0]))


def _length(size: tirx.Expr) -> int:
    parts: list[ir.Expr] = []
    tvm_ffi.structural_walk(size, (ir.Expr, parts.append))
    return len(parts)


def _with_names(kernel: tirx.PrimFunc, names: Sequence[tuple[tirx.Expr, tirx.Expr]]) -> tirx.PrimFunc:
    """Return a kernel with names in the place of sizes, the larger ones first."""
    for size, name in names:
        kernel = exchanged(kernel, size, name)
    new = set(variables_in(*(name for _, name in names)))

    def simple(total: tirx.Expr) -> tirx.Expr:
        is_size = str(total.ty.dtype) == "int64" and not new.isdisjoint(variables_in(total))
        return Analyzer().simplify(total) if is_size else total

    kernel = tvm_ffi.structural_map(kernel, ((tirx.Add, simple), (tirx.Sub, simple)))
    return tvm_ffi.structural_map(kernel, (s_tir.SBlock, _with_regions))


def _with_regions(block: s_tir.SBlock) -> s_tir.SBlock:
    """Return a block that says it reads and writes what its statement does, over no symbol that is not in that.

    TVM says what a block touches in expressions of its own, in which a size may not be found any more.
    """
    if not isinstance(block.body, tirx.BufferStore):
        return block
    regions = [*block.reads, *block.writes]
    symbols = set(variables_in(*(r for region in regions for r in region.region)))
    own = [axis.var for axis in block.iter_vars]
    if symbols <= {*own, *variables_in(block.body)}:
        return block
    reads, writes, _ = s_tir.analysis.get_sblock_access_region(block, {r.source: r.source for r in regions})
    return with_fields(block, reads=reads, writes=writes)
