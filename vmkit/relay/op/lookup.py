"""Values looked up by keys that are found by bisection, and n-grams counted that are found in a table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir.types import TensorType, Type
from .attrs import Attrs, Int, attrs_node
from .elementwise import require_tensor
from .kernel import const, grid, indexed, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext


def _bisected(bounds: tirx.Buffer, keys: tirx.Buffer, value: tirx.Expr, steps: int) -> tirx.Expr:
    """Return the first place between two bounds, which are moved there, whose key is not less than a value.

    The bounds are in memory of their own: as values, each step would be written out as often as it is used later.
    """
    with T.serial(0, const(steps)):
        middle = T.bind(tirx.floordiv(bounds[0] + bounds[1], const(2)))
        with T.If(bounds[0] < bounds[1]), T.Then(), T.If(keys[middle] < value):
            with T.Then():
                T.buffer_store(bounds, middle + 1, [0])
            with T.Else():
                T.buffer_store(bounds, middle, [1])
    return T.bind(bounds[0])


def _bounds() -> tirx.Buffer:
    return T.alloc_buffer((2,), "int64", scope="local", layout=None)


def _steps(count: int) -> int:
    return count.bit_length()


@operator("contrib_find", "data", "keys", level=10, pattern=OpPattern.OPAQUE)
class Find:
    """The places of the elements of a tensor in a sorted vector of distinct keys; how many there are for others.

    What is no number is never found.
    """

    @staticmethod
    def relation(attrs: None, data: Type, keys: Type) -> Type:
        tensor, table = require_tensor(data), require_tensor(keys, "keys")
        if tensor.dtype != table.dtype:
            raise TypeCheckError(f"data is {tensor.dtype}, keys are {table.dtype}; cast one of them")
        if len(table.shape) != 1 or not isinstance(table.shape[0], int):
            raise TypeCheckError(f"keys must be a vector of known length, not {table}")
        return TensorType(list(tensor.shape), "int64")

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr, keys: relax.Expr) -> relax.Expr:
        shape, (count,) = context.shape(data), context.shape(keys)
        assert isinstance(count, int)  # the relation refuses others
        if count == 0:
            return indexed(context, shape, lambda i, d: const(0), data, name="find")

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer, keys: tirx.Buffer) -> None:
            bounds = _bounds()
            with grid(list(data.shape)) as i:
                value = T.bind(data[tuple(i)])
                T.buffer_store(bounds, const(0), [0])
                T.buffer_store(bounds, const(count), [1])
                place = _bisected(bounds, keys, value, _steps(count))
                is_found = tirx.all(place < count, keys[tirx.min(place, const(count - 1))] == value)
                T.buffer_store(outputs[0], tirx.Select(is_found, place, const(count)), list(i))

        return loops(context, [(shape, "int64")], body, data, keys, name="find")


@attrs_node("relay.attrs.NgramCountAttrs")
class NgramCountAttrs(Attrs):
    """Attributes of contrib_ngram_count: how many counts there are, and which n-grams are looked for."""

    outputs: Int
    min_length: Int
    max_length: Int
    max_skip: Int


@operator("contrib_ngram_count", "data", "keys", "children", "counted", attrs=NgramCountAttrs, level=10)
class NgramCount:
    """How often n-grams of a tree occur in each row of a matrix: float32 (rows, outputs).

    Elements of an n-gram lie 1 to max_skip + 1 apart; single ones are counted once.

    Inputs
    ------
    data
        Rows of integers.
    keys : (nodes + 1,)
        What each node of the tree stands for: those behind one node are neighbours, in order.
    children : int32 (nodes + 1, 2)
        Where begin and end what is behind each node; the first row is that of the root, which has no key.
    counted : int32 (nodes + 1,)
        Which output an n-gram that ends in the node adds to, or -1.
    """

    @staticmethod
    def relation(attrs: NgramCountAttrs, data: Type, keys: Type, children: Type, counted: Type) -> Type:
        rows, table = require_tensor(data), require_tensor(keys, "keys")
        if len(rows.shape) != 2 or rows.dtype != table.dtype or not rows.dtype.startswith(("int", "uint")):
            raise TypeCheckError(f"data must be a matrix of the integers that keys ({table}) are, not {rows}")
        nodes, *rest = table.shape
        if rest or not isinstance(nodes, int) or nodes < 1:
            raise TypeCheckError(f"keys must be a vector of a known length that is not 0, not {table}")
        for given, name, shape in ((children, "children", (nodes, 2)), (counted, "counted", (nodes,))):
            found = require_tensor(given, name)
            sizes = [d if isinstance(d, int) else None for d in found.shape]
            if found.dtype != "int32" or sizes != list(shape):
                raise TypeCheckError(f"{name} must be {TensorType(shape, 'int32')} beside keys ({table}), not {found}")
        return TensorType([rows.shape[0], attrs.outputs], "float32")

    @staticmethod
    def lower(context: LowerContext, attrs: NgramCountAttrs, data: relax.Expr, *tables: relax.Expr) -> relax.Expr:
        (count, _), (nodes,) = context.shape(data), context.shape(tables[0])
        steps = _steps(int(nodes))

        def within(place: tirx.Expr) -> tirx.Expr:
            return tirx.max(tirx.min(place, const(int(nodes))), const(0))

        def body(
            outputs: list[tirx.Buffer],
            data: tirx.Buffer,
            keys: tirx.Buffer,
            children: tirx.Buffer,
            counted: tirx.Buffer,
        ) -> None:
            (result,) = outputs
            length = data.shape[1]
            node, bounds = T.alloc_buffer((1,), "int64", scope="local", layout=None), _bounds()
            with grid([data.shape[0], attrs.outputs]) as (r, t):
                T.buffer_store(result, tirx.const(0.0, "float32"), [r, t])
            # Elements of a row are no further apart than it is long, whatever the attributes allow.
            skips, longest = (tirx.min(length, const(most)) for most in (attrs.max_skip + 1, attrs.max_length))
            with grid([data.shape[0], skips, length]) as (r, skip, start):
                T.buffer_store(node, const(0), [0])
                with T.serial(0, longest) as n:
                    at = T.bind(start + n * (skip + 1))
                    with T.If(tirx.all(node[0] >= 0, at < length)), T.Then():
                        # The tables are data, and what they say may lie outside of them.
                        begin, end = (T.bind(within(children[node[0], k].astype("int64"))) for k in (0, 1))
                        T.buffer_store(bounds, begin, [0])
                        T.buffer_store(bounds, end, [1])
                        value = T.bind(data[r, at])
                        place = _bisected(bounds, keys, value, steps)
                        inside = T.bind(tirx.min(place, const(int(nodes) - 1)))
                        is_found = T.bind(tirx.all(place < end, keys[inside] == value))
                        output = T.bind(counted[inside].astype("int64"))
                        T.buffer_store(node, tirx.Select(is_found, inside, const(-1)), [0])
                        # Single elements are as far apart as any.
                        is_counted = tirx.all(is_found, output >= 0, output < attrs.outputs, tirx.any(n > 0, skip == 0))
                        with T.If(tirx.all(is_counted, n + 1 >= attrs.min_length)), T.Then():
                            T.buffer_store(result, result[r, output] + tirx.const(1.0, "float32"), [r, output])

        return loops(context, [([count, attrs.outputs], "float32")], body, data, *tables, name="ngram_count")
