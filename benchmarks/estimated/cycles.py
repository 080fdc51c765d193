"""Cycles of a kernel: how often each of its basic blocks runs, times what llvm-mca's model of a processor says of it.

A block that is a loop by itself counts as what one of many iterations takes, with what these wait for from each other;
any other block as what the processor's units need for it. Every load is taken to find its data in the first cache, and
every branch to be foreseen: so what is decided about memory (which operand stays in the cache, what is fetched ahead)
cannot be judged by this, and what calls of the C library take is not in it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from .blocks import Block, blocks_of
from .counts import Operand, counts

__all__ = ["MODEL", "cycles"]

MODEL = "llvm-mca-19"
_ITERATIONS = 100
_SHARE = 0.999  # of all instructions that run: the rest counts as two a cycle


def cycles(assembly: str, cpu: str, operands: Sequence[Operand]) -> float:
    """Return the cycles that one call of ``kernel`` in a listing takes; raises as :func:`.counts.counts` does."""
    lines = assembly.splitlines()
    blocks = blocks_of(lines)
    with tempfile.TemporaryDirectory() as folder:
        often = counts(lines, blocks, operands, Path(folder))
    weights = [count * len(block.instructions) for count, block in zip(often, blocks, strict=True)]
    left, total = sum(weights), 0.0
    least = left * (1 - _SHARE)
    for weight, count, block in sorted(zip(weights, often, blocks, strict=True), key=lambda entry: -entry[0]):
        if left <= least:
            break
        left -= weight
        total += count * _of_block(block, cpu)
    return total + left / 2


def _of_block(block: Block, cpu: str) -> float:
    branch = re.compile(r"^(b\.\w+|b|cbn?z \w+,|tbn?z \w+, #\d+,) [.\w$]+$")
    calls = re.compile(r"^(bl|blr) .*$")
    body = [branch.sub(r"\1 0b", text) for text in block.instructions if not calls.match(text)]
    return _by_model("\n".join(["0:", *body, ""]), cpu, block.is_loop)


@lru_cache(maxsize=100_000)
def _by_model(text: str, cpu: str, is_loop: bool) -> float:
    command = [MODEL, "-march=aarch64", f"-mcpu={cpu}", f"-iterations={_ITERATIONS}"]
    said = subprocess.run(command, input=text, capture_output=True, text=True)
    found = re.search(r"Total Cycles: +(\d+)[\s\S]*Block RThroughput: +([\d.]+)", said.stdout)
    if found is None:
        raise ValueError(f"{MODEL} cannot judge a block: {said.stderr.strip()[:300]}")
    return int(found[1]) / _ITERATIONS if is_loop else float(found[2])
