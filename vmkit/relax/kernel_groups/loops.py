"""Loops of kernels become one call of the VM.

A function that computes a condition by kernels and then either calls itself for the next iteration or is done is a loop
(see :mod:`vmkit.bytecode.loops`), each iteration of which costs the VM a microsecond and more: memory for what changes,
calls, their checks. Where an iteration is nothing but kernels over tensors whose shapes stay, one function runs all of
them. What changes lies in tensors that the function is given and in the workspace, alternately; little things are
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm import retyped
from ..aliases import TENSOR, home_of, is_call, is_silent
from ..rewrite import allocation, bindings_of, substituted, variables_in
from .functions import KernelCall, kernel_call
from .looks import bytes_of, run_state
from .loop_functions import KernelLoop, Move
from .workspaces import places_of

__all__ = ["FoundLoop", "find_loop"]

_MOST_BYTES = 1 << 14  # that an iteration copies: what is larger takes so long to compute that the VM's part is small


@dataclass(frozen=True)
class FoundLoop:
    """A function as a loop of kernels.

    Attributes
    ----------
    loop : KernelLoop
        All iterations.
    memory : list of relax.Binding
        The allocation of the tensors that hold what changes.
    rest : relax.SeqExpr
        What the function does after the last iteration.
    """

    loop: KernelLoop
    memory: list[relax.Binding]
    rest: relax.SeqExpr


def find_loop(
    gvar: ir.GlobalVar,
    function: relax.Function,
    kernels: Mapping[ir.GlobalVar, tirx.PrimFunc],
    analyzer: Analyzer,
    new_name: Callable[[str], ir.GlobalVar],
) -> FoundLoop | None:
    """Return a function as a loop of kernels; None if it is none."""
    form = _form(gvar, function)
    if form is None or not all(_has_known_shape(p) for p in function.params):
        return None
    inside = [*form.head, *form.body]
    silent = {b.var: b.value for b in inside if is_silent(b)}
    calls: dict[ir.Var, KernelCall] = {}
    for binding in inside:
        call = kernel_call(binding.value, kernels, analyzer)
        if call is not None:
            calls[binding.var] = call
        elif binding.var not in silent:
            return None
    own = {b.var for b in inside}
    if not calls or _reads(form, own) or str(form.condition.ty.dtype) != "bool":
        return None
    return _Iterations(form, list(function.params), silent, calls, analyzer).found(new_name)


def _has_known_shape(value: relax.Expr) -> bool:
    return isinstance(value.ty, relax.TensorType) and isinstance(value.ty.shape, relax.ShapeExpr)


def _reads(form: _Form, own: set[ir.Var]) -> bool:
    """Say whether what follows the last iteration reads what one computed."""
    return not own.isdisjoint(variables_in(*(b.value for b in form.rest), form.result))


class _Iterations:
    """What is known of the iterations of a loop."""

    def __init__(
        self,
        form: _Form,
        params: list[ir.Var],
        silent: Mapping[relax.Expr, relax.Expr],
        calls: Mapping[ir.Var, KernelCall],
        analyzer: Analyzer,
    ) -> None:
        self.form, self.params, self.silent, self.calls, self.analyzer = form, params, silent, calls, analyzer
        self.homes = [home_of(value, silent) for value in form.following]
        changed = [p for p, home in zip(params, self.homes, strict=True) if not home.same_as(p)]
        self.after = {p: relax.Var(p.name, p.ty) for p in changed}

    def found(self, new_name: Callable[[str], ir.GlobalVar]) -> FoundLoop | None:
        """Return the loop, its function named by `new_name`; None where an iteration needs more than kernels."""
        calls = [
            KernelCall(c.kernel, tuple(self.place(a) if _is_tensor(a) else a for a in c.args), c.sizes)
            for c in self.calls.values()
        ]
        condition = self.place(self.form.condition)
        staging, moves, swaps = self.moves()
        used = [a for c in calls for a in c.tensors] + [condition, *(m.source for m in (*moves, *swaps))]
        inner = {a: self.silent[a].args[0] for a in used if is_call(self.silent.get(a), TENSOR)}
        outside = [a for a in used if a not in inner and a not in staging]
        known = {*self.params, *self.after.values()}
        if (
            not self.is_steady()
            or not _are_few_bytes(moves)
            or not all(isinstance(a, ir.GenericConst) or a in known for a in outside)
        ):
            return None
        tensors = list(dict.fromkeys([*self.after, *self.after.values(), *outside]))
        storages = {s: self.silent[s].args[0].values[0] for s in inner.values()}
        places, size = places_of({**storages, **staging}, self.analyzer)
        state = run_state()
        tensors.append(state)
        made = {a for a in tensors if isinstance(a, ir.GenericConst)} | set(self.after.values())
        loop = KernelLoop(
            name=new_name("kernel_loop"),
            calls=tuple(calls),
            tensors=tuple(tensors),
            made=frozenset(made),
            position={a: i for i, a in enumerate(tensors)},
            offset={**{a: places[s] for a, s in inner.items()}, **{s: places[s] for s in staging}},
            size=size,
            head=sum(b.var in self.calls for b in self.form.head),
            condition=condition,
            goes_on=self.form.goes_on,
            before=tuple(Move(p, after, self.bytes(p)) for p, after in self.after.items()),
            after=tuple(moves),
            swaps=tuple(swaps),
            state=state,
        )
        return FoundLoop(loop, self.memory(), self.rest())

    def place(self, tensor: relax.Expr) -> relax.Expr:
        """Return where a tensor is in an iteration."""
        home = home_of(tensor, self.silent)
        return self.after.get(home, home) if isinstance(home, ir.Var) else home

    def is_steady(self) -> bool:
        """Say whether the shapes of the parameters stay."""
        return all(
            _has_known_shape(value)
            and str(value.ty.dtype) == str(p.ty.dtype)
            and tvm_ffi.structural_equal(value.ty.shape, p.ty.shape)
            for p, value in zip(self.params, self.form.following, strict=True)
        )

    def moves(self) -> tuple[dict[ir.Expr, tirx.Expr], list[Move], list[Move]]:
        """Return the copies at the end of an iteration, the memory of what others would overwrite, and swaps."""
        staging: dict[ir.Expr, tirx.Expr] = {}
        first, then, swaps = [], [], []
        for p, home in zip(self.params, self.homes, strict=True):
            if home.same_as(p):
                continue
            source = self.place(home)
            if self.is_alone(home):
                swaps.append(Move(home, self.after[p], self.bytes(p)))
                continue
            if isinstance(home, ir.Var) and home in self.after:
                kept = relax.Var("kept", p.ty)
                staging[kept] = self.bytes(p)
                first.append(Move(source, kept, self.bytes(p)))
                source = kept
            then.append(Move(source, self.after[p], self.bytes(p)))
        return staging, [*first, *then], swaps

    def is_alone(self, tensor: relax.Expr) -> bool:
        """Say whether a tensor is what one parameter will be, in memory that nothing else uses."""
        memory = self.silent.get(tensor)
        if memory is None or not is_call(memory, TENSOR) or sum(map(tensor.same_as, self.homes)) > 1:
            return False
        tensors = [value for value in self.silent.values() if is_call(value, TENSOR)]
        return sum(bool(value.args[0].same_as(memory.args[0])) for value in tensors) == 1

    def bytes(self, tensor: relax.Expr) -> tirx.Expr:
        """Return how many bytes a tensor has."""
        return self.analyzer.simplify(bytes_of(tensor))

    def memory(self) -> list[relax.Binding]:
        """Return the allocation of what changes."""
        return [binding for p, after in self.after.items() for binding in allocation(after, self.bytes(p))]

    def rest(self) -> relax.SeqExpr:
        """Return what follows the last iteration."""
        sequence = relax.SeqExpr([relax.BindingBlock(self.form.rest)], self.form.result)
        return substituted(retyped(sequence, self.form.result.ty), self.after)


def _are_few_bytes(moves: list[Move]) -> bool:
    sizes = [m.size for m in moves]
    return all(isinstance(s, tirx.IntImm) for s in sizes) and sum(int(s.value) for s in sizes) <= _MOST_BYTES


def _is_tensor(value: relax.Expr) -> bool:
    return isinstance(value.ty, relax.TensorType)


@dataclass(frozen=True)
class _Form:
    """A function that is a loop: what it does before the condition, in a further iteration, and when it is done.

    Attributes
    ----------
    head, body, rest : list of relax.Binding
        The bindings of each.
    condition : relax.Var
        The tensor that is read.
    goes_on : bool
        The value of the condition at which there is a further iteration.
    following : sequence of relax.Expr
        What the parameters are in the next iteration.
    result : relax.Expr
        What is returned after `rest`.
    """

    head: list[relax.Binding]
    body: list[relax.Binding]
    rest: list[relax.Binding]
    condition: ir.Var
    goes_on: bool
    following: list[relax.Expr]
    result: relax.Expr


def _form(gvar: ir.GlobalVar, function: relax.Function) -> _Form | None:
    """Return a function as a loop; None if it is none."""
    bindings = list(bindings_of(function.body))
    if (
        not bindings
        or not isinstance(bindings[-1], relax.VarBinding)
        or not function.body.body.same_as(bindings[-1].var)
    ):
        return None
    branch = bindings[-1].value
    if not isinstance(branch, relax.If) or not isinstance(branch.cond, ir.Var):
        return None
    for goes_on, again, rest in (
        (True, branch.true_branch, branch.false_branch),
        (False, branch.false_branch, branch.true_branch),
    ):
        values = {b.var: b.value for b in bindings_of(again)}
        call = _named(again.body, values)
        if isinstance(call, ir.Call) and isinstance(call.op, ir.GlobalVar) and call.op.same_as(gvar):
            body = [b for b in bindings_of(again) if not _named(b.value, values).same_as(call)]
            return _Form(bindings[:-1], body, list(bindings_of(rest)), branch.cond, goes_on, list(call.args), rest.body)
    return None


def _named(value: relax.Expr, values: Mapping[ir.Var, relax.Expr]) -> relax.Expr:
    """Return what a value is under all its names."""
    while isinstance(value, ir.Var) and value in values:
        value = values[value]
    return value
