"""Loops of PyTorch's programs, ``while_loop``, ``map`` and ``scan``: functions that call themselves last.

The bytecode of such a function is a loop. What an iteration gives beside what it carries is written into a buffer,
which is made before the loop and is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from tvm import ir, relax, te, tirx

from ..._dataclasses import dataclass
from ..._tvm import begin_block, end_block
from ...relax.rewrite import substituted, variables_in
from .arguments import Converter, Importing, dtype_of, refused
from .effects import read_number
from .formulas import sizes_of
from .relay_operators import written_in_place

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["LOOPS"]

_INT = "int64"


@dataclass
class _Loop:
    """A loop: what it carries, with the types, the tensors that stay, and what an iteration does of them.

    ``goes_on`` and ``step`` write into the function of the loop; they are given its values of both.
    """

    node: fx.Node
    carried: list[relax.Expr]
    types: list[relax.TensorType]
    kept: list[relax.Expr]
    goes_on: Callable[[Sequence[relax.Expr], Sequence[relax.Expr]], relax.Expr]
    step: Callable[[Sequence[relax.Expr], Sequence[relax.Expr]], Sequence[relax.Expr]]


@contextmanager
def _values_of_its_own(importer: Importing, symbols: Mapping[str, tirx.Var]) -> Iterator[None]:
    """Let the importer have values, symbols and checked sizes of its own meanwhile, as in another function."""
    outer, importer.env = importer.env, {}
    for name, symbol in symbols.items():
        importer.symbols.define(importer.env, name, symbol)
    try:
        with importer.read_sizes.branch():
            yield
    finally:
        importer.env = outer


def _emitted(importer: Importing, loop: _Loop, symbols: Sequence[str]) -> list[relax.Expr]:
    """Return what a loop carries after its last iteration; `symbols` are the names of the sizes that it sees."""
    builder, known = importer.block_builder, importer.symbols.of(importer.env)
    own = {name: tirx.Var(name, _INT) for name in symbols}
    shape = relax.Var("sizes", relax.ShapeType(list(own.values())))
    inner = {cast("tirx.Var", known[name]): own[name] for name in symbols}

    def param(name: str, ty: relax.TensorType) -> relax.Var:
        sizes = [substituted(d, inner) for d in ty.shape]
        return relax.Var(name, relax.TensorType(sizes, ty.dtype))

    carried = [param(f"carried{at}", ty) for at, ty in enumerate(loop.types)]
    kept = [param(f"kept{at}", each.ty) for at, each in enumerate(loop.kept)]
    params = [shape, *carried, *kept]
    result = relax.TupleType([each.ty for each in carried])
    is_read = [known[name] in importer.read_sizes.symbols for name in symbols]
    importer.read_sizes.add(own[name] for name, read in zip(symbols, is_read, strict=True) if read)
    name = f"{loop.node.name}_loop"
    empty = relax.Function.create_empty(params, result, is_pure=True)
    itself = builder.add_func(empty.with_attr("global_symbol", f"{name}/{len(importer.loops)}"), name)
    builder.begin_scope(params)
    begin_block(builder)
    with _values_of_its_own(importer, own):
        condition = builder.emit(loop.goes_on(carried, kept))
        begin_block(builder)
        made = loop.step(carried, kept)
        again = builder.emit(relax.Call(itself, [relax.ShapeExpr(list(own.values())), *made, *kept]))
        goes_on = relax.SeqExpr([end_block(builder)], again)
        begin_block(builder)
        last = builder.emit(relax.Tuple(carried))
        ends = relax.SeqExpr([end_block(builder)], last)
        chosen = builder.emit(relax.If(condition, goes_on, ends))
    body = relax.SeqExpr([end_block(builder)], chosen)
    builder.end_scope()
    function = relax.Function(params, body, result, is_pure=True)
    importer.loops[itself] = function.with_attr("global_symbol", itself.name_hint)
    given = relax.ShapeExpr([known[each] for each in symbols])
    found = builder.emit(relax.Call(itself, [given, *loop.carried, *loop.kept]))
    return [builder.emit(relax.TupleGetItem(found, at)) for at in range(len(carried))]


def _graph(importer: Importing, node: object) -> Any:  # noqa: ANN401 - a GraphModule of torch
    return importer.env[cast("fx.Node", node)]


def _inputs(graph: Any) -> list[fx.Node]:  # noqa: ANN401 - a GraphModule of torch
    return [each for each in graph.graph.nodes if each.op == "placeholder"]


def _run(importer: Importing, graph: Any, given: Sequence[object]) -> list[Any]:  # noqa: ANN401
    """Write the nodes of a graph within another one; return what it gives."""
    importer.env.update(zip(_inputs(graph), given, strict=True))
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            importer.env[node] = getattr(graph, node.target)
        elif node.op == "call_function":
            importer.env[node] = importer.convert_map[node.target.__name__](node)
        elif node.op == "output":
            results = node.args[0]
            many = results if isinstance(results, tuple | list) else (results,)
            return [importer.env.get(each, each) for each in many]
    raise AssertionError("a graph ends in what it gives")


def _tensor(importer: Importing, node: fx.Node, value: object) -> relax.Expr:
    """Return what a node takes or gives as a tensor: an integer or a truth is one of no axes."""
    if isinstance(value, bool):
        return relax.const(value, "bool")
    if isinstance(value, int):
        return relax.const(value, _INT)
    if isinstance(value, relax.Expr) and isinstance(value.ty, relax.TensorType):
        return value
    number = cast("tirx.Expr", value)
    dtype = str(getattr(getattr(number, "ty", None), "dtype", ""))
    if dtype not in (_INT, "bool"):
        raise refused(node, f"carries {value}, which is neither a tensor nor an integer")

    def kernel(number: tirx.Expr) -> te.Tensor:
        return te.compute([], lambda: number, name="number", tag="injective")

    made = importer.block_builder.emit_te(kernel, number.astype(_INT), primfunc_name_hint="number")
    return made if dtype == _INT else importer.block_builder.emit(relax.op.astype(made, dtype))


def _value(importer: Importing, given: fx.Node, value: relax.Expr) -> object:
    """Return what an input of a graph is, of a tensor: an integer where PyTorch has one, under its name."""
    number = given.meta["val"]
    if hasattr(number, "shape"):
        return value
    formula = number.node.expr
    read = read_number(importer, value, str(formula) if formula.is_Symbol else given.name)
    if formula.is_Symbol:
        importer.symbols.note(importer.env, read)
    return read


def _type(importer: Importing, node: fx.Node, given: fx.Node) -> relax.TensorType:
    """Return the type of a graph's input in the function around it."""
    value = given.meta["val"]
    if not hasattr(value, "shape"):
        return relax.TensorType([], _INT)
    known = importer.symbols.of(importer.env)
    names = {str(s) for d in value.shape if not isinstance(d, int) for s in d.node.expr.free_symbols}
    if not names <= set(known):
        raise refused(node, f"carries a tensor of {tuple(value.shape)}, whose sizes change from one time to the next")
    return relax.TensorType(cast("Any", sizes_of(importer, value.shape)), dtype_of(value))


