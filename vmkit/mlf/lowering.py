"""Relax of calls of kernels as a :class:`.program.Program`: tensors get memory, functions are written in place.

A function that ends by calling itself is a loop: its parameters are memory that each turn writes anew. All else that
calls itself, and every size, function or packed function that is known at run time only, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field

import tvm
from tvm import ir, relax, tirx

from .._dataclasses import dataclass
from ..errors import CompileError
from ..relax.aliases import is_call
from ..relax.rewrite import bindings_of
from .lowered_values import Value, as_tensor, leaf_types, leaves_of, of_type, shaped_like, tensor_of
from .program import Branch, Call, Copy, Foreign, Instruction, Kind, Leave, Loop, Memory, Program, Repeat, Tensor

__all__ = ["lowered_program"]


def lowered_program(
    mod: tvm.IRModule,
    workspace_of: Callable[[str], Sequence[int]],
    is_view: Callable[[str], bool],
    names: tuple[Sequence[str], Sequence[str]],
    foreign: Container[str] = (),
) -> Program:
    """Return the function ``main`` of a module as a program.

    Parameters
    ----------
    mod : IRModule
        Relax functions of ``call_tir``, without dataflow blocks.
    workspace_of : callable
        Returns the bytes of each of the own buffers of a kernel.
    is_view : callable
        Says whether a kernel only copies its one argument, whose memory its result can have.
    names : (sequence of str, sequence of str)
        Those of the inputs, and of the outputs.
    foreign : container of str
        The packed functions that other code generators have written C for.

    Raises
    ------
    CompileError
        When a size, a function or a number of turns is no matter of compile time; the message names the binding.
    """
    main = mod["main"]
    input_names, output_names = names
    program = Program([])
    env: dict[ir.Var, Value] = {}
    for name, param in zip(input_names, main.params, strict=True):
        _bind_input(program, env, name, param)
    lowering = _Lowering(mod, program, workspace_of, is_view, foreign)
    result = lowering.sequence(main.body, env, program.body)
    leaves = list(leaves_of(result))
    for place, (name, leaf) in enumerate(zip(output_names, leaves, strict=True)):
        memory = leaf.memory.home
        target = Tensor(Memory(leaf.nbytes, leaf.memory.alignment, Kind.OUTPUT, place), leaf.dtype, leaf.shape)
        if memory.kind is Kind.WORKSPACE and memory.size == target.nbytes:
            memory.join(target.memory)
        else:
            program.body.append(Copy(leaf, target))
        program.outputs.append((name, target))
    return program


def _bind_input(program: Program, env: dict[ir.Var, Value], name: str, param: ir.Var) -> None:
    def tensor(ty: ir.Type, label: str) -> Value:
        if isinstance(ty, relax.TupleType):
            return tuple(tensor(part, f"{label}_{place}") for place, part in enumerate(ty.fields))
        made = tensor_of(ty, f"the input {label}")
        made.memory.kind, made.memory.index = Kind.INPUT, len(program.inputs)
        program.inputs.append((label, made))
        return made

    env[param] = tensor(param.ty, name)


@dataclass(frozen=True)
class _Turn:
    """The loop that is being written: the function, its parameters' own memory, and where its results go."""

    function: ir.GlobalVar
    carried: Mapping[ir.Var, Value]
    results: list[Tensor]


