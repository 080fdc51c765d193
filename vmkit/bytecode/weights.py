"""Large constants passed to a program's functions, in place of being part of its code.

The VM copies the constants of a blob into memory of its own. Passed as a value they stay where they are: in the one
buffer that a file was read to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .._dataclasses import dataclass
from .builtins import MAKE_CLOSURE, TUPLE_GETITEM
from .placeholders import WEIGHT_BYTES, large_constants, with_constants
from .program import Arg, ArgKind, Call, Instruction, Program, TensorConstant, VMFunction
from .rewrite import edited, with_bodies, with_packed, with_registers

__all__ = ["lift_weights", "weights_of"]

_PARAMETER = "vmkit.weights"


def lift_weights(
    program: Program,
    smallest: int = WEIGHT_BYTES,
    getitem: str = TUPLE_GETITEM,
    also: Collection[int] = (),
) -> tuple[Program, tuple[TensorConstant, ...], set[str]]:
    """Return a program whose large constants are passed to it.

    Every function that needs one, itself or in what it calls, takes a tuple of them as its last argument, of which
    `getitem` reads a field. The constants at the positions `also` are passed, too, however small they are.

    Returns
    -------
    program
        In the places of the constants stand zeros.
    weights
        The constants, in the order of the tuple.
    functions
        The names of the functions that take the tuple; empty if nothing could be lifted.
    """
    weights = weights_of(program, smallest, also)
    if not weights or _is_opaque(program):
        return program, (), set()
    takers = _takers(program, set(weights))
    lifted, fetch = with_packed(with_constants(program, dict.fromkeys(weights, 0)), getitem)
    lifting = _Lifting(
        places={index: place for place, index in enumerate(weights)},
        closures={at for at, function in enumerate(lifted.functions) if function.name == MAKE_CLOSURE},
        takers=takers,
        fetch=fetch,
    )
    bodies = {at: lifting.body(lifted.functions[at], lifted.code(lifted.functions[at])) for at in takers}
    return with_bodies(lifted, bodies), tuple(weights.values()), {program.functions[at].name for at in takers}


def weights_of(program: Program, smallest: int, also: Collection[int]) -> dict[int, TensorConstant]:
    """Return the constants that :func:`lift_weights` passes, by their positions."""
    tensors = large_constants(program, 0)
    return {at: each for at, each in tensors.items() if at in also or each.nbytes >= smallest}


def _is_opaque(program: Program) -> bool:
    """Tell whether a function value goes where its captured values cannot be given another."""
    names = [function.name for function in program.functions]
    return any(
        arg.kind == ArgKind.FUNCTION and (names[one.function] != MAKE_CLOSURE or at > 0)
        for one in program.instructions
        if isinstance(one, Call)
        for at, arg in enumerate(one.args)
    )


def _takers(program: Program, weights: set[int]) -> set[int]:
    """Return the positions of the functions that read a weight, or come to call one that does."""
    calls, bodies = program.calls(), enumerate(map(program.code, program.functions))
    takers = {position for position, body in bodies if weights.intersection(_constants_read(body))}
    while True:
        more = {position for position, called in calls.items() if called & takers} - takers
        if not more:
            return takers
        takers |= more


def _constants_read(code: Sequence[Instruction]) -> list[int]:
    """Return the positions of the constants that instructions read, in their order."""
    return [a.value for one in code if isinstance(one, Call) for a in one.args if a.kind == ArgKind.CONSTANT]


@dataclass(frozen=True)
class _Lifting:
    """Writes the bodies of functions anew.

    Attributes
    ----------
    places
        By position among the constants, the weights' places in the tuple.
    closures
        The positions of what makes closures.
    takers
        Those of the functions that take the tuple.
    fetch
        That of what reads a field of a tuple.
    """

    places: Mapping[int, int]
    closures: Collection[int]
    takers: Collection[int]
    fetch: int

    def body(self, function: VMFunction, code: Sequence[Instruction]) -> tuple[VMFunction, Sequence[Instruction]]:
        """Return a function that takes the tuple, and its instructions.

        The parameter comes after the others, so registers from there on move up by one. All weights are fetched at the
        start.
        """
        given = function.num_args
        used = dict.fromkeys(index for index in _constants_read(code) if index in self.places)
        held = {index: function.register_file_size + 1 + at for at, index in enumerate(used)}
        tuple_arg = Arg(ArgKind.REGISTER, given)
        fetched = [
            Call(register, self.fetch, (tuple_arg, Arg(ArgKind.IMMEDIATE, self.places[index])))
            for index, register in held.items()
        ]
        made = replace(
            function,
            num_args=given + 1,
            param_names=(*function.param_names, _PARAMETER),
            register_file_size=function.register_file_size + 1 + len(held),
        )
        moved = [with_registers(one, lambda register: register + (register >= given)) for one in code]
        return made, edited([self._instruction(one, given, held) for one in moved], before={0: fetched})

    def _instruction(self, one: Instruction, given: int, held: Mapping[int, int]) -> Instruction:
        """Return an instruction that reads weights from registers, and passes the tuple on to who takes it."""
        if not isinstance(one, Call):
            return one
        args = [
            Arg(ArgKind.REGISTER, held[arg.value]) if arg.kind == ArgKind.CONSTANT and arg.value in held else arg
            for arg in one.args
        ]
        if one.function in self.takers or (one.function in self.closures and one.args[0].value in self.takers):
            args.append(Arg(ArgKind.REGISTER, given))
        return Call(one.destination, one.function, tuple(args))
