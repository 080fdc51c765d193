"""The prelude: functions and data types that Relay programs share, for a module to have.

Lists, options, trees and functions over them come from Relay text, ``vmkit/relay/library/prelude.rly``. Tensor arrays,
lists of tensors whose shapes may differ, are made for an element type, or for an element type and a shape, when first
asked for.
"""

from .names import get_tensor_array_shape
from .prelude import Prelude
from .ranked import TensorArrayOps
from .static import StaticTensorArrayOps

__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps", "get_tensor_array_shape"]
