"""What registers hold, on every path through a program: what the VM does not look at, and kernels do not either.

A register that nothing was put into holds nothing, and a kernel takes that for the address of a tensor. A place of the
shape heap past its end is foreign memory. So each function is followed along its jumps: each register must be set
before it is read, on every path, and hold what the VM's own functions expect. What is only known when the program runs,
such as a field of a tuple, may be anything; kernels look at the types and shapes of their tensors by themselves. Kernel
groups do not look at the memory that the program made for them, in extents that are known: what a library says that
they need there is compared with what the program makes (see :mod:`vmkit.values.kernel_needs`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .._dataclasses import dataclass
from ..values.kernel_needs import STATE, KnownTensor, Need
from . import builtins
from .instructions import (
    VM_REGISTER,
    VOID_REGISTER,
    Arg,
    ArgKind,
    Call,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Ret,
    following,
)
from .known_tensors import allocated_tensor, constant_tensor, is_run_state

if TYPE_CHECKING:
    from .program import Program, VMFunction

__all__ = ["register_problem"]

_ALIGNMENT = 64  # bytes, what kernels assume addresses to be multiples of

# What a register may hold. Nothing stands for a register that is not set; a shape heap is its length, and a tensor that
# the program made in known extents is what is known of it.
_TENSOR, _SHAPE, _STORAGE, _TUPLE, _NUMBER, _CLOSURE = (
    "a tensor",
    "a shape",
    "storage",
    "a tuple",
    "a number",
    "a closure",
)
_DTYPE, _STRING, _FUNCTION, _MACHINE = "a data type", "a string", "a function", "the machine"
# The VM reads the first extent of the shape of storage without asking whether there is one.
_EXTENTS = "a shape of one extent or more"
_ANYTHING, _NOTHING = "a value", "nothing"
_Kind = str | int | KnownTensor
_State = dict[int, _Kind]


@dataclass(frozen=True)
class _Rule:
    """What one of the VM's functions takes and gives.

    Parameters
    ----------
    takes
        What its first arguments must be, each one of several kinds; of further ones only that they are set.
    gives
        What its result is; None if it has none.
    """

    takes: tuple[tuple[str, ...], ...]
    gives: str | None = None


# What the names of kernels begin with that TVM's pass ComputePrimValue makes.
_COMPUTES = "compute_symbolic_expr"
_HEAP = "a shape heap"
_INT64 = (0, 64, 1)
_HEAP_OR_NOT = (_HEAP, _NOTHING)
_OF_KERNELS = (_TENSOR, _NUMBER, _HEAP)
_RULES: Mapping[str, _Rule] = {
    builtins.ALLOC_SHAPE_HEAP: _Rule(((_MACHINE,), (_NUMBER,)), _HEAP),
    builtins.ALLOC_STORAGE: _Rule(((_MACHINE,), (_EXTENTS,), (_NUMBER,), (_DTYPE,), (_STRING,)), _STORAGE),
    builtins.ALLOC_COUNTED: _Rule(((_NUMBER,), (_MACHINE,), (_EXTENTS,), (_NUMBER,), (_DTYPE,), (_STRING,)), _STORAGE),
    builtins.ALLOC_COUNTED_INTEGERS: _Rule(((_NUMBER,), (_MACHINE,), (_NUMBER,)), _TENSOR),
    builtins.ALLOC_TENSOR: _Rule(((_STORAGE,), (_NUMBER,), (_SHAPE,), (_DTYPE,)), _TENSOR),
    builtins.CHECK_TENSOR_INFO: _Rule(((_TENSOR,), (_NUMBER,))),
    builtins.CHECK_TUPLE_INFO: _Rule(((_TUPLE,), (_NUMBER,))),
    builtins.MAKE_SHAPE: _Rule((_HEAP_OR_NOT, (_NUMBER,)), _EXTENTS),
    builtins.MAKE_PRIM_VALUE: _Rule((_HEAP_OR_NOT, (_NUMBER,), (_NUMBER,)), _NUMBER),
    builtins.MAKE_TUPLE: _Rule((), _TUPLE),
    builtins.MAKE_CLOSURE: _Rule(((_FUNCTION,),), _CLOSURE),
    builtins.MATCH_SHAPE: _Rule(((_TENSOR, _SHAPE), _HEAP_OR_NOT, (_NUMBER,))),
    builtins.NULL_VALUE: _Rule(()),
    builtins.READ_IF_COND: _Rule(((_TENSOR, _NUMBER),), _NUMBER),
    builtins.RESHAPE: _Rule(((_TENSOR,), (_SHAPE,)), _TENSOR),
    builtins.SHAPE_OF: _Rule(((_TENSOR,),), _SHAPE),
    builtins.TENSOR_TO_SHAPE: _Rule(((_TENSOR,),), _SHAPE),
    builtins.TUPLE_GETITEM: _Rule(((_TUPLE,), (_NUMBER,)), _ANYTHING),
}
# Which of the dims of these lie on the shape heap: the codes that say so, and the first pair of code and place.
_LOADS, _STORES, _EQUALS_STORED = 1, 1, 3
_HEAP_CODES = {
    builtins.MAKE_SHAPE: (0, 2, (_LOADS,)),
    builtins.MATCH_SHAPE: (1, 3, (_STORES, _EQUALS_STORED)),
}


def register_problem(
    program: Program, function: VMFunction, needs: Mapping[str, Sequence[Need]] | None = None
) -> tuple[int, str] | None:
    """Return the position of the first instruction of a function that reads what it must not, and what is wrong.

    The program is one whose instructions name registers, functions and places that there are.

    Parameters
    ----------
    needs
        What kernel groups need of their arguments, by the groups' names; None for an argument that may be anything.
    """
    return _Following(program, function, needs or {}).problem()


class _Following:
    def __init__(self, program: Program, function: VMFunction, needs: Mapping[str, Sequence[Need]]) -> None:
        self.program = program
        self.needs = needs
        self.function = function
        self.names = program.names
        self.code = program.code(function)

    def problem(self) -> tuple[int, str] | None:
        """Follow every path until what registers hold at each join does not change any more.

        Of the joins that wait the first in the code goes on: both branches of an ``If`` have then arrived behind it. In
        another order each of many branches one after another would have all behind it followed once more.
        """
        given: _State = dict.fromkeys(range(self.function.num_args), _ANYTHING)
        joins = _targets(self.code)
        known: dict[int, _State] = {0: given}
        waiting = [0]
        while waiting:
            at = heapq.heappop(waiting)
            if waiting and waiting[0] == at:
                continue
            state = dict(known[at])
            while True:
                instruction = self.code[at]
                wrong = self._step(instruction, state)
                if wrong:
                    return self.function.start + at, wrong
                ahead = following(instruction, at)
                for place in ahead[1:]:
                    self._join(place, state, known, waiting)
                if not ahead:
                    break
                at = ahead[0]
                if at in joins:
                    self._join(at, state, known, waiting)
                    break
        return None

    def _join(self, place: int, state: _State, known: dict[int, _State], waiting: list[int]) -> None:
        """Note what registers hold where a jump arrives; go on from there if that is less than was known."""
        before = known.get(place)
        if before is None:
            known[place] = dict(state)
            heapq.heappush(waiting, place)
            return
        both = {r: kind if state[r] == kind else _ANYTHING for r, kind in before.items() if r in state}
        if both != before:
            known[place] = both
            heapq.heappush(waiting, place)

    def _step(self, instruction: Instruction, state: _State) -> str:
        """Return what is wrong with an instruction; change what registers hold to what they hold after it."""
        match instruction:
            case Call(destination, position, args):
                return self._call(destination, position, args, state)
            case Ret(result):
                kind = _NOTHING if result == VOID_REGISTER else state.get(result)
                return _unset(result) if kind is None else "the result is nothing" if kind == _NOTHING else ""
            case If(condition):
                kind = state.get(condition)
                if kind is None:
                    return _unset(condition)
                return (
                    "" if kind in (_NUMBER, _ANYTHING) else f"register {condition} holds {_shown(kind)}, not a number"
                )
        return ""

    def _call(self, destination: int, position: int, args: Sequence[Arg], state: _State) -> str:
        name, kind = self.names[position], self.program.functions[position].kind
        rule = _RULES.get(name) if kind == FunctionKind.PACKED else None
        # The names of a program's kernels have no dots.
        is_kernel = kind == FunctionKind.PACKED and "." not in name
        for at, arg in enumerate(args):
            found = self._kind(arg, state)
            if found is None:
                return _unset(arg.value)
            expected = _OF_KERNELS if is_kernel else rule.takes[at] if rule and at < len(rule.takes) else None
            problem = _mismatch(found, expected, of_machine=name.startswith(builtins.PREFIX))
            if problem:
                return f"argument {at} of {name} is {problem}"
        if rule is not None and len(args) < len(rule.takes):
            return f"{name} takes {len(rule.takes)} arguments or more, {len(args)} are given"
        if kind == FunctionKind.VM and len(args) != self.program.functions[position].num_args:
            return f"{name} takes {self.program.functions[position].num_args} arguments, {len(args)} are given"
        problem = _memory_problem(self.program, name, args) or self._heap_problem(name, args, state)
        problem = problem or self._needs_problem(name, args, state)
        if destination != VOID_REGISTER:
            gives = self._result(name, kind, rule, args, state)
            if gives is None:
                state.pop(destination, None)
            else:
                state[destination] = gives
        return problem

    def _result(
        self, name: str, kind: FunctionKind, rule: _Rule | None, args: Sequence[Arg], state: _State
    ) -> _Kind | None:
        if name == builtins.COPY and args:
            return self._kind(args[0], state)
        if name == builtins.ALLOC_TENSOR:
            return allocated_tensor(self.program, args) or _TENSOR
        if rule is not None:
            if rule.gives != _HEAP:
                return rule.gives
            # As many integers as the run finds are no heap of which places are known.
            return args[1].value if args[1].kind == ArgKind.IMMEDIATE else _TENSOR
        if kind != FunctionKind.PACKED or "." in name:
            return _ANYTHING
        # Kernels give nothing, since they write into their arguments, but for those that compute a number.
        return _NUMBER if name.startswith(_COMPUTES) else _NOTHING

    def _kind(self, arg: Arg, state: _State) -> _Kind | None:
        """Return what an argument is; None for a register that is not set."""
        match arg.kind:
            case ArgKind.IMMEDIATE:
                return _NUMBER
            case ArgKind.FUNCTION:
                return _FUNCTION
            case ArgKind.CONSTANT:
                kind = self.program.constant_kinds[arg.value]
                if kind == _TENSOR:
                    return constant_tensor(self.program, arg.value) or kind
                return _EXTENTS if kind == _SHAPE and self.program.constants[arg.value] else kind
        special = {VOID_REGISTER: _NOTHING, VM_REGISTER: _MACHINE}.get(arg.value)
        return special or state.get(arg.value)

    def _needs_problem(self, name: str, args: Sequence[Arg], state: _State) -> str:
        """Say which argument of a kernel group is not what the group takes it for."""
        needs = self.needs.get(name, ())
        if len(args) < len(needs):
            return f"{name} takes {len(needs)} arguments or more, {len(args)} are given"
        for at, need in enumerate(needs):
            if need == STATE and not is_run_state(self.program, args[at]):
                return f"argument {at} of {name} is not the constant that is the state of runs"
            found = self._kind(args[at], state) if isinstance(need, KnownTensor) else need
            if isinstance(found, int):  # what a shape heap is, other integers are, too
                found = KnownTensor(_INT64, (found,))
            if found != need:
                return f"argument {at} of {name} is {_shown(found)}, expected {_shown(need)}"
        return ""

    def _heap_problem(self, name: str, args: Sequence[Arg], state: _State) -> str:
        """Say which place of a shape heap there is not."""
        if name == builtins.MAKE_PRIM_VALUE:
            heap, places = args[0], [args[2].value] if args[1].value == _LOADS else []
        elif name in _HEAP_CODES:
            at, first, codes = _HEAP_CODES[name]
            count = args[first - 1].value
            pairs = args[first : first + 2 * count]
            if count == 0 and name == builtins.MAKE_SHAPE:
                return f"{name} makes a shape of no extents"
            if count < 0 or len(pairs) != 2 * count:
                return f"{name} of {count} dims has {len(args) - first} arguments for them"
            heap = args[at]
            places = [v.value for c, v in zip(pairs[::2], pairs[1::2], strict=True) if c.value in codes]
        else:
            return ""
        length = self._kind(heap, state)
        length = length if isinstance(length, int) else 0
        outside = [place for place in places if not 0 <= place < length]
        return f"{name} uses place {outside[0]} of a shape heap of {length}" if outside else ""


def _mismatch(found: _Kind, expected: tuple[str, ...] | None, of_machine: bool) -> str:
    kind = _HEAP if isinstance(found, int) else _TENSOR if isinstance(found, KnownTensor) else found
    if expected is None:
        # The machine is an address, and nothing is taken for one: out of a tuple, too, of which no more is known.
        return "" if kind != _NOTHING and (of_machine or kind != _MACHINE) else kind
    if kind in expected or (kind == _EXTENTS and _SHAPE in expected):
        return ""
    if kind == _ANYTHING and expected[0] not in (_MACHINE, _HEAP, _EXTENTS):
        return ""
    return f"{kind}, expected {' or '.join(expected)}"


def _memory_problem(program: Program, name: str, args: Sequence[Arg]) -> str:
    """Say what is wrong with the place and the extents of a tensor; that it ends in its storage the VM sees."""
    if name != builtins.ALLOC_TENSOR:
        return ""
    made = allocated_tensor(program, args)
    if made is not None and not made.is_possible:
        return f"a tensor of extents {list(made.shape)}"
    offset = args[1]
    if offset.kind == ArgKind.IMMEDIATE and offset.value >= 0 and offset.value % _ALIGNMENT == 0:
        return ""
    return f"a tensor begins at {offset.value} in its storage, expected a multiple of {_ALIGNMENT}"


def _shown(kind: _Kind | None) -> str:
    if isinstance(kind, KnownTensor):
        return f"a tensor of {kind}"
    return _HEAP if isinstance(kind, int) else kind or _NOTHING


def _unset(register: int) -> str:
    return f"reads register {register}, which is not set on every path"


def _targets(code: Sequence[Instruction]) -> set[int]:
    """Return the places that jumps go to."""
    return {place for at, one in enumerate(code) if isinstance(one, Goto | If) for place in following(one, at)}
