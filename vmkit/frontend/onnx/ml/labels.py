"""Values exchanged for others: encoders of labels and categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr
from ....relay.op import build
from ....relay.op.text import text_numbers
from ....values.digests import digests
from ....values.texts import as_texts
from ..context import Context
from ..dtype import numpy_tensor
from ..known import constant
from ..registry import converter

DOMAIN = "ai.onnx.ml"

_SPARSE = 8  # integers of which one is a key, at least, are counted and not searched


def found(ctx: Context, x: Expr, keys: np.ndarray) -> tuple[Expr, np.ndarray]:
    """Return where in a sorted table each element stands, and which of the keys each place of the table is.

    The table of integers that lie close to each other has a place for each between them, -1 for those that are no keys:
    it need not be searched. Places past the keys are of elements that are none of them; the first of equal keys stands
    for all. What is no number, if it is a key, has the last of those places.
    """
    stored = digests(keys) if keys.dtype == object else keys
    # Before version 4, onnxruntime finds no key that is no number.
    has_missing = stored.dtype.kind == "f" and bool(np.isnan(stored).any()) and ctx.version >= 4
    missing = int(np.flatnonzero(np.isnan(stored))[0]) if has_missing else -1
    plain = np.flatnonzero(~np.isnan(stored)) if stored.dtype.kind == "f" else np.arange(stored.size)
    table, first = np.unique(stored[plain], return_index=True)
    order = plain[first]
    if table.dtype.kind == "i" and keys.dtype != object and table.size:
        low, high = int(table[0]), int(table[-1])
        if high - low < _SPARSE * table.size:
            return _counted_from(ctx, x, low, high), _with_gaps(table, order)
    source = text_numbers(x, keys) if keys.dtype == object else x
    place = build("contrib_find", source, constant(table))
    if has_missing:
        # Elements that are no key come last but one then.
        last = ctx.constant(table.size + 1, "int64")
        return relay.where(relay.isnan(x), last, place), np.array([*order, -1, missing])
    return place, np.array([*order, -1])


def _counted_from(ctx: Context, x: Expr, low: int, high: int) -> Expr:
    """Return by how much integers are above the least key, and for those out of the keys' range the first past it."""
    dtype = ctx.dtype(x)
    ends = ctx.constant(low, dtype), ctx.constant(high, dtype)
    is_inside = relay.logical_and(relay.greater_equal(x, ends[0]), relay.less_equal(x, ends[1]))
    above = relay.cast(relay.subtract(x, ends[0]), "int64")
    return relay.where(is_inside, above, ctx.constant(high - low + 1, "int64"))


def _with_gaps(table: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return which of the keys each integer of a sorted table's range is, -1 for one that is none and at the end."""
    places = table.astype("int64") - int(table[0])
    whole = np.full(int(places[-1]) + 2, -1, order.dtype)
    whole[places] = order
    return whole


def exchanged(ctx: Context, x: Expr, keys: np.ndarray, values: np.ndarray, default: Any) -> Expr:
    """Return for each element the value of its key, or the default."""
    if len(keys) != len(values):
        ctx.fail(f"there are {len(keys)} keys and {len(values)} values")
    own = ctx.dtype(x)
    theirs = "string" if keys.dtype == object else str(keys.dtype)
    if own != theirs:
        ctx.fail(f"the keys are {theirs}, but the input is {own}")
    place, order = found(ctx, x, keys)
    with_default = np.empty(len(values) + 1, values.dtype)
    with_default[:-1], with_default[-1] = values, default
    return relay.take(constant(with_default[order]), place, axis=0)


@converter("CategoryMapper", domain=DOMAIN)
def category_mapper(
    ctx: Context,
    x: Expr,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Expr:
    strings, integers = as_texts(list(cats_strings)), np.array(cats_int64s, "int64")
    if ctx.dtype(x) == "string":
        return exchanged(ctx, x, strings, integers, default_int64)
    return exchanged(ctx, x, integers, strings, default_string)


@converter("LabelEncoder", domain=DOMAIN)
def label_encoder_of_classes(
    ctx: Context,
    x: Expr,
    *,
    classes_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Expr:
    strings = as_texts(list(classes_strings))
    places = np.arange(strings.size, dtype="int64")
    if ctx.dtype(x) == "string":
        return exchanged(ctx, x, strings, places, default_int64)
    return exchanged(ctx, x, places, strings, default_string)


@converter("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    ctx: Context,
    x: Expr,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: onnx.TensorProto | None = None,
    keys_floats: Sequence[float] = (),
    keys_int64s: Sequence[int] = (),
    keys_strings: Sequence[str] = (),
    keys_tensor: onnx.TensorProto | None = None,
    values_floats: Sequence[float] = (),
    values_int64s: Sequence[int] = (),
    values_strings: Sequence[str] = (),
    values_tensor: onnx.TensorProto | None = None,
) -> Expr:
    keys = _table(ctx, "keys", keys_strings, keys_int64s, keys_floats, keys_tensor)
    values = _table(ctx, "values", values_strings, values_int64s, values_floats, values_tensor)
    defaults: dict[str, Any] = {"O": default_string, "f": default_float, "i": default_int64}
    default = defaults[values.dtype.kind]
    if default_tensor is not None:
        given = numpy_tensor(default_tensor, "default_tensor")
        if given.size != 1 or given.dtype != values.dtype:
            ctx.fail(f"default_tensor is {given.dtype}{list(given.shape)}, the values are {values.dtype}")
        default = given.ravel()[0]
    return exchanged(ctx, x, keys, values, default)


def _table(
    ctx: Context,
    name: str,
    strings: Sequence[str],
    integers: Sequence[int],
    floats: Sequence[float],
    tensor: onnx.TensorProto | None,
) -> np.ndarray:
    given = [as_texts(list(strings))] if strings else []
    given += [np.array(integers, "int64")] if integers else []
    given += [np.array(floats, "float32")] if floats else []
    given += [numpy_tensor(tensor, f"{name}_tensor").ravel()] if tensor is not None else []
    if len(given) != 1:
        ctx.fail(f"it needs {name} of one type, and has {len(given)}")
    if given[0].dtype.kind not in "Oif":
        ctx.fail(f"{name} are {given[0].dtype}; strings, signed integers and floats are supported")
    return given[0]


@converter("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(
    ctx: Context, x: Expr, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1
) -> Expr:
    if bool(cats_int64s) == bool(cats_strings):
        ctx.fail("it needs categories, either integers or strings")
    if (ctx.dtype(x) == "string") != bool(cats_strings):
        ctx.fail(f"the categories are {'strings' if cats_strings else 'integers'}, but the input is {ctx.dtype(x)}")
    keys = as_texts(list(cats_strings)) if cats_strings else np.array(cats_int64s, "int64")
    place, order = found(ctx, x if cats_strings else relay.cast(x, "int64"), keys)
    if not zeros:
        are_keys = relay.take(constant(order >= 0), place, axis=0)
        is_known = relay.all(are_keys) if ctx.rank(place) else are_keys
        message = "OneHotEncoder: an element is none of the categories, and zeros is 0"
        place = build("dyn.require", place, is_known, message=message)
    columns = np.full(len(keys), -1, "int32")
    columns[order[order >= 0]] = np.flatnonzero(order >= 0)
    own = relay.expand_dims(relay.cast(place, "int32"), ctx.rank(place))
    return relay.cast(relay.equal(own, constant(columns)), "float32")
