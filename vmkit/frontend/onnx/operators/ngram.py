"""TfIdfVectorizer: how often n-grams occur."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .... import relay
from ....relay.ir import Expr, dims
from ....relay.op import build
from ....relay.op.text import text_numbers
from ....values.digests import digests
from ....values.texts import as_texts
from ..context import Context
from ..known import constant
from ..registry import converter

_MODES = ("TF", "IDF", "TFIDF")


@converter("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    ctx: Context,
    x: Expr,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Expr:
    if mode not in _MODES:
        ctx.fail(f"mode is {mode!r}; it is one of {', '.join(_MODES)}")
    if bool(pool_int64s) == bool(pool_strings):
        ctx.fail("it needs n-grams, either in pool_int64s or in pool_strings")
    if not 1 <= min_gram_length <= max_gram_length or max_skip_count < 0 or min(ngram_indexes, default=-1) < 0:
        ctx.fail(
            f"min_gram_length is {min_gram_length}, max_gram_length {max_gram_length}, max_skip_count "
            f"{max_skip_count}: lengths begin with 1, and no number is negative, those in ngram_indexes included"
        )
    if pool_strings and ctx.dtype(x) != "string":
        ctx.fail(f"pool_strings holds strings, but the input is {ctx.dtype(x)}")
    if pool_int64s and not ctx.dtype(x).startswith("int"):
        ctx.fail(f"pool_int64s holds integers, but the input is {ctx.dtype(x)}")
    pool = digests(as_texts(list(pool_strings))).tolist() if pool_strings else list(pool_int64s)
    outputs = max(ngram_indexes) + 1
    tree = _tree(ctx, pool, ngram_counts, ngram_indexes, min_gram_length, max_gram_length)
    rows = _rows(ctx, text_numbers(x, as_texts(list(pool_strings))) if pool_strings else relay.cast(x, "int64"))
    counts = build(
        "contrib_ngram_count", rows, *[constant(table) for table in _tables(tree)],
        outputs=outputs, min_length=min_gram_length, max_length=max_gram_length, max_skip=max_skip_count,
    )  # fmt: skip
    if mode == "IDF":
        counts = relay.minimum(counts, ctx.constant(1.0, "float32"))
    if mode != "TF" and weights:
        if len(weights) != len(ngram_indexes):
            ctx.fail(f"weights has {len(weights)} elements for {len(ngram_indexes)} n-grams")
        factors = np.zeros(outputs, "float32")
        factors[list(ngram_indexes)] = weights
        counts = relay.multiply(counts, constant(factors))
    return counts if ctx.rank(x) == 2 else relay.squeeze(counts, axis=[0])


def _rows(ctx: Context, x: Expr) -> Expr:
    if ctx.rank(x) > 2:
        ctx.fail(f"the input must be a vector or a matrix, not {ctx.type(x)}")
    if ctx.rank(x) == 0:
        return relay.reshape(x, [1, 1])
    if ctx.rank(x) == 2 and dims.equal(ctx.shape(x)[1], 0) is True:
        ctx.fail("rows without elements have no n-grams")
    return x if ctx.rank(x) == 2 else relay.expand_dims(x, 0)


def _tree(
    ctx: Context, pool: list[int], starts: Sequence[int], indexes: Sequence[int], least: int, most: int
) -> dict[int, Any]:
    """Return the n-grams as nested dictionaries: element to [output or -1, what follows]."""
    tree: dict[int, Any] = {}
    number = 0
    bounds = [*starts, len(pool)]
    if bounds != sorted(bounds) or any(b < 0 for b in bounds):
        ctx.fail(f"ngram_counts {list(starts)} are not places in a pool of {len(pool)}")
    for length, (begin, end) in enumerate(pairwise(bounds), start=1):
        if (end - begin) % length:
            ctx.fail(f"the pool has {end - begin} elements for n-grams of {length}")
        for at in range(begin, end, length):
            if number >= len(indexes):
                ctx.fail(f"ngram_indexes has {len(indexes)} elements, but there are more n-grams")
            if least <= length <= most:
                behind = tree
                for element in pool[at : at + length - 1]:
                    behind = behind.setdefault(element, [-1, {}])[1]
                behind.setdefault(pool[at + length - 1], [-1, {}])[0] = indexes[number]
            number += 1
    return tree


def _tables(tree: dict[int, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys, children and outputs of the nodes of a tree, the root first, level by level."""
    keys, children, outputs = [0], [[0, 0]], [-1]
    level = [(0, tree)]
    while level:
        below = []
        for place, behind in level:
            children[place] = [len(keys), len(keys) + len(behind)]
            for key in sorted(behind):
                output, following = behind[key]
                below.append((len(keys), following))
                keys.append(key)
                children.append([0, 0])
                outputs.append(output)
        level = below
    return np.array(keys, "int64"), np.array(children, "int32"), np.array(outputs, "int32")
