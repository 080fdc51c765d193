"""Two sizes that are unknown, and dimensions where they are known."""

from __future__ import annotations

from tvm import tirx

from vmkit.relay.ir import dims

n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def at(dim: object, of_n: int, of_m: int) -> int:
    """Return a dimension where `n` and `m` are these."""
    return dims.substitute(dim, {n: tirx.IntImm("int64", of_n), m: tirx.IntImm("int64", of_m)})
