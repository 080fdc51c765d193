"""Operators on strings: constants, and what functions in Python compute when the program runs.

A tensor of strings holds numbers (see :mod:`vmkit.values.text_tables`), on which equality and all that only moves
elements work as on other tensors. What looks into texts or makes new ones calls a function of
:mod:`vmkit.values.text_functions`. What a program does with strings tells which numbers these may be:
:mod:`vmkit.relay.lower.text_numbering`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from ...errors import TypeCheckError
from ...values.digests import digests
from ..ir import dims
from ..ir.expr import Call, Expr, RelayExpr
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, TupleType, Type
from .attrs import Attrs, Bool, DType, Int, Ints, Str, attrs_node, field
from .broadcast import broadcast_lowering, broadcast_shapes
from .elementwise import require_tensor
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["constant_texts", "require_strings", "string_constant", "text_numbers"]


def require_strings(ty: Type, name: str = "data") -> TensorType:
    """Return a type if it is of a tensor of strings; TypeCheckError otherwise."""
    tensor = require_tensor(ty, name)
    if tensor.dtype != "string":
        raise TypeCheckError(f"{name} must be a tensor of strings, not {tensor}")
    return tensor


def _called(
    context: LowerContext,
    function: str,
    options: str | dict[str, Any] | None,
    tensors: Sequence[relax.Expr],
    results: Sequence[tuple[list[Dim], str]],
) -> tuple[relax.Expr, ...]:
    """Return the results of a function in Python, whose dims are checked, or named where they are unknown."""
    strings = "".join("s" if t.dtype == "string" else "n" for t in context.types)
    types = [relax.TensorType(ndim=len(shape), dtype=dtype) for shape, dtype in results]
    given = [tvm.ir.StringImm(json.dumps(options)), tvm.ir.StringImm(strings), *tensors]
    made = relax.op.call_pure_packed(
        f"vmkit.text.{function}", *given, ty_args=types if len(types) == 1 else [relax.AnyType()]
    )
    value = context.emit(made)
    fields = [value] if len(types) == 1 else [context.read_field(value, i, ty) for i, ty in enumerate(types)]
    return tuple(_sized(context, f, shape, dtype) for f, (shape, dtype) in zip(fields, results, strict=True))


def _sized(context: LowerContext, value: relax.Expr, shape: list[Dim], dtype: str) -> relax.Expr:
    named = [context.symbol() if dims.is_any(d) else d for d in shape]
    return context.builder.match_cast(value, relax.TensorType([dims.as_expr(d) for d in named], dtype))


@attrs_node("relay.attrs.StringsAttrs")
class StringsAttrs(Attrs):
    """Attributes of contrib_strings: the texts in row-major order, as a JSON list, and the shape they are laid out in.

    JSON keeps what a printed program would have to escape.
    """

    texts: Str
    shape: Ints


@operator("contrib_strings", attrs=StringsAttrs, level=10)
class Strings:
    """A constant tensor of strings."""

    @staticmethod
    def relation(attrs: StringsAttrs) -> Type:
        count = dims.product([int(d) for d in attrs.shape])
        if count != len(json.loads(attrs.texts)):
            raise TypeCheckError(f"the shape holds {count} elements, {len(json.loads(attrs.texts))} texts are given")
        return TensorType([int(d) for d in attrs.shape], "string")

    @staticmethod
    def lower(context: LowerContext, attrs: StringsAttrs) -> relax.Expr:
        texts = json.loads(attrs.texts)
        context.texts.update(dict.fromkeys(texts))
        array = np.empty(len(texts), dtype=object)
        array[:] = texts
        stored = digests(array).reshape([int(d) for d in attrs.shape])
        return relax.const(tvm.runtime.tensor(stored))


def string_constant(array: np.ndarray) -> Expr:
    """Return the expression of an array of str."""
    shape = [int(d) for d in array.shape]
    call = entry("contrib_strings").call(texts=json.dumps(array.ravel().tolist()), shape=shape)
    call.checked_type_ = TensorType(shape, "string")
    return call


def constant_texts(expr: RelayExpr) -> np.ndarray | None:
    """Return the strings that :func:`string_constant` made an expression of, as objects; None for any other."""
    if not isinstance(expr, Call) or expr.op != entry("contrib_strings").op:
        return None
    texts = json.loads(expr.attrs.texts)
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape([int(d) for d in expr.attrs.shape])


@attrs_node("relay.attrs.TextNumbersAttrs")
class TextNumbersAttrs(Attrs):
    """Attributes of contrib_text_numbers: the texts whose digests the program has, as a JSON list."""

    texts: Str = "[]"


@operator("contrib_text_numbers", "data", attrs=TextNumbersAttrs, level=10, pattern=OpPattern.INJECTIVE)
class TextNumbers:
    """The numbers that stand for texts in a run: the digests of some texts, any for others, equal for equal ones."""

    @staticmethod
    def relation(attrs: TextNumbersAttrs, data: Type) -> Type:
        return TensorType(list(require_strings(data).shape), "int64")

    @staticmethod
    def lower(context: LowerContext, attrs: TextNumbersAttrs, data: relax.Expr) -> relax.Expr:
        context.texts.update(dict.fromkeys(json.loads(attrs.texts)))
        return data


def text_numbers(data: Expr, texts: np.ndarray) -> Expr:
    """Return the expression of the numbers of an expression's texts, which are digests for those of an array."""
    return entry("contrib_text_numbers").call(data, texts=json.dumps(texts.ravel().tolist()))