@dataclass
class _Lowering:
    mod: tvm.IRModule
    program: Program
    workspace_of: Callable[[str], Sequence[int]]
    is_view: Callable[[str], bool]
    foreign: Container[str]
    active: list[ir.GlobalVar] = field(default_factory=list)
    made: list[set[Memory]] = field(default_factory=lambda: [set()])  # by the branches around, what is written in each
    constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = field(default_factory=dict)

    def sequence(
        self, sequence: relax.SeqExpr, env: dict[ir.Var, Value], body: list[Instruction], turn: _Turn | None = None
    ) -> Value:
        """Write the bindings of a sequence into `body`, and return its value; None at the end of a turn of a loop."""
        bindings = list(bindings_of(sequence))
        last = self.tail(sequence, bindings) if turn is not None else None
        for binding in bindings:
            if binding is last and turn is not None:
                self.ending(binding.value, env, body, turn)
                return None
            env[binding.var] = self.binding(binding, env, body)
        value = self.value(sequence.body, env, _name(sequence.body))
        if turn is not None:
            self.leave(value, body, turn)
            return None
        return value

    @staticmethod
    def tail(sequence: relax.SeqExpr, bindings: Sequence[relax.Binding]) -> relax.Binding | None:
        """Return the binding of the branch or call that is the value of a sequence, if it is one."""
        of = {binding.var: binding for binding in bindings}
        result = sequence.body
        while isinstance(result, ir.Var) and result in of:
            binding = of[result]
            if isinstance(binding.value, relax.If) or (
                isinstance(binding.value, ir.Call) and isinstance(binding.value.op, ir.GlobalVar)
            ):
                return binding
            result = binding.value
        return None

    def ending(self, value: relax.Expr, env: dict[ir.Var, Value], body: list[Instruction], turn: _Turn) -> None:
        """Write what a turn of a loop ends with: a branch of two ends, the next turn, or the results."""
        if isinstance(value, relax.If):
            condition = self.value(value.cond, env, "the condition of a branch")
            branch = Branch(as_tensor(condition, "a condition"), [], [])
            for arm, into in ((value.true_branch, branch.then), (value.false_branch, branch.otherwise)):
                self.sequence(arm, dict(env), into, turn)
            body.append(branch)
            return
        assert isinstance(value, ir.Call)
        if value.op == turn.function:
            self.repeat(value, env, body, turn)
        else:
            self.leave(self.call(value, env, body, value.op.name_hint), body, turn)

    def repeat(self, call: ir.Call, env: Mapping[ir.Var, Value], body: list[Instruction], turn: _Turn) -> None:
        """Write the arguments of the next turn into the memory of this one's parameters."""
        pairs = [
            pair
            for param, arg in zip(self.mod[turn.function].params, call.args, strict=True)
            if param in turn.carried
            for pair in zip(leaves_of(self.value(arg, env, param.name)), leaves_of(turn.carried[param]), strict=True)
        ]
        targets = {target.memory.home for _, target in pairs}
        moved = [(source, target) for source, target in pairs if source.memory.home is not target.memory.home]
        # What another parameter holds is read before that is written.
        held = [
            (_copied(source, body) if source.memory.home in targets else source, target) for source, target in moved
        ]
        body += [Copy(source, target) for source, target in held]
        body.append(Repeat())

    def leave(self, value: Value, body: list[Instruction], turn: _Turn) -> None:
        """Write the results of a loop, and its end."""
        body += [
            Copy(s, t) for s, t in zip(leaves_of(value), turn.results, strict=True) if s.memory.home is not t.memory
        ]
        body.append(Leave())

    def binding(self, binding: relax.Binding, env: dict[ir.Var, Value], body: list[Instruction]) -> Value:
        """Return the value of a binding, whose instructions are added to `body`."""
        if isinstance(binding, relax.MatchCast):
            return self.cast(binding, env)
        value, name = binding.value, binding.var.name
        match value:
            case relax.If():
                return self.branch(value, env, body)
            case ir.Call() if is_call(value, "relax.call_tir"):
                return self.kernel(value, env, body, name)
            case ir.Call() if is_call(value, "relax.reshape"):
                return self.view(value.args[0], value, env, name)
            case ir.Call() if is_call(value, "relax.call_dps_packed") and value.args[0].global_symbol in self.foreign:
                return self.foreign_call(value, env, body, name)
            case ir.Call() if isinstance(value.op, ir.GlobalVar):
                return self.call(value, env, body, name)
        return self.value(value, env, name)

    def value(self, value: relax.Expr, env: Mapping[ir.Var, Value], name: str) -> Value:
        """Return a value that computes nothing."""
        match value:
            case ir.Var() if value in env:
                return env[value]
            case ir.GenericConst():
                return self.constant(value)
            case relax.Tuple():
                return tuple(self.value(part, env, name) for part in value.fields)
            case relax.TupleGetItem():
                whole = self.value(value.tuple_value, env, name)
                assert isinstance(whole, tuple)
                return whole[int(value.index)]
            case relax.ShapeExpr() if all(isinstance(d, tirx.IntImm) for d in value.values):
                return None
        raise CompileError(f"{name}: {_described(value)}, and C has no counterpart of that")

    def constant(self, value: ir.GenericConst) -> Tensor:
        """Return the tensor of a constant, the same for equal ones."""
        array = value.value.numpy()
        dtype = str(value.value.dtype)
        key = (dtype, array.shape, array.tobytes())
        if key not in self.constants:
            made = Tensor.new(dtype, array.shape)
            made.memory.kind, made.memory.index = Kind.CONSTANT, len(self.program.constants)
            self.program.constants.append(array)
            self.constants[key] = made
        return self.constants[key]

    def cast(self, binding: relax.MatchCast, env: Mapping[ir.Var, Value]) -> Value:
        """Return the value of a check of sizes, which all are known."""
        value = self.value(binding.value, env, binding.var.name)
        types = (ty for ty in leaf_types(binding.var.ty) if not isinstance(ty, relax.ShapeType))
        for leaf, ty in zip(leaves_of(value), types, strict=True):
            expected = tensor_of(ty, binding.var.name).shape
            if leaf.shape != expected:
                raise CompileError(f"{binding.var.name}: expected the sizes {expected}, got {leaf.shape}")
        return value

    def view(self, arg: relax.Expr, call: ir.Call, env: Mapping[ir.Var, Value], name: str) -> Tensor:
        """Return a tensor in another shape."""
        source = as_tensor(self.value(arg, env, name), name)
        made = tensor_of(call.ty, name)
        return Tensor(source.memory, made.dtype, made.shape)

    def kernel(self, call: ir.Call, env: Mapping[ir.Var, Value], body: list[Instruction], name: str) -> Value:
        """Return the result of a kernel."""
        kernel, args, *numbers = call.args
        if numbers:
            raise CompileError(f"{name}: kernel {kernel.name_hint} takes sizes that are known at run time only")
        given = self.tensors(args, env, name)
        if self.is_view(kernel.name_hint):
            made = tensor_of(call.ty, name)
            return Tensor(given[0].memory, made.dtype, made.shape)
        results = [tensor_of(ty, f"{name}, the result of kernel {kernel.name_hint},") for ty in leaf_types(call.ty)]
        own = tuple(Memory(size, 8) for size in self.workspace_of(kernel.name_hint))
        body.append(Call(kernel.name_hint, (*given, *results), own))
        self.made[-1] |= {result.memory for result in results}
        return tuple(results) if isinstance(call.ty, relax.TupleType) else results[0]

    def tensors(self, args: relax.Expr, env: Mapping[ir.Var, Value], name: str) -> list[Tensor]:
        """Return the arguments of a call, a tuple or one."""
        fields = args.fields if isinstance(args, relax.Tuple) else [args]
        return [as_tensor(self.value(arg, env, name), name) for arg in fields]

    def foreign_call(self, call: ir.Call, env: Mapping[ir.Var, Value], body: list[Instruction], name: str) -> Value:
        """Return the result of a function that another code generator wrote."""
        symbol, args, *_ = call.args
        results = [tensor_of(ty, f"{name}, the result of {symbol.global_symbol},") for ty in leaf_types(call.ty)]
        body.append(Foreign(str(symbol.global_symbol), (*self.tensors(args, env, name), *results)))
        self.made[-1] |= {result.memory for result in results}
        return tuple(results) if isinstance(call.ty, relax.TupleType) else results[0]

    def branch(self, value: relax.If, env: Mapping[ir.Var, Value], body: list[Instruction]) -> Value:
        """Return the value of a branch: memory that either list of instructions writes."""
        condition = as_tensor(self.value(value.cond, env, "the condition of a branch"), "the condition of a branch")
        branch = Branch(condition, [], [])
        results: list[Tensor] = []
        shape: Value = None
        for arm, into in ((value.true_branch, branch.then), (value.false_branch, branch.otherwise)):
            self.made.append(set())
            made = self.sequence(arm, dict(env), into)
            own = self.made.pop()
            leaves = list(leaves_of(made))
            if not results:
                results = [Tensor.new(leaf.dtype, leaf.shape) for leaf in leaves]
                shape = shaped_like(made, iter(results))
            for leaf, result in zip(leaves, results, strict=True):
                if leaf.shape != result.shape:
                    raise CompileError(f"the branches of an If are of sizes {result.shape} and {leaf.shape}")
                memory = leaf.memory.home
                if memory in own and memory.size == result.memory.size:
                    own.discard(memory)
                    memory.join(result.memory)
                else:
                    into.append(Copy(leaf, result))
        body.append(branch)
        self.made[-1] |= {result.memory for result in results}
        return shape

    def call(self, call: ir.Call, env: Mapping[ir.Var, Value], body: list[Instruction], name: str) -> Value:
        """Return the result of a function of the module, which is written in place, as a loop if it calls itself."""
        function = self.mod.functions.get(call.op)
        if not isinstance(function, relax.Function):
            raise CompileError(f"{name}: @{call.op.name_hint} is not in the module")
        if call.op in self.active:
            raise CompileError(
                f"@{call.op.name_hint} calls itself elsewhere than at its end, which needs memory without a bound"
            )
        args = [self.value(arg, env, name) for arg in call.args]
        self.active.append(call.op)
        own = list(_self_calls(function, call.op))
        inside: dict[ir.Var, Value] = dict(zip(function.params, args, strict=True))
        if not own:
            result = self.sequence(function.body, inside, body)
        else:
            result = self.loop(function, call.op, own, inside, body)
        self.active.pop()
        return result

    def loop(
        self,
        function: relax.Function,
        gvar: ir.GlobalVar,
        calls: Sequence[ir.Call],
        inside: dict[ir.Var, Value],
        body: list[Instruction],
    ) -> Value:
        """Return the result of a function that ends by calling itself."""
        carried: dict[ir.Var, Value] = {}
        for place, param in enumerate(function.params):
            if not all(call.args[place].same_as(param) for call in calls):
                given = list(leaves_of(inside[param]))
                own = [_copied(tensor, body) for tensor in given]
                carried[param] = inside[param] = shaped_like(inside[param], iter(own))
        results = [tensor_of(ty, f"the result of @{gvar.name_hint}") for ty in leaf_types(function.ret_ty)]
        loop = Loop([])
        self.made.append(set())
        self.sequence(function.body, inside, loop.body, _Turn(gvar, carried, results))
        self.made.pop()
        body.append(loop)
        self.made[-1] |= {result.memory for result in results}
        return of_type(function.ret_ty, iter(results))


