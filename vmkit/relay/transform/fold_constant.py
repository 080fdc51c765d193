"""Constant folding: what depends on constants alone is computed when compiling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import inf, prod
from typing import Any

import tvm
import tvm_ffi

from ...values.element_types import stored_type
from ..analysis.infer_type import infer_changed, infer_module, inferred, typed
from ..ir import (
    DEVICE_PART,
    Call,
    Constant,
    Function,
    If,
    Let,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    children,
    free_vars,
    is_call,
    post_order,
    rewrite,
    with_functions,
)
from ..ir.places import noted
from ..op.attrs import Attrs
from ..op.constant_arrays import with_known_values
from ..op.registry import entry
from ..op.storage import is_stored_constant, stored_constant
from .common_subexpressions import without_common_subexpressions
from .evaluation import Evaluate, evaluate_now
from .known_type import with_type_of
from .known_values import decided, is_size, without_lets
from .registry import ModuleTransform, is_changeable, relay_pass

__all__ = ["GROWTH_BYTES", "FoldConstant", "FoldConstantExpr", "fold_constants", "is_partly_folded"]

# A folded value may be larger than what it is computed from by this much before it is left to run time: a constant
# broadcast to a large shape costs more to store than to compute.
GROWTH_BYTES = 1 << 20
# Kernels for convolutions take constant weights alone; with others they are slow, by more than a weight costs to store:
# so much of one may be made by broadcasting.
_WEIGHT_GROWTH_BYTES = 1 << 22
# Of dense layers, whose weights are larger, numbers of 16 bits are widened once, and not by each call.
_CONVOLUTIONS = frozenset(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose"))
_HALVES = ("float16", "bfloat16")


# Says of a module what is left to the next run: expressions, or none where that is to look for them.
_PARTLY_FOLDED = "vmkit.partly_folded"
# Parts of what is folded: the least bytes of one, which small models are folded in, and how many there are at most.
_PART_BYTES, _PARTS = 1 << 23, 8
# The least bytes of a part that a program computes, which has to be compiled first.
_RUN_BYTES = 1 << 26


@relay_pass(opt_level=2)
def FoldConstant(
    fold_qnn: bool = False, *, evaluate: Evaluate = evaluate_now, in_parts: bool = False, halves: Sequence[str] = ()
) -> ModuleTransform:
    """Return the pass that computes what depends on constants alone; see :func:`fold_constants`.

    Parameters
    ----------
    fold_qnn : bool
        Whether operators of quantised numbers on constants are computed, too.
    evaluate : callable
        Runs a module without parameters; by default it is compiled for this machine.
    in_parts : bool
        Whether to fold a part of many large constants, and to leave others to the next run, as
        :func:`is_partly_folded` says. Who drops the module before the next run holds a part of the constants twice at
        most, not all.
    halves : sequence of str
        Types of 16 bits from which large weights that dense layers alone read stay casts: a later pass packs them in
        these types, and float32 would be four times the numbers in memory until then, with what is packed of it.
    """
    return lambda mod: fold_constants(typed(mod), evaluate, fold_qnn, in_parts, halves)


def FoldConstantExpr(expr: RelayExpr, mod: tvm.IRModule, fold_qnn: bool = False) -> RelayExpr:
    """Return an expression (or function) over a module with what depends on constants alone computed."""
    is_function = isinstance(expr, Function)
    place = tvm.ir.GlobalVar("the expression")
    over = with_functions(mod)
    over[place] = expr if is_function else Function(free_vars(expr), expr)
    folded = fold_constants(inferred(over), evaluate_now, fold_qnn)[place]
    return folded if is_function else folded.body


def is_partly_folded(mod: tvm.IRModule) -> bool:
    """Say whether the pass that folds in parts has left some of a module's constants to its next run."""
    return mod.attrs is not None and _PARTLY_FOLDED in mod.attrs


