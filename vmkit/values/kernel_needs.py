"""What kernel groups and their machine agree on: what a group needs of its tensors, and how a loop is stopped.

A group takes the memory that the program made for it as it is, without a look at it in each call. What it needs there
stands in its library, which is code, and not in what a file says of it: a function that is called as the group is, with
:data:`SUFFIX` at the end, hands the text of its needs to :data:`TELL`. Loading a file compares the bytecode with that.

A long group, or a loop, counts down bytes in its *state*, a constant of the program that begins as :data:`RUN_STATE`:
eight numbers, of which the first is so large that it is never used up, so that a machine without vmkit runs it, too.
Ours puts :data:`LOOK_BYTES` there. Whenever so many are used up, the group looks at what the machine wrote behind it:

====  ==================================================================================================
1     whether :data:`POLL` is to be called
2     the address of the error that says that one is set in Python, which handlers of signals may do: to
      make an error of its own takes TVM a fifth of a second, the first time
3     the thread that handlers of signals run on, as ``pthread_self`` has it; they take Python's lock, so
      they are run there alone, and once in :data:`SIGNAL_SECONDS`
4     when they were run last, in nanoseconds
5, 6  seconds and nanoseconds of now
====  ==================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

from .._dataclasses import dataclass
from ..errors import ExecutableError

__all__ = [
    "LOOK_BYTES",
    "POLL",
    "RUN_STATE",
    "SIGNAL_SECONDS",
    "STATE",
    "SUFFIX",
    "TELL",
    "KnownTensor",
    "Need",
    "dtype_name",
    "is_nameable",
    "needs_of_text",
    "needs_text",
]

SUFFIX = "_needs"
TELL = "vmkit.kernel_needs"
POLL = "vmkit.poll"
"""Called where a program is asked to end: it fails if that is so."""
RUN_STATE = b"vmkit.state_of_runs".ljust(64, b"\0")
STATE = "state"
"""What a group needs in the place of its state: the constant, by which a machine finds it."""
LOOK_BYTES = 1 << 23
"""Bytes of tensors that kernels are given between two looks: a tenth of a millisecond to some ten of them."""
SIGNAL_SECONDS = 0.02


_COMPLEX, _LAST_CODE = 5, 17  # DLPack's codes of data types: complex numbers, float4_e2m1fn


@dataclass(frozen=True)
class KnownTensor:
    """The data type, as DLPack's code, bits and lanes, and the extents of a tensor."""

    dtype: tuple[int, int, int]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}{list(self.shape)}"

    @property
    def bits(self) -> int:
        """How many bits its elements have together."""
        return self.dtype[1] * self.dtype[2] * prod(self.shape)

    @property
    def is_possible(self) -> bool:
        """Whether no extent is negative, and 63 bits count its bits: the VM multiplies without a look."""
        return min(self.shape, default=0) >= 0 and self.bits < 1 << 63


def dtype_name(dtype: tuple[int, int, int]) -> str:
    """Return the name of a DLPack dtype: ``(2, 32, 1)`` is ``float32``."""
    code, bits, lanes = dtype
    if code == 6:
        base = "bool"
    else:
        prefix = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex"}.get(code, f"custom{code}_")
        base = f"{prefix}{bits}"
    if (code, bits) == (1, 1):
        base = "bool"
    return base if lanes == 1 else f"{base}x{lanes}"


def is_nameable(dtype: tuple[int, int, int]) -> bool:
    """Say whether TVM has a name for a data type; an error that is to show another, as complex64, ends the process."""
    code, bits, lanes = dtype
    return 0 <= code <= _LAST_CODE and code != _COMPLEX and bits > 0 and lanes > 0


Need = KnownTensor | str | None
"""What a group needs of an argument: a tensor, :data:`STATE`, or nothing where it looks at it by itself."""


def needs_text(needs: Sequence[Need]) -> str:
    """Return what a group needs of its arguments, by their positions, as text."""
    return json.dumps([[one.dtype, one.shape] if isinstance(one, KnownTensor) else one for one in needs])


def needs_of_text(text: str) -> tuple[Need, ...]:
    """Return what :func:`needs_text` wrote.

    Raises
    ------
    ExecutableError
        If the text is something else.
    """
    try:
        return tuple(one if one is None or one == STATE else _known(*one) for one in json.loads(text))
    except (ValueError, TypeError, LookupError) as error:
        raise ExecutableError(f"a library says what cannot be read of its kernel groups: {text:.80}") from error


def _known(dtype: Sequence[int], shape: Sequence[int]) -> KnownTensor:
    code, bits, lanes = dtype
    return KnownTensor((code, bits, lanes), tuple(map(int, shape)))
