"""The process that runs mutated programs, so that one that kills it or hangs is seen: numbers in, one line out each."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm

import vmkit
from tests.children import Outcome, answer
from vmkit import relay
from vmkit.bytecode import Arg, ArgKind, Call, Goto, If, Instruction, Program, Ret, TensorConstant
from vmkit.bytecode.program import VM_REGISTER, VOID_REGISTER, Constant, DTypeConstant
from vmkit.errors import VMKitError
from vmkit.executable.executable import Executable, Parts
from vmkit.executable.needs import require_needs

ANY = relay.Any()


def chain() -> relay.Function:
    """Return kernels of known sizes."""
    x = relay.var("x", shape=(2, 3))
    return relay.Function([x], relay.nn.softmax(relay.nn.dense(relay.tanh(x), relay.const(np.ones((4, 3), "float32")))))


def sizes() -> relay.Function:
    """Return kernels of sizes that are read, some of them from data."""
    x, shape = relay.var("x", shape=(relay.Any(), 3)), relay.var("s", shape=(2,), dtype="int64")
    wide = relay.broadcast_to(relay.sum(x, axis=0), shape)
    return relay.Function([x, shape], relay.Tuple([relay.concatenate([wide, x], 0), relay.argsort(x, axis=0)]))


def choice() -> relay.Function:
    """Return a branch, and a tuple that is taken apart."""
    x, flag = relay.var("x", shape=(relay.Any(),)), relay.var("c", shape=(), dtype="bool")
    pair = relay.Tuple([relay.exp(x), relay.nn.relu(x)])
    return relay.Function([x, flag], relay.TupleGetItem(relay.If(flag, pair, relay.Tuple([x, relay.sqrt(x)])), 1))


def loop() -> relay.Function:
    """Return a loop that ends after a few iterations."""
    from vmkit.relay.loops import while_loop

    i, x = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(),))
    found = while_loop(
        lambda i, _: relay.less(i, relay.const(3)),
        [i, x],
        lambda i, x: [relay.add(i, relay.const(1)), relay.concatenate([x, relay.const([1.0])], 0)],
    )
    start = relay.var("x0", shape=(relay.Any(),))
    return relay.Function([start], found(relay.const(0), start))


def rounds() -> tvm.IRModule:
    """Return a loop that is one call of the VM."""
    text = """#[version = "0.0.5"]
    def @loop(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
      if (%n == 0) { %a } else { @loop(%n - 1, nn.softmax(%a)) } }
    def @main(%n: int32, %a: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] { @loop(%n, %a) }"""
    return relay.fromtext(text)


def places() -> relay.Function:
    """Return results whose sizes are counted in data."""
    x = relay.var("x", shape=(relay.Any(), 3))
    first, inverse, counts, _ = (relay.unique(relay.reshape(relay.cast(x, "int32"), [-1]))[at] for at in range(4))
    rows = relay.argwhere(relay.greater(x, relay.const(0.5)))
    return relay.Function([x], relay.Tuple([rows, relay.take(first, inverse), relay.nn.relu(counts)]))


ARRAYS = {
    chain: [np.ones((2, 3), "float32")],
    sizes: [np.ones((2, 3), "float32"), np.array([2, 3])],
    choice: [np.ones(4, "float32"), np.bool_(True)],
    loop: [np.ones(2, "float32")],
    rounds: [np.array(3, "int32"), np.ones((2, 3), "float32")],
    places: [np.array([[0, 1, 2], [3, 1, 0]], "float32")],
}


def seed(number: int) -> tuple[Executable, list[np.ndarray]]:
    """Return a program and what it is run with."""
    made = list(ARRAYS)[number % len(ARRAYS)]
    return compiled(made), ARRAYS[made]


@functools.cache
def compiled(made: Callable[[], relay.Function | tvm.IRModule]) -> Executable:
    """Return a program as it is when loaded: its kernels are not linked again for each machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.vmx"
        vmkit.compile(made(), "llvm").export(path)
        return vmkit.load(path)


