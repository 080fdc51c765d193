"""Kernels that run one after another, and loops of them, as one call of the VM."""

from .grouping import group_kernels, kernels_of_groups

__all__ = ["group_kernels", "kernels_of_groups"]
