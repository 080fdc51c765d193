"""``tvm.relay.op.op``: operators by name, and operators that a script adds itself.

An operator that a script registers has a type relation, Relay's own by name or a function of the script, and a
computation over TE tensors, from which its kernel is made. Schedules are vmkit's: a script's are not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import tvm
from tvm import te
from tvm.ir import Op, Type
from tvm.ir.op import register_op_attr

from vmkit._tvm import register_operator
from vmkit.errors import ModelError, TypeCheckError, suggest
from vmkit.relay.ir import TensorType
from vmkit.relay.op import (
    REGISTRY,
    OpEntry,
    OpPattern,
    entry,
    get,
    register_alter_op_layout,
    register_convert_op_layout,
    register_fake_quantization_to_integer,
    register_infer_correct_layout,
    register_legalize,
    register_optional_fake_quantization_to_integer,
    register_qnn_canonicalize,
    register_qnn_legalize,
)
from vmkit.relay.op.attrs import Attrs

__all__ = [
    "RELATIONS",
    "OpPattern",
    "get",
    "install_type_relations",
    "register",
    "register_alter_op_layout",
    "register_compute",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_infer_correct_layout",
    "register_legalize",
    "register_optional_fake_quantization_to_integer",
    "register_pattern",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
    "register_stateful",
]

# Relay's relations that scripts name, each by an operator that has it.
RELATIONS = {"Identity": "exp", "Broadcast": "add", "BroadcastComp": "less"}
_ours: set[str] = set()


def install_type_relations() -> None:
    """Give ``tvm.ir.Op`` its method ``add_type_rel`` back, and attributes by their old type keys."""
    op: Any = Op
    op.add_type_rel = _add_type_relation
    op.set_attrs_type_key = _set_attrs_type_key


def register(op_name: str, describe: str = "") -> None:
    """Add an operator, to be described by the calls that follow."""
    if op_name in REGISTRY:
        raise ModelError(f"Operator {op_name} is registered before")
    register_operator(op_name, describe)
    REGISTRY[op_name] = OpEntry(
        name=op_name,
        doc=describe,
        inputs=("*arguments",),
        attrs=None,
        level=10,
        pattern=OpPattern.OPAQUE,
        relation=_lacking(op_name, "type relation: call add_type_rel"),
        infer_inputs=None,
        compute=_lacking(op_name, "computation: call register_compute"),
        lower=None,
        canonicalize=None,
        make_builder=lambda: lambda *arguments: entry(op_name).call(*arguments),
    )
    _ours.add(op_name)


def register_pattern(op_name: str, pattern: int, level: int = 10) -> None:
    """Say how an operator may be fused."""
    _change(op_name, pattern=OpPattern(pattern))
    register_op_attr(op_name, "TOpPattern", int(pattern), level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> None:
    """Say whether an operator keeps a state, and so must not be folded or merged."""
    _change(op_name, is_pure=not stateful)
    register_op_attr(op_name, "TOpIsStateful", bool(stateful), level)


def register_compute(op_name: str, compute: Callable[..., Any] | None = None, level: int = 10) -> Callable[..., Any]:
    """Give an operator its computation ``compute(attrs, inputs, out_type) -> [te.Tensor]``; may be a decorator."""

    def give(compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(attrs: Attrs | None, *tensors: te.Tensor) -> te.Tensor | list[te.Tensor]:
            types = [TensorType(t.shape, t.dtype) for t in tensors]
            results = compute(attrs, list(tensors), entry(op_name).relation(attrs, *types))
            single = isinstance(results, Sequence | tvm.ir.Array) and len(results) == 1
            return results[0] if single else results

        _change(op_name, compute=computed)
        return compute

    return give if compute is None else give(compute)


def _add_type_relation(self: Op, rel_name: str, type_rel_func: Callable[..., Any] | None = None) -> None:
    """Give an operator a type relation: one of Relay's by name, or ``f(argument types, attrs) -> type``."""
    if type_rel_func is None and rel_name not in RELATIONS:
        hint = suggest(rel_name, RELATIONS)
        raise ModelError(f"there is no type relation {rel_name}{hint}; pass a function of your own")

    def relation(attrs: Attrs | None, *types: Type) -> Type:
        if type_rel_func is None:
            return entry(RELATIONS[rel_name]).relation(None, *types)
        result = type_rel_func(list(types), attrs)
        if result is None:
            raise TypeCheckError(f"the type relation {rel_name} of {self.name} gave no type")
        return result

    _change(self.name, relation=relation)


_own_set_attrs_type_key = Op.set_attrs_type_key


def _set_attrs_type_key(self: Op, key: str) -> None:
    _own_set_attrs_type_key(self, "ir.DictAttrs" if key == "DictAttrs" else key)


def _change(op_name: str, **values: Any) -> None:
    if op_name not in _ours:
        raise ModelError(f"operator {op_name} is not one that was added with register, and stays as it is")
    REGISTRY[op_name] = replace(REGISTRY[op_name], **values)


def _lacking(op_name: str, what: str) -> Callable[..., Any]:
    def fail(*_: Any) -> NoReturn:
        raise TypeCheckError(f"operator {op_name} has no {what}")

    return fail
