"""Optimisations that change a program together with the values of its parameters."""

from . import bsr_conv2d, bsr_dense, simplify_fc_transpose

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose"]
