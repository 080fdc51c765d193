"""Reshapes copy nothing, whatever their sizes, but where a function would return what it was given, or memory twice.

TVM makes a view of a reshape only where its kernel takes no sizes beside the tensor and its value stays in a dataflow
block; the others it leaves as copies. Here a reshape whose unknown sizes come first before and after becomes a kernel,
which others fuse with, marked so that it is found again where none did. Any other over unknown sizes stays an operator:
nothing fuses with its kernel, which divides by each of the sizes to find an element, and the time that TVM takes to
simplify that is exponential in their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import prod

import tvm
from tvm import ir, relax, s_tir, te, tirx, topi
from tvm.sym import Analyzer
from tvm.tirx.buffer import is_buffer_var

from .._tvm import retyped
from ..relay.ir import dims
from .aliases import is_call
from .rewrite import (
    bindings_of,
    on_bindings,
    on_functions,
    substituted,
    variables_in,
    with_branches,
    with_functions,
)

__all__ = ["copies_of_given_values", "legalizations", "only_reshapes", "views_of_reshapes"]

_MARK = "vmkit.reshape"
_RESHAPE, _CALL_TIR = "relax.reshape", "relax.call_tir"
_CALL_PACKED = "relax.call_pure_packed"
_READERS = (_CALL_TIR, "relax.call_dps_packed")  # what they call keeps none of the tensors that it is given


def legalizations() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Return for one run of ``LegalizeOps`` how reshapes become kernels, those of equal known sizes the same."""
    made: dict[tuple[str, Sequence[int], Sequence[int]], ir.GlobalVar] = {}

    def marked(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        data, shape = call.args
        if not isinstance(shape, relax.ShapeExpr) or data.ty.vdevice is not None:
            return _marked_reshape(builder, data, shape, call)
        before, after = list(data.ty.shape), list(shape)
        if not all(isinstance(d, tirx.IntImm) for d in (*before, *after)):
            return _marked_reshape(builder, data, shape, call)
        key = str(data.ty.dtype), tuple(map(int, before)), tuple(map(int, after))
        if key not in made:
            kernel = _marked_reshape(builder, data, shape, call)
            made[key] = kernel.args[0]
            return kernel
        return relax.op.call_tir(made[key], [data], relax.TensorType(after, data.ty.dtype))

    return {_RESHAPE: marked}


def _marked_reshape(builder: relax.BlockBuilder, data: relax.Expr, shape: relax.Expr, call: relax.Call) -> relax.Expr:
    if isinstance(shape, relax.Var):
        shape = builder.lookup_binding(shape)
    before, after = list(data.ty.shape), list(shape)
    kept = _equal_first(before, after)
    if not all(isinstance(d, tirx.IntImm) for d in (*before[kept:], *after[kept:])):
        return call

    def kernel(tensor: te.Tensor) -> te.Tensor:
        return _reshape(tensor, after, kept)

    return builder.call_te(kernel, data, primfunc_name_hint="reshape_tensor", primfunc_attrs={_MARK: 1})


def _reshape(data: te.Tensor, shape: Sequence[tirx.Expr], kept: int) -> te.Tensor:
    """Return a tensor in another shape, of which the first `kept` dimensions are those before.

    Elements are counted over as few axes as can be, for TVM does not see that what it counted so is an index again. A
    size that is unknown is not among them: TVM fuses a kernel whose indices depend on sizes with none.
    """
    before, after = [int(d) for d in list(data.shape)[kept:]], [int(d) for d in shape[kept:]]
    if 0 in before:
        return topi.reshape(data, shape)
    groups = _regrouped(before, after)

    def element(*index: tirx.Expr) -> tirx.Expr:
        own: list[tirx.Expr | int] = []
        for old, new in groups:
            place: tirx.Expr | int = 0
            for at in new:
                place = place * after[at] + index[kept + at]
            within: list[tirx.Expr | int] = []
            for size in reversed([before[at] for at in old[1:]]):
                within.insert(0, tirx.indexmod(place, size))
                place = tirx.indexdiv(place, size)
            own += [place, *within] if old else []
        return data(*index[:kept], *own)

    return te.compute(shape, element, name="T_reshape", tag="injective")


def _regrouped(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the axes of two shapes of as many elements in groups of as many elements, which are as small as can be."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        old, new = before[i : i + 1], after[j : j + 1]
        if old == [1] and new != [1]:
            new = []
        elif new == [1] and old != [1]:
            old = []
        while prod(old) != prod(new):
            if prod(old) < prod(new):
                old = before[i : i + len(old) + 1]
            else:
                new = after[j : j + len(new) + 1]
        groups.append(([*range(i, i + len(old))], [*range(j, j + len(new))]))
        i, j = i + len(old), j + len(new)
    return groups


def _equal_first(before: Sequence[tirx.Expr], after: Sequence[tirx.Expr]) -> int:
    """Return how many first dimensions two shapes have in common."""
    analyzer = Analyzer()
    pairs = enumerate(zip(before, after, strict=False))
    differs = (at for at, (a, b) in pairs if not analyzer.can_prove_equal(a, b))
    return next(differs, min(len(before), len(after)))


def views_of_reshapes() -> tvm.transform.Pass:
    """Return the pass that makes views of reshapes, to be run when operators are fused and have no schedules yet.

    What leaves the function by another way than as an argument of a kernel is a copy, for it may be a view of what the
    function was given; but it is a view of what a kernel wrote, unless that is a result itself.
    """
    return tvm.transform.module_pass(lambda mod, _: _Views(mod).rewritten(), opt_level=0, name="ViewsOfReshapes")


def copies_of_given_values() -> tvm.transform.Pass:
    """Return the pass, to be run before ``RewriteDataflowReshape``, that keeps results from being views of inputs.

    TVM makes views of all reshapes whose values stay in a dataflow block, where tuples of results are made, too.
    """
    return tvm.transform.module_pass(lambda mod, _: _with_own_results(mod), opt_level=0, name="CopiesOfGivenValues")


def _with_own_results(mod: tvm.IRModule) -> tvm.IRModule:
    kernels = {gvar for gvar, each in mod.functions.items() if isinstance(each, tirx.PrimFunc) and only_reshapes(each)}

    def sequence(whole: relax.SeqExpr) -> relax.SeqExpr:
        leaving = _leaving(whole)
        own: set[ir.Var] = set()
        renamed: dict[ir.Var, relax.Var] = {}
        for binding in bindings_of(whole):
            value, var = binding.value, binding.var
            if is_call(value, _CALL_TIR) and not (value.args[0] in kernels and value.args[1].fields[0] not in own):
                own.add(var)
            elif is_call(value, _CALL_TIR) and var in leaving and isinstance(var, relax.DataflowVar):
                renamed[var] = relax.Var(var.name, var.ty)  # what leaves its block is no view to TVM
        return on_bindings(whole, lambda each: [_renamed(with_branches(each, sequence), renamed)])

    return on_functions(mod, lambda _, function: sequence(function.body)) if kernels else mod


def _renamed(binding: relax.Binding, names: Mapping[ir.Var, relax.Var]) -> relax.Binding:
    value = substituted(binding.value, names)
    if binding.var in names:
        return relax.VarBinding(names[binding.var], value)
    if value.same_as(binding.value):
        return binding
    if isinstance(binding, relax.MatchCast):
        return relax.MatchCast(binding.var, value, binding.ty)
    return relax.VarBinding(binding.var, value)


def only_reshapes(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel only gives elements another shape."""
    is_of_blocks = isinstance(kernel.body, s_tir.SBlockRealize)  # others are written out as loops
    # TVM proves that indices are equal, which takes long where it cannot be so.
    is_of_one = sum(map(is_buffer_var, kernel.params)) == 2
    if not (is_of_blocks and is_of_one):
        return False
    try:
        return bool(relax.analysis.has_reshape_pattern(kernel))
    except tvm.error.InternalError:  # its arithmetic fails for some tiles of dimensions that are sums
        return False


class _Views:
    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.reshapes = {gvar for gvar, function in mod.functions.items() if _is_reshape(function)}
        self.names = {gvar.name_hint for gvar in mod.get_global_vars()}
        self.copies: dict[tuple[object, ...], ir.GlobalVar] = {}
        self.made: dict[ir.GlobalVar, tirx.PrimFunc] = {}

    def rewritten(self) -> tvm.IRModule:
        """Return the module with views, and the kernels of copies."""
        return with_functions(on_functions(self.mod, lambda _, function: self.sequence(function.body)), self.made)

    def sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return the body of a function or branch with views."""
        leaving = _leaving(sequence)
        own: dict[ir.Var, ir.Var] = {}  # by tensors that kernels write here, and by views of them: those tensors
        given: set[ir.Var] = set()  # the ones of them that leave as a view

        def change(binding: relax.Binding) -> list[relax.Binding]:
            call = binding.value
            if not isinstance(binding, relax.VarBinding) or isinstance(call, relax.If):
                return [with_branches(binding, self.sequence)]
            is_operator, is_kernel = is_call(call, _RESHAPE), _calls(call, self.reshapes)
            if not (is_operator or is_kernel):
                if is_call(call, _CALL_TIR) and binding.var not in leaving:
                    own[binding.var] = binding.var
                return [binding]
            source = call.args[0] if is_operator else call.args[1].fields[0]
            home = own.get(source)
            if binding.var not in leaving:
                if home is not None:
                    own[binding.var] = home
            elif home is None or home in given:  # results share no memory either
                return self.copied(binding) if is_operator else [binding]
            else:
                given.add(home)
            view = call if is_operator else retyped(relax.op.reshape(source, call.ty.shape), call.ty)
            return [relax.VarBinding(binding.var, view)]

        return on_bindings(sequence, change)

    def copied(self, binding: relax.VarBinding) -> list[relax.Binding]:
        """Return a reshape as the copy of a view in one dimension, from where no element's place is a quotient."""
        call = binding.value
        data, ty = call.args[0], call.ty
        count = dims.as_expr(dims.product(list(data.ty.shape.values)))
        flat_type = relax.TensorType([count], ty.dtype, data.ty.vdevice)
        flat = relax.Var("flat", flat_type)
        view = retyped(relax.op.reshape(data, relax.ShapeExpr([count])), flat_type)
        shape = list(ty.shape.values)
        # As Relay has two operators: one by the sizes of what it is given, one by sizes that data tell.
        told = not {*dims.symbols(shape)} <= {*dims.symbols(list(data.ty.shape.values))}
        name = "dyn_reshape_tensor" if told else "reshape_copy"
        copy = relax.call_tir(self.copy(name, str(ty.dtype), shape), [flat], ty)
        return [relax.VarBinding(flat, view), relax.VarBinding(binding.var, retyped(copy, ty))]

    def copy(self, name: str, dtype: str, shape: Sequence[tirx.Expr]) -> ir.GlobalVar:
        """Return the kernel that copies a tensor of one dimension into another shape, one for all of a rank."""
        known = tuple(int(d) if isinstance(d, tirx.IntImm) else None for d in shape)
        key = (name, dtype, known)
        if key not in self.copies:
            sizes = [tirx.Var("s", "int64") if size is None else size for size in known]

            def element(*index: tirx.Expr) -> tirx.Expr:
                place: tirx.Expr = tirx.IntImm("int64", 0)
                for at, size in zip(index, sizes, strict=True):
                    place = place * size + at
                return flat(place)

            flat = te.placeholder([tirx.Var("count", "int64")], dtype, name="flat")
            result = te.compute([dims.as_expr(size) for size in sizes], element, name=name)
            kernel = te.create_prim_func([flat, result]).with_attrs({"tirx.noalias": True})
            self.copies[key] = retyped(ir.GlobalVar(self.name(name)), kernel.ty)
            self.made[self.copies[key]] = kernel
        return self.copies[key]

    def name(self, base: str) -> str:
        """Return a name that no function of the module has yet."""
        names = itertools.chain([base], (f"{base}{k}" for k in itertools.count(1)))
        name = next(name for name in names if name not in self.names)
        self.names.add(name)
        return name


def _leaving(sequence: relax.SeqExpr) -> set[ir.Var]:
    """Return the variables whose memory something else than kernels and views may keep, or the sequence gives.

    An operator in a dataflow block reads its arguments, as a kernel does, unless it calls what is not known.
    """
    found = set(variables_in(sequence.body))
    for binding in reversed(list(bindings_of(sequence))):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name in (_RESHAPE, *_READERS):
            continue
        read = variables_in(value)
        if _is_alias(value):
            found.update(read if binding.var in found else ())
        elif isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and not is_call(value, _CALL_PACKED):
            found.update(each for each in read if not isinstance(each, relax.DataflowVar))
        else:
            found.update(read)
    return found


def _is_alias(value: relax.Expr) -> bool:
    """Say whether a value is another name of what it reads, or holds it."""
    if is_call(value, _CALL_PACKED):
        return value.args[0].global_symbol == "vm.builtin.copy"
    return isinstance(value, ir.Var | relax.Tuple | relax.TupleGetItem)


def _is_reshape(function: ir.BaseFunc) -> bool:
    return isinstance(function, tirx.PrimFunc) and _MARK in function.attrs


def _calls(value: relax.Expr, kernels: set[ir.GlobalVar]) -> bool:
    return is_call(value, _CALL_TIR) and value.args[0] in kernels and hasattr(value.ty, "shape")
