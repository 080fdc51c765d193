"""Sizes that only the run knows, given names: what is computed with them becomes a function of its own.

Two dimensions that a type calls unknown are never known to be equal. As dimensions of a function's parameters they are
symbols, of which the function's body may say that one is the product of two others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import ModelError
from ...relay.ir import Call, Expr, Function, FuncType, TensorType, Tuple, TupleGetItem, TupleType, dims
from .capture import Capture, outward, own_symbols, sizes_carrier, symbols_of
from .capture import parameter as parameter_of
from .context import Context
from .outcome import Fork
from .registry import Converter
from .typing import typed

__all__ = ["applied", "with_named_sizes"]

Body = Callable[[Context, Mapping[str, "Expr | None"]], list[Expr]]


def with_named_sizes(ctx: Context, values: Mapping[str, Expr | None], body: Body) -> list[Expr]:
    """Return what `body` gives for a node and its inputs, the sizes of which have names then.

    Parameters
    ----------
    ctx : Context
        The node.
    values : mapping of str to Expr
        All values that the body uses, by what to call them; None for one that is left out.
    body : callable
        ``body(ctx, values)`` imports the node in the scope of the context that it is given.
    """
    given = [typed(v).checked_type_ for v in values.values() if v is not None]
    if not any(isinstance(ty, TensorType) and any(dims.is_any(d) for d in ty.shape) for ty in given):
        return body(ctx, values)
    capture = Capture(ctx.scope, ctx.importer.param_values)
    inside = {name: None if value is None else capture.take(value, name) for name, value in values.items()}
    results = [typed(r) for r in body(Context(ctx.importer, ctx.node, ctx.version, capture), inside)]
    types = [a.checked_type_ for a in capture.actuals]
    local = own_symbols(capture.formals, types)
    whole = typed(Tuple(results))
    symbols = symbols_of(whole, capture.formals)
    if local.intersection(symbols):
        raise ModelError(f"{ctx.node.op_type} uses a size that none of its inputs has")
    carrier = [parameter_of("sizes", TensorType([*symbols, 0], "int8"))] if symbols else []
    params = [*capture.formals, *carrier]
    gvar = ctx.importer.new_function(ctx.node.op_type.lower())
    function = Function(params, whole, whole.checked_type_)
    function.checked_type_ = FuncType([p.checked_type_ for p in params], whole.checked_type_)
    ctx.importer.functions[gvar] = function
    call = Call(gvar, [*capture.actuals, *([sizes_carrier(symbols)] if symbols else [])])
    call.checked_type_ = TupleType([outward(r.checked_type_, local) for r in results])
    return [typed(TupleGetItem(call, i)) for i in range(len(results))]


def applied(
    converter: Converter, ctx: Context, inputs: Sequence[Expr | None], keywords: Mapping[str, Any]
) -> Expr | Sequence[Expr | None] | Fork:
    """Return what a converter gives for inputs, the sizes of which have names if it asks for that."""
    if not converter.named_sizes:
        made: Expr | Sequence[Expr | None] | Fork = converter.function(ctx, *inputs, **keywords)
        return made

    def body(ctx: Context, given: Mapping[str, Expr | None]) -> list[Expr]:
        results: Expr | list[Expr] = converter.function(ctx, *given.values(), **keywords)
        return [results] if isinstance(results, Expr) else results

    return with_named_sizes(ctx, {f"{converter.op_type.lower()}_{i}": v for i, v in enumerate(inputs)}, body)