def _copied(tensor: Tensor, body: list[Instruction]) -> Tensor:
    """Return a tensor of memory of its own, into which another is copied."""
    made = Tensor.new(tensor.dtype, tensor.shape)
    body.append(Copy(tensor, made))
    return made


def _self_calls(function: relax.Function, gvar: ir.GlobalVar) -> Iterator[ir.Call]:
    """Yield the calls of a function by itself, wherever they stand."""
    waiting = [function.body]
    while waiting:
        for binding in bindings_of(waiting.pop()):
            value = binding.value
            if isinstance(value, relax.If):
                waiting += [value.true_branch, value.false_branch]
            elif isinstance(value, ir.Call) and value.op == gvar:
                yield value


def _described(value: relax.Expr) -> str:
    """Say what an expression is that cannot be lowered."""
    if isinstance(value, ir.Call):
        name = getattr(value.op, "name", None) or getattr(value.op, "name_hint", "a function that is a value")
        if str(name) in ("relax.call_packed", "relax.call_pure_packed", "relax.call_dps_packed"):
            name = getattr(value.args[0], "global_symbol", name)
        if isinstance(value.op, relax.ExternFunc):
            name = value.op.global_symbol
        return f"it is a call of {name}"
    return f"it is a {type(value).__name__}"


def _name(value: relax.Expr) -> str:
    return value.name if isinstance(value, ir.Var) else "the result"
