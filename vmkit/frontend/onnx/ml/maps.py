"""Maps made of scores, and maps as rows of a tensor.

Source: onnxruntime/core/providers/cpu/ml/zipmap.cc, cast_map.cc and dictvectorizer.cc, whose maps are in the order of
their keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .... import relay
from ....relay.ir import Expr, MapType, dims
from ....relay.op import build
from ....relay.op.text import text_numbers
from ....values.digests import digests
from ....values.texts import as_texts
from ..context import Context
from ..known import constant
from ..operators.conversion import casted
from ..registry import converter
from ..typing import typed
from .scores import class_labels

DOMAIN = "ai.onnx.ml"
_CASTS = {"TO_FLOAT": "float32", "TO_STRING": "string", "TO_INT64": "int64"}


@converter("ZipMap", domain=DOMAIN)
def zip_map(
    ctx: Context, x: Expr, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> Expr:
    """A map of each row, from the labels of its columns. Of labels that are equal the last one holds."""
    labels = class_labels(ctx, classlabels_strings, classlabels_int64s)
    if ctx.rank(x) not in (1, 2) or ctx.dtype(x) != "float32":
        ctx.fail(f"the input must be a vector or a matrix of float32, not {ctx.type(x)}")
    if dims.equal(ctx.shape(x)[-1], labels.size) is False:
        ctx.fail(f"there are {labels.size} labels for {ctx.shape(x)[-1]} columns")
    if not isinstance(ctx.shape(x)[-1], int):
        width = relay.take(relay.shape_of(x, dtype="int64"), ctx.constant(ctx.rank(x) - 1, "int64"), axis=0)
        fits = relay.equal(width, ctx.constant(labels.size, "int64"))
        x = build("dyn.require", x, fits, message=f"ZipMap: the input has not the {labels.size} columns of its labels")
    rows = relay.expand_dims(x, 0) if ctx.rank(x) == 1 else x
    places = {label: place for place, label in enumerate(labels.tolist())}
    keys = sorted(places)
    if [places[key] for key in keys] != list(range(labels.size)):
        rows = relay.take(rows, ctx.constant([places[key] for key in keys], "int64"), axis=1)
    return build("map.construct", constant(as_texts(keys) if classlabels_strings else np.array(keys, "int64")), rows)


def _parts(ctx: Context, x: Expr) -> tuple[Expr, Expr]:
    """Return the keys of a map in their order, and its values."""
    ty = typed(x).checked_type_
    if not isinstance(ty, MapType) or len(ty.values.shape) != 1:
        ctx.fail(f"the input must be a map, not {ty}")
    return typed(build("map.keys", x)), typed(build("map.values", x))


@converter("CastMap", domain=DOMAIN)
def cast_map(ctx: Context, x: Expr, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Expr:
    """The values of a map as a row: as they come, or each at the place that its key says."""
    if cast_to not in _CASTS or map_form not in ("DENSE", "SPARSE"):
        ctx.fail(f"cast_to is {cast_to!r} and map_form {map_form!r}; they are {', '.join(_CASTS)}, and DENSE or SPARSE")
    keys, values = _parts(ctx, x)
    if ctx.dtype(keys) != "int64":
        ctx.fail(f"the keys of the map must be int64, not {ctx.dtype(keys)}")
    dtype = _CASTS[cast_to]
    made = _as_type(ctx, values, dtype)
    if map_form == "DENSE":
        return relay.expand_dims(made, 0)
    if max_map < 1:
        ctx.fail(f"max_map is {max_map}; a sparse map is a row of at least 1")
    zero, size = ctx.constant(0, "int64"), ctx.constant(max_map, "int64")
    negative = relay.any(relay.less(keys, zero))
    message = "CastMap: a key is negative, and is the place of no value"
    keys = build("dyn.require", keys, relay.logical_not(negative), message=message)
    # onnxruntime fills rows of texts up with this one.
    filling = np.array("0.f", object) if dtype == "string" else np.zeros((), dtype)
    return relay.expand_dims(_placed(ctx, relay.minimum(keys, size), made, max_map, filling), 0)


def _as_type(ctx: Context, values: Expr, dtype: str) -> Expr:
    """Return values in another type; numbers have six digits behind the point, as C writes them."""
    if dtype == "string" and ctx.dtype(values).startswith("float"):
        return typed(build("contrib_string_from_number", values, "%f"))
    return typed(casted(ctx, values, dtype))


def _placed(ctx: Context, places: Expr, values: Expr, size: int, filling: np.ndarray) -> Expr:
    """Return a vector that has values at their places, and something else elsewhere; the place past its end is none."""
    dtype, whole = ctx.dtype(values), constant(np.full(size + 1, filling))
    if dtype == "string":
        whole, values = build("contrib_to_stored", whole), build("contrib_to_stored", values)
    whole = relay.scatter_elements(whole, places, values, 0, "update")
    row = relay.strided_slice(whole, [0], [size], axes=[0])
    return build("contrib_from_stored", row, dtype) if dtype == "string" else row


@converter("DictVectorizer", domain=DOMAIN)
def dict_vectorizer(
    ctx: Context, x: Expr, *, int64_vocabulary: Sequence[int] = (), string_vocabulary: Sequence[str] = ()
) -> Expr:
    """A row with the value of each key of the vocabulary, 0 or an empty text for those that the map lacks."""
    vocabulary = class_labels(ctx, string_vocabulary, int64_vocabulary)
    keys, values = _parts(ctx, x)
    if ctx.dtype(keys) != ("string" if string_vocabulary else "int64"):
        ctx.fail(f"the vocabulary is of {'strings' if string_vocabulary else 'int64'}, the map of {ctx.dtype(keys)}")
    stored = digests(vocabulary) if string_vocabulary else vocabulary
    table, place_of = np.unique(stored, return_inverse=True)
    found = build("contrib_find", text_numbers(keys, vocabulary) if string_vocabulary else keys, constant(table))
    empty = np.array("", object) if ctx.dtype(values) == "string" else np.zeros((), ctx.dtype(values))
    row = typed(_placed(ctx, found, values, table.size, empty))
    if not np.array_equal(place_of, np.arange(table.size)):
        row = relay.take(row, constant(place_of.astype("int64")), axis=0)
    return relay.expand_dims(row, 0)
