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

__all__ = ["install"]


def install() -> None:
    """Give ``tvm`` what scripts for Relay use; a second call does nothing more.

    ``tvm.relay``, ``tvm.nd``, ``tvm.parser``, ``tvm.tir``, ``relay.vm``, ``tvm.runtime.vm``, ``relay.build`` with
    ``tvm.contrib.graph_executor``, ``tvm.driver.tvmc``, ``tvm.TVMError``, targets as text, and Relay's methods of
    ``tvm.IRModule``.
    """
    # What has to be imported for this takes longer than a command line's --help may.
    from .installing import install_all

    install_all()
