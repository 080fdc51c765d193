"""The process that calls programs with odd inputs: a number in, what became of that call out."""

from __future__ import annotations

import functools
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import vmkit
from tests.children import Outcome, answer
from vmkit import relay
from vmkit.errors import VMKitError

ANY = relay.Any()
MEMORY = 1 << 30  # bytes beside those of the programs: what asks for 2^31 elements does not get them
Arrays = list[np.ndarray]


def fixed() -> relay.Function:
    """Return a program of a known shape."""
    x = relay.var("x", shape=(3, 4))
    return relay.Function([x], relay.add(relay.multiply(x, relay.const(2.0)), relay.const(1.0)))


def rows() -> relay.Function:
    """Return a program of two inputs that share a size."""
    n = tvm.tirx.Var("n", "int64")
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(n, 3))
    return relay.Function([x, y], relay.nn.relu(relay.add(x, y)))


def indices() -> relay.Function:
    """Return a program whose input says where another one is read."""
    x, i = relay.var("x", shape=(5,)), relay.var("i", shape=(relay.Any(),), dtype="int64")
    return relay.Function([x, i], relay.take(x, relay.clip(i, 0, 4)))


def numbers() -> relay.Function:
    """Return a program of scalars."""
    a, c = relay.var("a", shape=(), dtype="int32"), relay.var("c", shape=(), dtype="bool")
    return relay.Function([a, c], relay.where(c, relay.add(a, relay.const(1)), relay.negative(a)))


def kinds() -> relay.Function:
    """Return a program of several data types and a tuple of results."""
    u, h = relay.var("u", shape=(relay.Any(),), dtype="uint8"), relay.var("h", shape=(4,), dtype="float16")
    d = relay.var("d", shape=(2, relay.Any()), dtype="float64")
    results = [relay.cast(u, "int32"), relay.negative(h), relay.sum(d, axis=1), relay.transpose(d)]
    return relay.Function([u, h, d], relay.Tuple(results))


