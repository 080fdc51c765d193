"""The names of the VM's own functions that bytecode calls."""

from __future__ import annotations

__all__ = [
    "ALLOC_COUNTED",
    "ALLOC_COUNTED_INTEGERS",
    "ALLOC_SHAPE_HEAP",
    "ALLOC_STORAGE",
    "ALLOC_TENSOR",
    "CHECK_TENSOR_INFO",
    "CHECK_TUPLE_INFO",
    "COPY",
    "MAKE_CLOSURE",
    "MAKE_PRIM_VALUE",
    "MAKE_SHAPE",
    "MAKE_TUPLE",
    "MATCH_SHAPE",
    "NULL_VALUE",
    "PREFIX",
    "READ_IF_COND",
    "RELEASE",
    "RESHAPE",
    "SHAPE_OF",
    "TENSOR_TO_SHAPE",
    "TO_DEVICE",
    "TUPLE_GETITEM",
]

ALLOC_COUNTED = "vmkit.alloc_storage"
"""What a machine of limited memory calls in the place of ALLOC_STORAGE: the number of its budget comes first."""

ALLOC_COUNTED_INTEGERS = "vmkit.alloc_integers"
"""What such a machine calls in the place of ALLOC_SHAPE_HEAP, where a run finds how many; the budget comes first."""

RELEASE = "vmkit.release"
"""A function that returns what it is given, which programs call to have the VM drop what it returned before."""

PREFIX = "vm.builtin."
"""What the names of all of them begin with."""

ALLOC_SHAPE_HEAP = "vm.builtin.alloc_shape_heap"
ALLOC_STORAGE = "vm.builtin.alloc_storage"
ALLOC_TENSOR = "vm.builtin.alloc_tensor"
CHECK_TENSOR_INFO = "vm.builtin.check_tensor_info"
CHECK_TUPLE_INFO = "vm.builtin.check_tuple_info"
COPY = "vm.builtin.copy"
MAKE_CLOSURE = "vm.builtin.make_closure"
MAKE_PRIM_VALUE = "vm.builtin.make_prim_value"
MAKE_SHAPE = "vm.builtin.make_shape"
MAKE_TUPLE = "vm.builtin.make_tuple"
MATCH_SHAPE = "vm.builtin.match_shape"
NULL_VALUE = "vm.builtin.null_value"
READ_IF_COND = "vm.builtin.read_if_cond"
RESHAPE = "vm.builtin.reshape"
SHAPE_OF = "vm.builtin.shape_of"
TENSOR_TO_SHAPE = "vm.builtin.tensor_to_shape"
TO_DEVICE = "vm.builtin.to_device"
TUPLE_GETITEM = "vm.builtin.tuple_getitem"
