"""Inputs of exported programs whose sizes are multiples of others, such as ``8 * n`` of ``torch.export.Dim``."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer

from ...relax.bounds import LOWER_BOUNDS, UPPER_BOUNDS
from ...relax.kernel_symbols import simplified_sizes, with_callers_symbols
from ...relax.rewrite import are_same, substituted, variables_in, with_functions

__all__ = ["with_plain_inputs"]


def with_plain_inputs(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which a symbol, not an expression, is each size of an input that gives another its value.

    An input of ``8 * n`` columns is one of ``m``, cast to ``8 * (m // 8)`` when the program runs, which fails for any
    other size; and ``n`` is ``m // 8`` in all that follows.
    """
    changed = {
        name: plain
        for name, function in mod.functions.items()
        if isinstance(function, relax.Function) and not (plain := _plain(function)).same_as(function)
    }
    # With quotients in the places of symbols, equal sizes would be written in different ways, and TVM fuses none of
    # those who have them.
    return with_callers_symbols(with_functions(mod, changed)) if changed else mod


def _plain(function: relax.Function) -> relax.Function:
    known = {size for param in function.params for size in _sizes(param) if isinstance(size, tirx.Var)}
    values: dict[tirx.Var, tirx.Expr] = {}
    bounds = {name: dict(function.attrs[name]) for name in (LOWER_BOUNDS, UPPER_BOUNDS) if name in function.attrs}
    sizes: dict[relax.Var, list[tirx.Expr]] = {}
    for param in function.params:
        for at, size in enumerate(_sizes(param)):
            found = _linear(size)
            if found is None or found[0] in known or found[0] in values:
                continue
            symbol, scale, offset = found
            fresh = tirx.Var(f"{symbol.name}_size", "int64")
            values[symbol] = tirx.floordiv(fresh - offset, tirx.IntImm("int64", scale))
            sizes.setdefault(param, list(_sizes(param)))[at] = fresh
            for limits in bounds.values():
                if symbol.name in limits:
                    limits[fresh.name] = scale * int(limits.pop(symbol.name)) + offset
    return _rewritten(function, values, sizes, bounds) if values else function


def _rewritten(
    function: relax.Function,
    values: dict[tirx.Var, tirx.Expr],
    sizes: dict[relax.Var, list[tirx.Expr]],
    bounds: dict[str, dict[str, int]],
) -> relax.Function:
    """Return a function whose inputs have other sizes, cast to the ones they had by the values of symbols."""
    analyzer = Analyzer()
    params, casts, places = [], [], dict(values)
    for param in function.params:
        # A size that follows from another's symbol is any size, too, until it is cast.
        given = [
            size if values.keys().isdisjoint(variables_in(size)) else tirx.Var(f"{param.name}_size", "int64")
            for size in sizes.get(param, _sizes(param))
        ]
        if are_same(given, list(_sizes(param))):
            params.append(param)
            continue
        made = [analyzer.simplify(substituted(size, values)) for size in _sizes(param)]
        params.append(relax.Var(param.name, relax.TensorType(given, param.ty.dtype)))
        kept = relax.Var(f"{param.name}_sized", relax.TensorType(made, param.ty.dtype))
        casts.append(relax.MatchCast(kept, params[-1], kept.ty))
        places[param] = kept
    body = simplified_sizes(substituted(function.body, places))
    result = relax.Function(
        params,
        relax.SeqExpr([relax.BindingBlock(casts), *body.blocks], body.body),
        substituted(function.ret_ty, values),
        function.is_pure,
        function.attrs,
    )
    for name, limits in bounds.items():
        result = result.with_attr(name, limits)
    return result


def _sizes(param: relax.Var) -> Iterator[tirx.Expr]:
    """Yield the sizes of a parameter that is a tensor of a known rank."""
    shape = getattr(param.ty, "shape", None)
    yield from shape.values if isinstance(shape, relax.ShapeExpr) else ()


def _linear(size: tirx.Expr) -> tuple[tirx.Var, int, int] | None:
    """Return the symbol, the factor above 0 and the rest of a size that is a multiple of one symbol and no symbol."""
    if isinstance(size, tirx.Var | tirx.IntImm):
        return None
    symbols = {var for var in variables_in(size) if isinstance(var, tirx.Var)}
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    analyzer = Analyzer()

    def at(value: int) -> tirx.Expr:
        return analyzer.simplify(substituted(size, {symbol: tirx.IntImm("int64", value)}))

    offset, first = at(0), at(1)
    if not (isinstance(offset, tirx.IntImm) and isinstance(first, tirx.IntImm)):
        return None
    scale = int(first) - int(offset)
    is_linear = scale > 0 and analyzer.can_prove_equal(size, symbol * scale + int(offset))
    return (symbol, scale, int(offset)) if is_linear else None
