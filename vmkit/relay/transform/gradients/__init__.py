"""Gradients of operators: what :func:`relay.transform.gradient` asks for each call that it goes back through.

They are attached to the operators as those of scripts are, by ``relay.op.register_gradient``.
"""

from . import elementwise, moves, nn, reduce

__all__ = ["elementwise", "moves", "nn", "reduce"]
