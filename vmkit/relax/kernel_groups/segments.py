"""Which kernels that follow each other are in one group.

A group is not too large for LLVM, nor for one core, which builds its kernels. Where kernels repeat, as in the layers of
a model, groups end where the layers do: groups of equal kernels in equal places are one function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from tvm import ir, relax, tirx

from ..aliases import STORAGE, TENSOR, home_of, is_call, is_silent
from ..shape_checks import is_check
from .flags import looks_at_flag
from .functions import KernelCall
from .looks import bytes_of
from .repeats import Repeat, repeats

__all__ = ["segments"]

_MOST_TENSORS = 64  # that a group takes from outside and leaves, so that its function does not grow too large for LLVM

# Kernels of one group are built by one core, and calling one group more takes 0.2 us. So a group of this many different
# kernels ends once its calls have read and written so many bytes, which no processor does in less than a hundred times
# that.
_ENOUGH_KERNELS = 8
_ENOUGH_BYTES = 4 << 20

# Constants are most of these bytes, and come from beyond the caches nearest to a core: 20 us at 50 GB/s.
_REPEATED_BYTES = 1 << 20

Calls = Mapping[ir.Var, KernelCall]
Memory = Mapping[relax.Expr, relax.Expr]


def segments(
    bindings: Sequence[relax.Binding], calls: Calls, memory: Memory, last: Mapping[ir.Var, int]
) -> Iterator[tuple[int, int]]:
    """Yield the ends of parts of a sequence; in each either all bindings may be in one group, or there is but one.

    Parameters
    ----------
    calls
        Of kernels, by the variables that they are bound to.
    memory
        What is known to be memory, or to name it, in the sequence and before it.
    last
        The position of the last binding that reads a variable.
    """
    starts = _starts(bindings, calls, memory)
    until = _last_uses_of_homes(bindings, memory, last)
    start, own, given, left = 0, set[relax.Expr](), set[relax.Expr](), set[relax.Expr]()
    kernels, moved = set[ir.GlobalVar](), 0
    for position, binding in enumerate(bindings):
        call = calls.get(binding.var)
        if call is None and not is_silent(binding) and not is_check(binding):
            if start < position:
                yield start, position
            yield position, position + 1
            start, own, given, left, kernels, moved = position + 1, set(), set(), set(), set(), 0
            continue
        # What a kernel finds wrong is said before what sizes that are compared after it would be.
        is_after_flag = is_check(binding) and any(map(looks_at_flag, kernels))
        if is_after_flag or (position in starts and kernels):
            yield start, position
            start, own, given, left, kernels, moved = position, set(), set(), set(), set(), 0
        if call is not None:
            taken = set(call.tensors) - own
            made = {home_of(tensor, memory) for tensor in call.tensors if tensor in own}
            left = {home for home in left | made if until.get(home, -1) > position}
            is_enough = len(kernels) >= _ENOUGH_KERNELS and moved >= _ENOUGH_BYTES
            if kernels and (len(given | taken) + len(left) > _MOST_TENSORS or is_enough):
                yield start, position
                start, own, given, left, kernels, moved = position, set(), set(), set(), set(), 0
                taken = set(call.tensors)
            given |= taken
            kernels.add(call.kernel)
            moved += _bytes_moved(call)
        own.add(binding.var)
    if start < len(bindings):
        yield start, len(bindings)


def _last_uses_of_homes(
    bindings: Sequence[relax.Binding], memory: Memory, last: Mapping[ir.Var, int]
) -> dict[relax.Expr, int]:
    """Return by tensor the position of the last binding that reads it or a view of it."""
    until: dict[relax.Expr, int] = {}
    for var in (binding.var for binding in bindings if is_silent(binding)):
        home = home_of(var, memory)
        until[home] = max(until.get(home, -1), last.get(var, -1))
    return until


def _bytes_moved(call: KernelCall) -> int:
    """Return how many bytes the tensors of a call have that are of known size."""
    return sum(int(size) for size in map(bytes_of, call.tensors) if isinstance(size, tirx.IntImm))


def _starts(bindings: Sequence[relax.Binding], calls: Calls, memory: Memory) -> set[int]:
    """Return the positions of bindings that begin a group because kernels repeat."""
    # What ends a group is equal to nothing, so nothing repeats across it.
    marked = [p for p, b in enumerate(bindings) if b.var in calls or not is_silent(b)]
    kernels = [calls[bindings[p].var].kernel if bindings[p].var in calls else p for p in marked]
    found = [repeat for repeat in repeats(kernels) if repeat.end - repeat.start - repeat.period >= _ENOUGH_KERNELS]
    if not found:
        return set()
    ours = [calls.get(bindings[p].var) for p in marked]
    live = _live(ours, memory)
    moved = [0, *accumulate(0 if call is None else _bytes_moved(call) for call in ours)]
    runs = _runs(ours)
    cuts: list[int] = []
    for repeat in found:
        start, end = runs[repeat.start]
        cuts += _cuts(repeat, (max([start, *cuts[-1:]]), end), live, moved)
    return {_beginning(bindings, marked[cut - 1] + 1 if cut else 0, marked[cut]) for cut in cuts}


def _cuts(repeat: Repeat, run: tuple[int, int], live: Sequence[int], moved: Sequence[int]) -> list[int]:
    """Return the positions among the calls where groups begin so that most of a repeat is equal groups; none may be.

    Each has whole periods, as many as move enough bytes, from where the fewest tensors go from one to the next. No
    kernel of a `run`, which is from where a group begins to where one must end, is left alone before them or after
    them, for it would be no group.

    Parameters
    ----------
    live
        By position, how many tensors are used both before and from there.
    moved
        By position, how many bytes the calls before it have read and written.
    """
    first, period = repeat.start, repeat.period
    bytes_once = moved[first + period] - moved[first]
    if not bytes_once:
        return []
    length = period * -(-_REPEATED_BYTES // bytes_once)
    best: tuple[int, range] | None = None
    for start in range(first, first + period):
        count = (repeat.end - start) // length
        end = start + count * length
        is_alone = start - run[0] == 1 or run[1] - end == 1
        if count >= 2 and not is_alone and (best is None or live[start + length] < best[0]):
            best = live[start + length], range(start, end + (end < run[1]), length)
    return [] if best is None else list(best[1])


def _runs(calls: Sequence[KernelCall | None]) -> list[tuple[int, int]]:
    """Return for each position the ends of the stretch of calls that it is in."""
    bounds = [-1, *(position for position, call in enumerate(calls) if call is None), len(calls)]
    return [(a + 1, b) for a, b in pairwise(bounds) for _ in range(a + 1, b + 1)]


def _live(calls: Sequence[KernelCall | None], memory: Memory) -> list[int]:
    """Return how many tensors that the program allocates are used both before and from each position."""
    uses: dict[relax.Expr, list[int]] = {}
    for position, call in enumerate(calls):
        for home in () if call is None else {home_of(tensor, memory) for tensor in call.tensors}:
            if is_call(memory.get(home), TENSOR):
                uses.setdefault(home, []).append(position)
    change = [0] * (len(calls) + 2)
    for positions in uses.values():
        change[positions[0] + 1] += 1
        change[positions[-1] + 1] -= 1
    return list(accumulate(change))


def _beginning(bindings: Sequence[relax.Binding], start: int, call: int) -> int:
    """Return the position, from `start` on, where memory for a call begins to be made; the call's if none is."""
    makes = (p for p in range(start, call) if any(is_call(bindings[p].value, each) for each in (STORAGE, TENSOR)))
    return next(makes, call)