def _names(importer: Importing, graphs: Sequence[Any], types: Sequence[relax.TensorType]) -> list[str]:
    """Return the names of the sizes that graphs, and values of types, are of, among those that are known."""
    known = importer.symbols.of(importer.env)
    values = [each.meta.get("val") for graph in graphs for each in graph.graph.nodes]
    leaves = [each for value in values for each in (value if isinstance(value, tuple | list) else (value,))]
    sizes = [d for each in leaves for d in getattr(each, "shape", (each,)) if hasattr(d, "node")]
    named = {str(symbol) for size in sizes for symbol in size.node.expr.free_symbols}
    in_types = {id(var) for ty in types for d in ty.shape for var in variables_in(d)}
    seen = {name for name, var in known.items() if name in named or id(var) in in_types}
    return sorted(name for name in seen if isinstance(known[name], ir.Var))


def _as(importer: Importing, values: Sequence[relax.Expr], like: Sequence[relax.Expr]) -> list[relax.Expr]:
    """Return tensors cast to the types of others: what is carried keeps its type."""
    emit = importer.block_builder.match_cast
    return [a if a.ty == b.ty else emit(a, b.ty) for a, b in zip(values, like, strict=True)]


def _while(importer: Importing, node: fx.Node) -> tuple[object, ...]:
    """Return what is carried when the condition no longer holds."""
    condition, body = (_graph(importer, each) for each in node.args[:2])
    start, kept = ([_outer(importer, node, v) for v in cast("Any", given)] for given in node.args[2:4])
    inputs = _inputs(body)
    types = [_type(importer, node, each) for each in inputs[: len(start)]]

    def given(inputs: Sequence[fx.Node], values: Sequence[relax.Expr]) -> list[object]:
        return [_value(importer, each, x) for each, x in zip(inputs, values, strict=True)]

    def goes_on(carried: Sequence[relax.Expr], kept: Sequence[relax.Expr]) -> relax.Expr:
        (holds,) = _run(importer, condition, given(_inputs(condition), (*carried, *kept)))
        return importer.block_builder.emit(relax.op.reshape(_tensor(importer, node, holds), relax.ShapeExpr([])))

    def step(carried: Sequence[relax.Expr], kept: Sequence[relax.Expr]) -> Sequence[relax.Expr]:
        made = _run(importer, body, given(inputs, (*carried, *kept)))
        return _as(importer, [_tensor(importer, node, each) for each in made], carried)

    loop = _Loop(node, start, types, kept, goes_on, step)
    made = _emitted(importer, loop, _names(importer, (condition, body), [*types, *(each.ty for each in kept)]))
    return tuple(_given(importer, value, x) for value, x in zip(node.meta["val"], made, strict=True))


