"""Calls of global variables: TVM's own stay as they are, until the names of Relay are installed."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GlobalVar

f = GlobalVar("f")
n = tirx.Var("n", "int64")
a = relax.Var("a", relax.TensorType([n, 4], "float32"))
arguments = [(), (a,), (a, relax.const(1.0)), (n,), (n, n + 1)]


def calls():
    made = []
    for given in arguments:
        try:
            made.append(f(*given))
        except Exception as error:
            made.append(f"{type(error).__name__}: {error}")
    return made


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        assert type(one) is type(other)
        assert one == other if isinstance(one, str) else tvm_ffi.structural_equal(one, other, map_free_vars=True)


before = calls()
assert any(isinstance(call, tvm.ir.Expr) for call in before)

from vmkit import relay

x = relay.var("x", shape=(2,))
assert_same(before, calls())
assert isinstance(f(x), relay.Call) and f(x).op.same_as(f)

import vmkit.compat

assert_same(before, calls())
vmkit.compat.install()
installed = GlobalVar.__call__
vmkit.compat.install()
assert GlobalVar.__call__ is installed
assert isinstance(f(x), relay.Call) and isinstance(f(), relay.Call)
"""


def test_calls_with_tvm_s_expressions_are_the_same_until_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
