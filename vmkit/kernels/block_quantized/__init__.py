"""Products with a weight of a few bits, whose blocks share a scale and a zero point, and which stays of so few bits.

A :class:`.BlockQuantizedShape` says what is multiplied; an :class:`.Arithmetic` as which numbers and by which
instructions; :func:`.product.block_quantized_product` writes the loops.
"""
