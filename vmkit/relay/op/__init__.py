"""Relay's operators, by family; importing this package registers all of them.

Every module below this package is imported, so a new family is a new file and nothing else.
"""

import importlib
import pkgutil
import sys

from tvm.ir import Op as _Op

from .attached import (
    register_alter_op_layout,
    register_convert_op_layout,
    register_fake_quantization_to_integer,
    register_gradient,
    register_infer_correct_layout,
    register_legalize,
    register_optional_fake_quantization_to_integer,
    register_qnn_canonicalize,
    register_qnn_legalize,
)
from .mixed_precision import register_mixed_precision_conversion
from .rank import reverse_reshape
from .reduce import logsumexp, mean_std, mean_variance, std
from .registry import REGISTRY, OpEntry, OpPattern, build, entry, namespace, operator
from .segment import segment_sum

__all__ = [
    "REGISTRY",
    "OpEntry",
    "OpPattern",
    "build",
    "entry",
    "get",
    "logsumexp",
    "mean_std",
    "mean_variance",
    "operator",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_gradient",
    "register_infer_correct_layout",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_optional_fake_quantization_to_integer",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
    "reverse_reshape",
    "segment_sum",
    "std",
]

_modules = [m.name for m in pkgutil.walk_packages(__path__, prefix=f"{__name__}.") if not m.name.endswith("__main__")]
for _name in _modules:
    importlib.import_module(_name)

# ``relay.op.add`` and ``relay.op.nn.dense`` are builders, also where a module of the family has an operator's name.
__getattr__, __dir__ = namespace("")


def get(op_name: str) -> _Op:
    """Return an operator of Relay by its name; TypeCheckError with close matches when there is none."""
    return entry(op_name).op


for _name in _modules:
    _operator = REGISTRY.get(_name.removeprefix(f"{__name__}."))
    if _operator is not None:
        _parent, _, _last = _name.rpartition(".")
        setattr(sys.modules[_parent], _last, _operator.builder)
