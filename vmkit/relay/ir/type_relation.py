"""A relation between types, by name: what Relay's solver was given. vmkit's operators have theirs in their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Type

from .lifetime import py_class

__all__ = ["TypeRelation"]


@py_class("relay.TypeRelation", init=False)
class TypeRelation(Type):
    """A constraint on types: the last of `args` follow from the first `num_inputs`, as `func` says.

    Parameters
    ----------
    func : tvm.ir.EnvFunc or None
        The relation.
    args : sequence of Type
        The types that it relates, inputs first.
    num_inputs : int
        How many of them are inputs.
    attrs : tvm.ir.Attrs, optional
        What else the relation depends on.

    Examples
    --------
    >>> from vmkit import relay
    >>> vector = relay.TensorType((2,), "float32")
    >>> relation = TypeRelation(None, [vector, relay.IncompleteType()], 1)
    >>> relay.analysis.check_kind(relation) == relay.Kind.Constraint
    True
    """

    func: Any
    args: tvm_ffi.Array
    num_inputs: int
    attrs: Any = None

    def __init__(
        self, func: tvm.ir.EnvFunc | None, args: Sequence[Type], num_inputs: int, attrs: tvm.ir.Node | None = None
    ) -> None:
        if not 0 <= num_inputs <= len(args):
            raise ValueError(f"num_inputs is from 0 to the number of types, {len(args)}, not {num_inputs}")
        self.__ffi_init__(func=func, args=list(args), num_inputs=int(num_inputs), attrs=attrs)