SCALARS: list[Any] = [None, True, -1, 2**31, 2**63, 2**80, 1.5, float("nan"), 1j, "text", b"bytes", ..., object]
Reference = Callable[..., Any]
PROGRAMS: list[tuple[Callable[[], relay.Function], Reference]] = [
    (fixed, lambda x: [x * np.float32(2) + 1]),
    (rows, lambda x, y: [np.maximum(x + y, 0)]),
    (indices, lambda x, i: [x[np.clip(i, 0, 4)]]),
    (numbers, lambda a, c: [a + np.int32(1) if c else -a]),
    (kinds, lambda u, h, d: [u.astype("int32"), -h, d.sum(1), d.T]),
]
DTYPES = [
    *("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "bool",
    *("complex64", "complex128", ">f4", ">i8", ">f8", "U3", "S2", "O", "M8[s]", "m8[ns]", "V4", "longdouble"),
    "f4,i4",
]  # fmt: skip
SIZES = [0, 1, 2, 3, 7, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 59, 1 << 62]


@functools.cache
def machine(number: int) -> vmkit.VirtualMachine:
    """Return a machine for one of the programs, which is used again and again."""
    executable = vmkit.compile(PROGRAMS[number][0](), "llvm")
    return vmkit.VirtualMachine(executable, "cpu", num_threads=1, max_memory=1 << 30)


def right(number: int, draw: random.Random) -> Arrays:
    """Return inputs as a program wants them, with sizes that are drawn."""
    n, values = draw.choice([0, 1, 2, 5, 33]), np.random.default_rng(draw.randrange(1 << 30))
    shapes: list[list[tuple[tuple[int, ...], str]]] = [
        [((3, 4), "float32")],
        [((n, 3), "float32"), ((n, 3), "float32")],
        [((5,), "float32"), ((n,), "int64")],
        [((), "int32"), ((), "bool")],
        [((n,), "uint8"), ((4,), "float16"), ((2, n), "float64")],
    ]
    return [np.asarray(values.integers(0, 9, shape)).astype(dtype) for shape, dtype in shapes[number]]


def odd(array: np.ndarray, draw: random.Random) -> Any:
    """Return another value in the place of an array; some of them hold the same elements."""
    change = draw.choice(CHANGES)
    try:
        return change(array, draw)
    except Exception:  # numpy or TVM itself has no such array, and each says so in its own way
        return None


def _other_dtype(array: np.ndarray, draw: random.Random) -> Any:
    return array.astype(draw.choice(DTYPES))


def _other_rank(array: np.ndarray, draw: random.Random) -> Any:
    if draw.random() < 0.5 and array.ndim:
        return array[0] if len(array) else array.reshape(-1)
    return array.reshape((1,) * draw.randrange(1, 40 - array.ndim if draw.random() < 0.1 else 4) + array.shape)


def _other_sizes(array: np.ndarray, draw: random.Random) -> Any:
    shape = [draw.choice(SIZES[:5]) if draw.random() < 0.5 else size for size in array.shape]
    return np.ones(shape, array.dtype)


def _huge(array: np.ndarray, draw: random.Random) -> Any:
    """Return one element, as many times as there is no memory for."""
    shape = [draw.choice(SIZES) for _ in array.shape] if draw.random() < 0.5 else list(array.shape)
    if shape:
        shape[draw.randrange(len(shape))] = draw.choice(SIZES[5:])
    return np.lib.stride_tricks.as_strided(np.ones(1, array.dtype), shape, [0] * len(shape))


def _other_strides(array: np.ndarray, draw: random.Random) -> Any:
    doubled = np.repeat(array, 2, axis=-1) if array.ndim else array
    ways = [
        lambda: array[..., ::-1] if array.ndim else array,
        lambda: doubled[..., ::2] if array.ndim else array,
        lambda: np.asfortranarray(array),
        lambda: array.T,
        lambda: np.broadcast_to(array[:1], array.shape) if array.ndim and len(array) else array,
    ]
    return draw.choice(ways)()


def _other_place(array: np.ndarray, draw: random.Random) -> Any:
    """Return the same elements at another address."""
    offset = draw.choice([1, 2, 3, 4, 8, 16, 32, 63])
    memory = np.empty(array.nbytes + offset, "uint8")
    made = memory[offset:].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _read_only(array: np.ndarray, draw: random.Random) -> Any:
    made = array.copy()
    made.flags.writeable = False
    return made


def _other_kind(array: np.ndarray, draw: random.Random) -> Any:
    kinds: list[Callable[[], Any]] = [
        array.tolist,
        lambda: memoryview(array),
        lambda: array.tobytes(),
        lambda: np.ma.masked_array(array, mask=np.ones(array.shape, bool)),
        lambda: np.asmatrix(array),
        lambda: tvm.runtime.tensor(array),
        lambda: tvm.runtime.tensor(array.astype(draw.choice(DTYPES[:12]))),
        lambda: (array,),
        lambda: [array, array],
        lambda: {"x": array},
        lambda: draw.choice(
            [None, True, -1, 2**31, 2**63, 2**80, 1.5, float("nan"), 1j, "text", b"bytes", ..., object]
        ),
        lambda: iter(array.tolist()),
        lambda: array.reshape(-1)[0] if array.size else array,
    ]
    return draw.choice(kinds)()


CHANGES: list[Callable[[np.ndarray, random.Random], Any]] = [
    _other_dtype, _other_rank, _other_sizes, _huge, _other_strides, _other_place, _read_only, _other_kind,
]  # fmt: skip


def outcome(number: int) -> Outcome:
    """Return what became of a call: refused, or ran with right results, or what it must not."""
    draw = random.Random(number)
    which = draw.randrange(len(PROGRAMS))
    arrays = right(which, draw)
    given: list[Any] = list(arrays)
    for _ in range(draw.choice([1, 1, 1, 2])):
        at = draw.randrange(len(given))
        given[at] = odd(given[at], draw) if isinstance(given[at], np.ndarray) else given[at]
    if draw.random() < 0.03 and len(given) > 1:
        given = given[1:] if draw.random() < 0.5 else [*given, given[0]]
    try:
        if draw.random() < 0.2:
            names = [spec.name for spec in machine(which).executable.signature.inputs]
            given = given[: len(names)]
            machine(which).set_input("main", **dict(zip(names, given, strict=False)))
            result = machine(which).run()
        else:
            result = machine(which).run(*given)
        found = [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]
    except VMKitError as error:
        said = str(error)
        return {"became": "refused" if 10 < len(said) < 5000 and "0x" not in said else "raised", "said": said}
    except BaseException as error:
        return {"became": "raised", "said": repr(error)}
    problem = _problem(which, given, arrays, found)
    return {"became": "differs" if problem else "ran", "said": problem}


def _problem(which: int, given: list[Any], arrays: Arrays, found: Arrays) -> str:
    """Say what is wrong with the results for inputs that were taken: numpy's for the same elements are right."""
    try:
        same = [
            np.asarray(each.numpy() if isinstance(each, tvm.runtime.Tensor) else each, array.dtype)
            for each, array in zip(given, arrays, strict=True)
        ]
        for got, want in zip(found, PROGRAMS[which][1](*same), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3 if got.dtype == "float16" else 1e-6)
            assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype, (got.dtype, got.shape)
    except (AssertionError, ValueError, TypeError, IndexError, OverflowError) as error:
        return f"{[type(each).__name__ for each in given]} of {which}: {error}"
    return ""


if __name__ == "__main__":
    for number in range(len(PROGRAMS)):
        machine(number)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    answer(lambda line: outcome(int(line)))
