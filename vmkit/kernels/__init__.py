"""Kernels whose loops are written out, where no schedule of a tensor expression gives them."""