@operator("contrib_string_concatenate", "lhs", "rhs", level=10)
class StringConcatenate:
    """The texts of two tensors put together. The inputs are broadcast."""

    @staticmethod
    def relation(attrs: None, lhs: Type, rhs: Type) -> Type:
        left, right = require_strings(lhs, "lhs"), require_strings(rhs, "rhs")
        return TensorType(broadcast_shapes(list(left.shape), list(right.shape)), "string")

    @staticmethod
    def lower(context: LowerContext, attrs: None, lhs: relax.Expr, rhs: relax.Expr) -> relax.Expr:
        left, right = lhs, rhs
        sizes, others = context.shape(lhs), context.shape(rhs)
        if len(sizes) != len(others) or not all(map(dims.equal, sizes, others)):
            left = broadcast_lowering(context, lambda a, b: a, lhs, rhs)
            right = broadcast_lowering(context, lambda a, b: b, lhs, rhs)
        return _called(context, "concatenate", None, [left, right], [(context.shape(left), "int64")])[0]


@attrs_node("relay.attrs.StringSplitAttrs")
class StringSplitAttrs(Attrs):
    """Attributes of contrib_string_split."""

    delimiter: Str = field("", doc="Where texts are split; at whitespace where it is empty.")
    maxsplit: Int = field(-1, doc="How often a text is split at most; wherever the delimiter is for -1.")


@operator("contrib_string_split", "data", attrs=StringSplitAttrs, level=10)
class StringSplit:
    """The parts of every text along a new last axis, filled up with empty texts, and how many there are of each."""

    @staticmethod
    def value(call: Call) -> TupleWrapper:
        return TupleWrapper(call, 2)

    @staticmethod
    def relation(attrs: StringSplitAttrs, data: Type) -> Type:
        shape = list(require_strings(data).shape)
        return TupleType([TensorType([*shape, AnyDim()], "string"), TensorType(shape, "int64")])

    @staticmethod
    def lower(context: LowerContext, attrs: StringSplitAttrs, data: relax.Expr) -> tuple[relax.Expr, ...]:
        options = {"delimiter": attrs.delimiter, "maxsplit": attrs.maxsplit}
        shape = context.shape(data)
        return _called(context, "split", options, [data], [([*shape, AnyDim()], "int64"), (shape, "int64")])


@attrs_node("relay.attrs.StringNormalizeAttrs")
class StringNormalizeAttrs(Attrs):
    """Attributes of contrib_string_normalize: LOWER, UPPER or NONE; the words to leave out as a JSON list."""

    case: Str = "NONE"
    stopwords: Str = "[]"
    sensitive: Bool = False


@operator("contrib_string_normalize", "data", attrs=StringNormalizeAttrs, level=10)
class StringNormalize:
    """The texts of a vector, or of a matrix of one row, without some words and in another case; "" if none is left."""

    @staticmethod
    def relation(attrs: StringNormalizeAttrs, data: Type) -> Type:
        shape = list(require_strings(data).shape)
        if attrs.case not in ("LOWER", "UPPER", "NONE"):
            raise TypeCheckError(f"case is {attrs.case!r}; it is LOWER, UPPER or NONE")
        if len(shape) not in (1, 2) or (len(shape) == 2 and dims.equal(shape[0], 1) is False):
            raise TypeCheckError(f"data must be a vector or a matrix of one row, not {data}")
        return TensorType([*([1] if len(shape) == 2 else []), AnyDim()], "string")

    @staticmethod
    def lower(context: LowerContext, attrs: StringNormalizeAttrs, data: relax.Expr) -> relax.Expr:
        shape = context.shape(data)
        if len(shape) == 2:
            context.require_equal(shape[0], 1, "strings are normalized in one row, not in {actual}")
        options = {"case": attrs.case, "stopwords": json.loads(attrs.stopwords), "sensitive": bool(attrs.sensitive)}
        result: list[Dim] = [*([1] if len(shape) == 2 else []), AnyDim()]
        return _called(context, "normalize", options, [data], [(result, "int64")])[0]


@attrs_node("relay.attrs.StringTokenizeAttrs")
class StringTokenizeAttrs(Attrs):
    """Attributes of contrib_string_tokenize; each character is a token where there is no expression nor separator."""

    expression: Str = field("", doc="What a token is, as Python's re takes it.")
    separators: Str = field("[]", doc="What stands between tokens, a JSON list of expressions.")
    least: Int = field(1, doc="How many characters a token has at least.")
    marked: Bool = field(False, doc="Whether there is a token for the beginning of each text and one for its end.")
    padding: Str = field("", doc="What rows are filled up with.")