def fold_constants(
    mod: tvm.IRModule,
    evaluate: Evaluate,
    fold_qnn: bool = True,
    in_parts: bool = False,
    halves: Sequence[str] = (),
) -> tvm.IRModule:
    """Return a typed module in which calls of operators on constants are constants.

    Parameters
    ----------
    mod : tvm.IRModule
        The Relay module, its types inferred.
    evaluate : callable
        Runs ``main`` of a module without parameters and returns the fields of its tuple result as tensors on the CPU.
        All values of the module are computed in one such run.
    fold_qnn : bool
        Whether operators of quantised numbers on constants are computed, too.
    in_parts : bool
        Whether to leave some to the next call; see :func:`FoldConstant`.
    halves : sequence of str
        Types from which casts of large weights stay; see :func:`FoldConstant`.
    """
    wanted: Sequence[RelayExpr] = ()
    if is_partly_folded(mod):
        wanted = list(mod.attrs[_PARTLY_FOLDED])
        mod = mod.without_attr(_PARTLY_FOLDED)
    is_settled = bool(wanted) or not any(map(_has_lets_or_choices, filter(is_changeable, mod.functions.values())))
    if not is_settled:
        mod = _on_functions(mod, decided)
        mod = _on_functions(mod, lambda function: without_lets(function, _constant_lets(function, fold_qnn)))
    if not wanted:
        functions = [f for f in mod.functions.values() if is_changeable(f) and not f.attrs.get(DEVICE_PART)]
        wanted = _foldable(functions, fold_qnn, halves)
    if not wanted:
        return mod
    tensors = {e: _tensors(e) for e in wanted}
    largest = inf
    if in_parts:
        largest = max(_PART_BYTES, sum(_bytes_of(e.checked_type) or 0 for e in wanted) // _PARTS)
    values, is_whole = _evaluated(tensors, evaluate, largest)
    known = {e: [values[part] for part in parts] for e, parts in tensors.items() if all(p in values for p in parts)}
    folded = {e: _folded(e.checked_type, parts) for e, parts in known.items()}
    # Where constants are of the types that were known, so is what is computed from them.
    replace = with_type_of if all(_are_of(e.checked_type, parts) for e, parts in known.items()) else None
    mod = _on_functions(mod, lambda function: rewrite(function, folded, replace))
    if not is_settled:
        mod = _on_functions(mod, decided)
    if is_whole:
        return mod
    left = [e for e in wanted if e not in folded]
    # What is left is the same nodes in the new module where it is computed from nothing that is a constant now.
    is_same = is_settled and noted() is None and not any(node in folded for node in post_order(Tuple(left)))
    return mod.with_attr(_PARTLY_FOLDED, left if is_same else [])


def _evaluated(
    groups: Mapping[RelayExpr, Sequence[RelayExpr]], evaluate: Evaluate, largest: float
) -> tuple[dict[RelayExpr, RelayExpr], bool]:
    """Return the values of the tensors of expressions, of equal ones once, and whether these are all.

    What numpy does not compute as kernels do is computed in one run of a program, when numpy has computed all that it
    does. In one call of this `largest` bytes are computed, and at least one expression's.
    """
    tensors = [tensor for group in groups.values() for tensor in group]
    wanted = list(without_common_subexpressions(Function([], Tuple(tensors))).body.fields)
    made, is_whole = with_known_values(Tuple(list(dict.fromkeys(wanted))), largest)
    values: dict[RelayExpr, RelayExpr] = dict(made)
    rest: list[RelayExpr] = []
    if is_whole:
        rest, is_whole = _next_run(groups, wanted, values, max(largest, _RUN_BYTES))
    if rest:
        mod = infer_module(tvm.IRModule({"main": Function([], rewrite(Tuple(rest), values))}))
        types = mod["main"].checked_type.ret_type.fields
        run = (stored_constant(value, ty.dtype) for value, ty in zip(evaluate(mod), types, strict=True))
        values.update(zip(rest, run, strict=True))
    return {each: values[one] for each, one in zip(tensors, wanted, strict=True) if one in values}, is_whole


def _next_run(
    groups: Mapping[RelayExpr, Sequence[RelayExpr]],
    wanted: Sequence[RelayExpr],
    values: Container[RelayExpr],
    largest: float,
) -> tuple[list[RelayExpr], bool]:
    """Return what of the tensors of expressions, `wanted`, a program computes next, and whether that is the rest."""
    rest: dict[RelayExpr, None] = {}
    made, start = 0, 0
    for expr, group in groups.items():
        new = [e for e in wanted[start : start + len(group)] if e not in values and e not in rest]
        start += len(group)
        if new and made >= largest:
            return list(rest), False
        rest.update(dict.fromkeys(new))
        made += (_bytes_of(expr.checked_type) or 0) if new else 0
    return list(rest), True


def _on_functions(mod: tvm.IRModule, change: Callable[[Function], Function]) -> tvm.IRModule:
    """Return a typed module with functions changed; the same module where none of them is."""
    changed = {v: change(f) for v, f in mod.functions.items() if is_changeable(f)}
    if all(f.same_as(mod.functions[v]) for v, f in changed.items()):
        return mod
    return infer_changed(with_functions(mod, {**dict(mod.functions.items()), **changed}))


def _has_lets_or_choices(function: Function) -> bool:
    """Say whether there is something in a function that what is known may decide."""
    return any(isinstance(node, If | Let) or is_size(node) for node in post_order(function))


def _are_of(ty: Type, constants: Sequence[RelayExpr]) -> bool:
    """Say whether constants are of a type, or of the types of a tuple's fields."""
    types = ty.fields if isinstance(ty, TupleType) else [ty]
    return all(
        isinstance(constant, Constant) and tvm_ffi.structural_equal(constant.checked_type, each)
        for constant, each in zip(constants, types, strict=True)
    )


def _constant_lets(function: Function, fold_qnn: bool) -> dict[Var, RelayExpr]:
    """Return the variables that Lets bind to what depends on constants alone, in the order of evaluation."""
    variables = defaultdict[Any, list[Any]](list)
    for node in post_order(function):
        if isinstance(node, Let):
            variables[node.value].append(node.var)
    sizes: dict[Any, int] = {}
    found: dict[Any, Any] = {}
    weights = _weights(post_order(function)) if variables else set()
    # A value is met before what reads its variable, so one walk is enough.
    for node in post_order(function) if variables else ():
        if _note_size(node, sizes, fold_qnn, weights):
            for variable in variables.get(node, ()):
                sizes[variable] = sizes[node]
                found[variable] = node
    return found


def _foldable(functions: Iterable[Function], fold_qnn: bool, halves: Sequence[str]) -> list[RelayExpr]:
    """Return the largest expressions of tensors, or tuples of them, that depend on constants alone, each once."""
    sizes: dict[Any, int] = {}
    wanted: dict[Any, None] = {}
    for function in functions:
        nodes = list(post_order(function))
        weights = _weights(nodes)
        kept = _kept_halves(nodes, halves) if halves else set()
        for node in nodes:
            if node not in kept and _note_size(node, sizes, fold_qnn, weights):
                continue
            for child in children(node):
                parts = child.fields if isinstance(child, Tuple) else [child]
                wanted.update((p, None) for p in parts if p in sizes and _is_computed(p))
    return list(wanted)


def _weights(nodes: Iterable[RelayExpr]) -> set[RelayExpr]:
    """Return what weights of floating-point products are made of, which may be of a wider type."""
    found: set[RelayExpr] = set()
    for node in nodes:
        is_conv = is_call(node, *_CONVOLUTIONS)
        if not (is_conv or is_call(node, "nn.dense")) or "float" not in node.args[1].checked_type.dtype:
            continue
        waiting, made = [node.args[1]], set[RelayExpr]()
        while waiting:
            each = waiting.pop()
            if isinstance(each, Call) and each not in made:
                made.add(each)
                waiting.extend(each.args)
        if is_conv or any(is_call(each, "cast") and each.args[0].checked_type.dtype in _HALVES for each in made):
            found |= made
    return found


def _kept_halves(nodes: Iterable[RelayExpr], halves: Sequence[str]) -> set[RelayExpr]:
    """Return the casts of many numbers, of some types to float32, that nothing but dense layers reads, as weights."""
    found, others = set[RelayExpr](), set[RelayExpr]()
    for node in nodes:
        operands = list(children(node))
        if is_call(node, "nn.dense") and _is_large_half(node.args[1], halves):
            found.add(operands.pop())
        others.update(operands)
    return found - others


def _is_large_half(node: RelayExpr, halves: Sequence[str]) -> bool:
    if not is_call(node, "cast") or node.attrs.dtype != "float32" or node.args[0].checked_type.dtype not in halves:
        return False
    return (_bytes_of(node.args[0].checked_type) or 0) >= GROWTH_BYTES


def _has_no_more(node: RelayExpr, operands: Sequence[RelayExpr]) -> bool:
    """Say whether a node has no more elements than its operands: what is wider grows by a known factor, once."""
    made, *given = (_total(each.checked_type, lambda dtype: 1) for each in (node, *operands))
    return made is not None and made <= sum(count or 0 for count in given)


def _note_size(node: RelayExpr, sizes: dict[RelayExpr, int], fold_qnn: bool, weights: Container[RelayExpr]) -> bool:
    """Say whether a node depends on nodes with sizes alone; then note its own."""
    operands = _operands(node)
    if operands is None or not all(o in sizes for o in operands):
        return False
    if not _is_foldable(node) or (_is_quantized(node) and not fold_qnn) or _is_string(node):
        return False
    size = _bytes_of(node.checked_type)
    is_kept = isinstance(node, Constant) or (node in weights and _has_no_more(node, operands))
    growth = _WEIGHT_GROWTH_BYTES if node in weights else GROWTH_BYTES
    if size is None or not (is_kept or size <= sum(sizes[o] for o in operands) + growth):
        return False
    sizes[node] = size
    return True


def _operands(node: RelayExpr) -> Sequence[RelayExpr] | None:
    """Return what a node's value is computed from, or None for a node that is none of what may be folded."""
    if isinstance(node, Call):
        op, *args = children(node)
        return args if isinstance(op, Op) else None
    return children(node) if isinstance(node, Constant | Tuple | TupleGetItem) else None


def _is_foldable(node: RelayExpr) -> bool:
    """Say whether a node of known operands may be computed now."""
    # Dropout is left to SimplifyInference, which knows whether the program trains.
    # The texts that numbers stand for are known to the program whose they are.
    if is_call(node, "nn.dropout") or is_call(node, "contrib_text_numbers"):
        return False
    return not isinstance(node, Call) or (entry(node.op).is_pure and not _has_symbols(node.attrs))


def _is_string(node: RelayExpr) -> bool:
    """Say whether a node is a tensor of strings, whose texts are known to the lowering alone."""
    ty = getattr(node, "checked_type_", None)
    return isinstance(ty, TensorType) and ty.dtype == "string"


def _is_quantized(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith("qnn.")


def _has_symbols(attrs: Attrs | None) -> bool:
    """Say whether attributes hold symbolic dimensions, whose values only the run gives."""
    waiting = [getattr(attrs, field.name) for field in attrs.declared] if attrs is not None else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, Sequence) and not isinstance(value, str):
            waiting += list(value)
        elif isinstance(value, tvm.ir.Expr) and not isinstance(value, tvm.tirx.IntImm):
            return True
    return False


def _is_computed(node: RelayExpr) -> bool:
    if isinstance(node, Constant) or is_stored_constant(node):
        return False
    ty = node.checked_type
    # An operator with several results, such as batch_norm, is folded whole where the tuple itself is used.
    if isinstance(ty, TupleType) and isinstance(node, Call):
        return len(ty.fields) > 0 and all(isinstance(f, TensorType) for f in ty.fields)
    return isinstance(ty, TensorType)


def _tensors(node: RelayExpr) -> list[RelayExpr]:
    """Return what is evaluated for a node: itself, or each field of a tuple."""
    ty = node.checked_type
    return [TupleGetItem(node, i) for i in range(len(ty.fields))] if isinstance(ty, TupleType) else [node]


def _folded(ty: Type, constants: Sequence[RelayExpr]) -> RelayExpr:
    """Return the constant, or the tuple of constants, of a type."""
    return Tuple(constants) if isinstance(ty, TupleType) else constants[0]


def _bytes_of(ty: Type) -> int | None:
    """Return the size of a type's values, or None where it is not known at compile time."""
    return _total(ty, lambda dtype: max(1, tvm.DataType(stored_type(dtype)).bits // 8))


def _total(ty: Type, of_element: Callable[[str], int]) -> int | None:
    """Return the sum of what the elements of a type's values count, or None where their number is not known."""
    if isinstance(ty, TupleType):
        found = [_total(f, of_element) for f in ty.fields]
        return None if None in found else sum(each for each in found if each is not None)
    if not isinstance(ty, TensorType) or not all(isinstance(d, int) for d in ty.shape):
        return None
    return prod(ty.shape) * of_element(ty.dtype)
