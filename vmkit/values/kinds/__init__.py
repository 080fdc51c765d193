"""The kinds of value that functions take and give, one class each, with all that is done to a value of the kind."""

from .any import AnySpec
from .data import ADT, DataSpec
from .map import MapSpec
from .optional import OptionalSpec
from .reference import RefValue
from .sequence import SequenceSpec
from .spec import KINDS, Spec
from .tensor import TensorSpec, UnrankedSpec
from .tuple import TupleSpec
from .value import Value

__all__ = [
    "ADT",
    "KINDS",
    "AnySpec",
    "DataSpec",
    "MapSpec",
    "OptionalSpec",
    "RefValue",
    "SequenceSpec",
    "Spec",
    "TensorSpec",
    "TupleSpec",
    "UnrankedSpec",
    "Value",
]
