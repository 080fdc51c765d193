"""Programs that compute with dequantized reals between quantised tensors compute with the integers instead.

Such a *fake quantised* region begins at calls of ``qnn.dequantize`` and ends at one of ``qnn.quantize``. Rules, one an
operator, say how it computes on integers; see :func:`vmkit.relay.op.register_fake_quantization_to_integer`. The modules
of this package hold those of Relay's operators, by family.
"""

from . import bounds, lookups, movement, pairs, pools, products
from .affine import TypeMap, approx_equal, fold_constant, get_zeros
from .conversion import FakeQuantizationToInteger
from .lookups import register_unary_qnn
from .movement import register_unary_identity
from .pairs import register_binary_identity, register_binary_qnn

__all__ = [
    "FakeQuantizationToInteger",
    "TypeMap",
    "approx_equal",
    "bounds",
    "fold_constant",
    "get_zeros",
    "lookups",
    "movement",
    "pairs",
    "pools",
    "products",
    "register_binary_identity",
    "register_binary_qnn",
    "register_unary_identity",
    "register_unary_qnn",
]
