"""Relay's ``qnn`` operators: arithmetic on quantised tensors, by family.

A quantised tensor of integers ``q`` stands for the reals ``scale * (q - zero_point)``. The operators have no kernels:
each stands for an expression of other operators, which ``canonicalize`` returns.
"""