def mutated(program: Program, draw: random.Random) -> Program:
    """Return a program of which one instruction or constant or two are others."""
    code, constants = list(program.instructions), list(program.constants)
    for _ in range(draw.choice([1, 1, 2])):
        at = draw.randrange(len(code))
        change = draw.random()
        if change < 0.2:
            at = draw.randrange(len(constants))
            constants[at] = _other_constant(constants[at], draw)
        elif change < 0.3:
            code[at] = code[draw.randrange(len(code))]
        elif change < 0.4:
            other = draw.randrange(len(code))
            code[at], code[other] = code[other], code[at]
        else:
            code[at] = _altered(code[at], program, draw)
    return replace(program, instructions=tuple(code), constants=tuple(constants))


def _other_constant(constant: Constant, draw: random.Random) -> Constant:
    match constant:
        case tuple():
            at, size = draw.randrange(len(constant) + 1), draw.choice([-1, 0, 1, 2, 7, 64, 1 << 31, 1 << 62])
            return (*constant[:at], *([] if draw.random() < 0.2 else [size]), *constant[at + 1 :])
        case DTypeConstant():
            return DTypeConstant(draw.choice([(2, 32, 1), (2, 64, 1), (0, 8, 1), (0, 64, 1), (5, 64, 1), (6, 8, 1)]))
        case TensorConstant():
            data = bytearray(constant.data)
            if draw.random() < 0.5 and data:
                data[draw.randrange(len(data))] = draw.choice([0, 1, 127, 128, 255])
                return replace(constant, data=bytes(data))
            shape = _other_constant(constant.shape, draw)
            return replace(constant, shape=shape) if isinstance(shape, tuple) else constant
    return constant


def _altered(instruction: Instruction, program: Program, draw: random.Random) -> Instruction:
    registers = max(f.register_file_size for f in program.vm_functions())
    register = draw.choice([draw.randrange(registers), draw.randrange(registers), VOID_REGISTER, VM_REGISTER])
    match instruction:
        case Call(destination, function, args):
            place = draw.randrange(len(args) + 2)
            if place == 0:
                return Call(register, function, args)
            if place == 1:
                return Call(destination, draw.randrange(len(program.functions)), args)
            kind = draw.choice([args[place - 2].kind, args[place - 2].kind, draw.choice(list(ArgKind))])
            value = {
                ArgKind.REGISTER: register,
                ArgKind.IMMEDIATE: draw.choice([-1, 0, 1, 2, 3, 5, 64, 1 << 20, 1 << 40, -(1 << 50)]),
                ArgKind.CONSTANT: draw.randrange(max(1, len(program.constants))),
                ArgKind.FUNCTION: draw.randrange(len(program.functions)),
            }[kind]
            return Call(destination, function, (*args[: place - 2], Arg(kind, value), *args[place - 1 :]))
        case Ret():
            return Ret(register)
        case Goto(offset):
            return Goto(offset + draw.choice([-3, -2, -1, 1, 2, 3]))
        case If(condition, offset):
            change = draw.choice([-3, -2, -1, 1, 2, 3])
            return If(register, offset) if draw.random() < 0.5 else If(condition, offset + change)


def outcome(number: int) -> Outcome:
    """Return what became of a mutant: refused when loaded, failed when run, ran; raised, which it must not."""
    executable, arrays = seed(number)
    program = mutated(executable.program, random.Random(number))
    try:
        program.validate()
        require_needs(program, executable.libraries)
    except VMKitError as error:
        return {"became": "refused", "said": str(error)}
    try:
        made = Executable(
            Parts(program, executable.libraries), executable.signatures, executable.target, executable.info
        )
        # A pool gives whole pages: without one, what is written past the end is seen by the allocator.
        memory = ("naive", "pooled")[number // len(ARRAYS) % 2]
        machine = vmkit.VirtualMachine(made, "cpu", memory, num_threads=1, timeout=0.2, max_memory=1 << 30)
        machine.run(*arrays)
    except VMKitError as error:
        return {"became": "failed", "said": str(error)}
    except Exception as error:
        return {"became": "raised", "said": repr(error)}
    return {"became": "ran", "said": ""}


if __name__ == "__main__":
    answer(lambda line: outcome(int(line)))
