"""Convolutions and dense layers with a constant weight that is packed for a target's instructions.

What is multiplied is a :class:`.ProductShape`; an :class:`.Encoding` says as which numbers, in which order, and by
which instructions. A :class:`.PackedWeight` is both, and :class:`.PackedProduct` writes the loops.
"""
