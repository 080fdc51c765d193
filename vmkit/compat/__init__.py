"""Run scripts that were written for a TVM that had Relay, as they are.

One line before the script's own imports is enough::

    import vmkit.compat; vmkit.compat.install()

    import tvm
    from tvm import relay

:func:`install` gives ``tvm`` the modules and names back that Relay's scripts use; before it is called, TVM does
what it always does. (Importing :mod:`vmkit.relay` lets a ``tvm.ir.GlobalVar`` be called with Relay's expressions, and
leaves calls with TVM's own as they are.) Names that today's TVM has with another meaning keep today's, except where
Relay's is a superset.
"""

from __future__ import annotations

from .install import install

__all__ = ["install"]