def _given(importer: Importing, value: Any, made: relax.Expr) -> object:  # noqa: ANN401 - what PyTorch knows of it
    """Return what a loop gives: an integer where PyTorch has one, under its name."""
    if hasattr(value, "shape"):
        return made
    read = read_number(importer, made, str(value.node.expr))
    importer.symbols.note(importer.env, read)
    return read


def _outer(importer: Importing, node: fx.Node, value: Any) -> relax.Expr:  # noqa: ANN401 - a node or a number
    """Return what a loop is given as a tensor."""
    return _tensor(importer, node, importer.env.get(value, value))


def _over_rows(
    importer: Importing,
    node: fx.Node,
    graph: Any,  # noqa: ANN401 - a GraphModule of torch
    begin: Sequence[Any],
    rows: Sequence[Any],
    further: Sequence[Any],
) -> tuple[object, ...]:
    """Return what is carried after the last row of tensors, and what is given for each row, stacked."""
    emit, one = importer.block_builder.emit, relax.const(1, _INT)
    start, data, rest = ([_outer(importer, node, v) for v in each] for each in (begin, rows, further))
    inputs, many, count = _inputs(graph), len(begin), len(rows)
    types = [_type(importer, node, each) for each in inputs[:many]]
    stacked = node.meta["val"][many:]
    shapes = [_known(importer, node, each) for each in stacked]
    buffers = [_buffer(importer, shape, dtype_of(each)) for shape, each in zip(shapes, stacked, strict=True)]
    length = data[0].ty.shape[0]
    for each in data[1:]:
        message = f"{node.name}: the tensors have {{expected}} and {{actual}} rows"
        importer.checks.emit(importer.block_builder, each.ty.shape[0], length, message)

    def goes_on(carried: Sequence[relax.Expr], kept: Sequence[relax.Expr]) -> relax.Expr:
        return relax.op.less(carried[0], kept[0])

    def step(carried: Sequence[relax.Expr], kept: Sequence[relax.Expr]) -> Sequence[relax.Expr]:
        place, states, whole = carried[0], carried[1 : 1 + many], carried[1 + many :]
        row = [emit(relax.op.take(each, place, axis=0)) for each in kept[1 : 1 + count]]
        given = [_value(importer, each, x) for each, x in zip(inputs, (*states, *row, *kept[1 + count :]), strict=True)]
        made = [_tensor(importer, node, each) for each in _run(importer, graph, given)]
        wrote = [written_in_place(importer, a, b, place) for a, b in zip(whole, made[many:], strict=True)]
        return [emit(relax.op.add(place, one)), *_as(importer, made[:many], states), *wrote]

    kept = [_tensor(importer, node, length), *data, *rest]
    carried = [relax.const(0, _INT), *start, *buffers]
    of_buffers = [relax.TensorType(shape, dtype_of(v)) for shape, v in zip(shapes, stacked, strict=True)]
    all_types = [relax.TensorType([], _INT), *types, *of_buffers]
    loop = _Loop(node, carried, all_types, kept, goes_on, step)
    made = _emitted(importer, loop, _names(importer, (graph,), [*all_types, *(each.ty for each in kept)]))
    return tuple(_given(importer, value, x) for value, x in zip(node.meta["val"], made[1:], strict=True))


def _buffer(importer: Importing, shape: Sequence[tirx.Expr], dtype: str) -> relax.Expr:
    """Return a new tensor for a loop to write to."""
    return importer.block_builder.emit(relax.op.zeros(relax.ShapeExpr(list(shape)), dtype))


def _known(importer: Importing, node: fx.Node, value: torch.Tensor) -> list[tirx.Expr]:
    """Return the sizes of what a loop gives for all rows."""
    sizes = [size for size in sizes_of(importer, value.shape) if size is not None]
    if len(sizes) < len(value.shape):
        raise refused(node, f"stacks rows to a tensor of {tuple(value.shape)}, of which a size is no formula of sizes")
    return sizes


LOOPS: dict[str, Converter] = {
    "map_impl": lambda importer, node: _over_rows(
        importer, node, _graph(importer, node.args[0]), (), *cast("Any", node.args[1:3])
    ),
    "scan": lambda importer, node: _over_rows(
        importer, node, _graph(importer, node.args[0]), *cast("Any", node.args[1:4])
    ),
    "while_loop": _while,
}
"""The converters, by the names of PyTorch's higher-order operators."""
