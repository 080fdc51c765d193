"""Weights that are parameters of a program, by what uses them."""

from __future__ import annotations

from ..ir import RelayExpr, Var, is_call, post_order

__all__ = ["search_fc_transpose", "weights_of"]


def weights_of(expr: RelayExpr, name: str) -> list[str]:
    """Return the names of the variables that calls of an operator have as their second argument, each once."""
    calls = [node for node in post_order(expr) if is_call(node, name)]
    return list(dict.fromkeys(call.args[1].name_hint for call in calls if isinstance(call.args[1], Var)))


def search_fc_transpose(expr: RelayExpr) -> list[str]:
    """Return the names of the variables that dense layers take turned round.

    Parameters
    ----------
    expr : Expr or Function
        A program with ``nn.dense(x, transpose(w, [1, 0]))``.

    Returns
    -------
    list of str
        The names of the w, each once, for ``SimplifyFCTranspose``.
    """
    dense = [node for node in post_order(expr) if is_call(node, "nn.dense")]
    turned = [t for t in (call.args[1] for call in dense) if is_call(t, "transpose") and _turns(t.attrs.axes)]
    return list(dict.fromkeys(t.args[0].name_hint for t in turned if isinstance(t.args[0], Var)))


def _turns(axes: object) -> bool:
    """Say whether the axes of a transpose exchange those of a matrix."""
    return axes is None or [int(a) % 2 for a in axes] in ([], [1, 0])  # type: ignore[attr-defined]