@operator("contrib_string_tokenize", "data", attrs=StringTokenizeAttrs, level=10)
class StringTokenize:
    """The tokens of every text along a new last axis; see :func:`vmkit.values.tokens.tokenizer`."""

    @staticmethod
    def relation(attrs: StringTokenizeAttrs, data: Type) -> Type:
        return TensorType([*require_strings(data).shape, AnyDim()], "string")

    @staticmethod
    def lower(context: LowerContext, attrs: StringTokenizeAttrs, data: relax.Expr) -> relax.Expr:
        options = {
            "expression": attrs.expression, "separators": json.loads(attrs.separators), "least": int(attrs.least),
            "marked": bool(attrs.marked), "padding": attrs.padding,
        }  # fmt: skip
        return _called(context, "tokenize", options, [data], [([*context.shape(data), AnyDim()], "int64")])[0]


@attrs_node("relay.attrs.StringHashAttrs")
class StringHashAttrs(Attrs):
    """Attributes of contrib_string_hash: int32 or uint32, and the seed, an integer of 32 bits."""

    dtype: DType = "uint32"
    seed: Int = 0


@operator("contrib_string_hash", "data", attrs=StringHashAttrs, level=10)
class StringHash:
    """The MurmurHash3 of each text in UTF-8, of 32 bits."""

    @staticmethod
    def relation(attrs: StringHashAttrs, data: Type) -> Type:
        if attrs.dtype not in ("int32", "uint32"):
            raise TypeCheckError(f"a hash is int32 or uint32, not {attrs.dtype}")
        return TensorType(list(require_strings(data).shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StringHashAttrs, data: relax.Expr) -> relax.Expr:
        options = {"dtype": str(attrs.dtype), "seed": int(attrs.seed)}
        return _called(context, "hashes", options, [data], [(context.shape(data), attrs.dtype)])[0]


@attrs_node("relay.attrs.FullMatchAttrs")
class FullMatchAttrs(Attrs):
    """Attributes of contrib_full_match: a regular expression as Python's ``re`` takes it."""

    pattern: Str


@operator("contrib_full_match", "data", attrs=FullMatchAttrs, level=10)
class FullMatch:
    """Whether each text as a whole matches a regular expression."""

    @staticmethod
    def relation(attrs: FullMatchAttrs, data: Type) -> Type:
        return TensorType(list(require_strings(data).shape), "bool")

    @staticmethod
    def lower(context: LowerContext, attrs: FullMatchAttrs, data: relax.Expr) -> relax.Expr:
        return _called(context, "full_match", attrs.pattern, [data], [(context.shape(data), "bool")])[0]


@operator("contrib_string_order", "data", level=10)
class StringOrder:
    """Integers that compare as the texts of a tensor do, by their code points: what sorts strings sorts these."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        return TensorType(list(require_strings(data).shape), "int64")

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        return _called(context, "order", None, [data], [(context.shape(data), "int64")])[0]


@attrs_node("relay.attrs.StringFromNumberAttrs")
class StringFromNumberAttrs(Attrs):
    """Attributes of contrib_string_from_number."""

    format: Str = field("", doc="How C's printf writes floats, such as %f; as ONNX's Cast does where it is empty.")


@operator("contrib_string_from_number", "data", attrs=StringFromNumberAttrs, level=10)
class StringFromNumber:
    """Numbers as texts."""

    @staticmethod
    def relation(attrs: StringFromNumberAttrs, data: Type) -> Type:
        tensor = require_tensor(data)
        _require_number(tensor.dtype)
        return TensorType(list(tensor.shape), "string")

    @staticmethod
    def lower(context: LowerContext, attrs: StringFromNumberAttrs, data: relax.Expr) -> relax.Expr:
        return _called(context, "from_number", attrs.format, [data], [(context.shape(data), "int64")])[0]


@attrs_node("relay.attrs.StringToNumberAttrs")
class StringToNumberAttrs(Attrs):
    """Attributes of contrib_string_to_number."""

    dtype: DType


@operator("contrib_string_to_number", "data", attrs=StringToNumberAttrs, level=10)
class StringToNumber:
    """Texts as numbers, as ONNX's Cast reads them; a text that is no number fails the run."""

    @staticmethod
    def relation(attrs: StringToNumberAttrs, data: Type) -> Type:
        _require_number(attrs.dtype)
        return TensorType(list(require_strings(data).shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: StringToNumberAttrs, data: relax.Expr) -> relax.Expr:
        return _called(context, "to_number", attrs.dtype, [data], [(context.shape(data), attrs.dtype)])[0]


def _require_number(dtype: str) -> None:
    if dtype not in _NUMBERS:
        raise TypeCheckError(f"{dtype} is no type that texts are numbers of; there are {', '.join(_NUMBERS)}")


_NUMBERS = (
    "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
