"""Machine code of 64-bit ARM processors as text, cut into basic blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Block", "blocks_of", "with_counters"]

COUNTERS = "estimated_counts"
MOST = 4095  # blocks whose counters one load can reach
_LABEL = re.compile(r"^([.\w$]+):")
_LEAVES = re.compile(r"^(b|b\.\w+|br|ret|cbn?z|tbn?z)\s")


@dataclass(frozen=True)
class Block:
    """A basic block.

    Attributes
    ----------
    first : int
        The line of its first instruction.
    instructions : tuple of str
        Its instructions.
    is_loop : bool
        Whether its last instruction goes back to its first.
    """

    first: int
    instructions: tuple[str, ...]
    is_loop: bool


def blocks_of(lines: Sequence[str]) -> list[Block]:
    """Return the basic blocks of a listing."""
    found: list[Block] = []
    first, label, body = 0, "", list[str]()

    def end() -> None:
        if body:
            found.append(Block(first, tuple(body), bool(label) and body[-1].split()[-1] == label))
        body.clear()

    for number, line in enumerate(lines):
        text = line.split("//")[0].strip()
        named = _LABEL.match(text)
        if named and not named[1].startswith((".Ltmp", ".Lfunc")):
            end()
            label = named[1]
        if named or not text or text.startswith("."):
            continue
        if not body:
            first = number
        body.append(" ".join(text.split()))
        if _LEAVES.match(f"{text} "):
            end()
            label = ""
    end()
    return found


def with_counters(lines: Sequence[str], blocks: Iterable[Block]) -> str:
    """Return a listing in which each block counts how often it begins; x18 is taken to be free, flags are kept."""
    count_at = {block.first: number for number, block in enumerate(blocks)}
    made: list[str] = []
    for number, line in enumerate(lines):
        if number in count_at:
            place = f"[x18, #{8 * count_at[number]}]"
            made += [
                " str x27, [sp, #-16]",
                f" adrp x18, {COUNTERS}",
                f" add x18, x18, :lo12:{COUNTERS}",
                f" ldr x27, {place}",
                " add x27, x27, #1",
                f" str x27, {place}",
                " ldr x27, [sp, #-16]",
            ]
        # Assemblers differ in what they take of the lines for debuggers.
        if not line.strip().startswith((".file", ".loc")):
            made.append(line)
    return "\n".join([*made, f" .comm {COUNTERS}, {8 * (len(count_at) + 1)}, 8", ""])
