"""The memory of the results of kernels is asked for by the program, and kernels write into it.

A call of a primitive function, ``let x = f(a, b)``, becomes one that gives no value: storage is asked for, a tensor is
laid into it, and ``vm.invoke_tvm_op(f, (a, b), (tensor,))`` fills it. Sizes that are known are constants; others are
computed by ``vm.shape_func``. vmkit's compiler lays memory out in Relax: the pass is for scripts that look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import tvm

from ...errors import ModelError
from ...target import canonical_target, device_type
from ...target.device_types import CPU
from ...target.plan import Targets
from ...values.element_types import stored_type
from ..analysis.forward_graph import is_fused_or_external, is_shaped_by_values
from ..analysis.infer_type import infer_module, typed
from ..expr_functor import ExprMutator
from ..ir import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TypeData,
    Var,
    VirtualDevice,
    children,
    const,
    define_type,
    is_call,
    post_order,
    with_functions,
)
from ..op.memory import Storage, alloc_storage, alloc_tensor
from ..op.registry import build
from ..op.vm import invoke_tvm_op, reshape_tensor, shape_func, shape_of
from .flat_tuples import leaves, structured, tensor_types
from .registry import ModuleTransform, relay_pass

__all__ = ["ManifestAlloc", "values_needed"]

_ALIGNMENT = 64  # bytes
_HOST = VirtualDevice(CPU, 0)  # where shapes and sizes are


@relay_pass(opt_level=0)
def ManifestAlloc(target: Targets | VirtualDevice | None = None) -> ModuleTransform:
    """Return the pass that asks for the memory of what primitive functions compute, in the program.

    The program is in A-normal form (:func:`ToANormalForm`) and its kernels are functions (:func:`FuseOps`).

    Parameters
    ----------
    target : optional
        What the program is compiled for, in a form that :func:`vmkit.target.canonical_target` takes, or the
        VirtualDevice itself: there the memory is, but that of values under an ``on_device`` of their own. Shapes and
        sizes are on the CPU. By default this machine.

    Raises
    ------
    ModelError
        When a primitive function is called where no Let binds the result.
    """
    place = target if isinstance(target, VirtualDevice) else VirtualDevice(_device_of(target), 0)

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        kernels = {v: f for v, f in mod.functions.items() if isinstance(f, Function) and is_fused_or_external(f)}
        result = with_functions(mod)
        for gvar, function in mod.functions.items():
            if isinstance(function, Function) and gvar not in kernels:
                result[gvar] = _Manifest(kernels, place).visit(function)
        define_type(result, TypeData(Storage, [], []))
        return infer_module(result)

    return on_module


def _device_of(target: Targets | None) -> int:
    return device_type(canonical_target(target).primary)


def values_needed(function: Function) -> list[bool]:
    """Return for each parameter of a typed function whether the shapes of its results depend on values of it."""
    needed: set[Any] = set()
    for node in reversed(list(post_order(function.body))):
        if isinstance(node, Call) and isinstance(node.op, Op) and is_shaped_by_values(node):
            # What the dyn. operators shape comes first; the others take nothing that they only shape.
            needed.update(node.args[1 if node.op.name.startswith("dyn.") else 0 :])
        if node in needed:
            needed.update(children(node))
    return [param in needed for param in function.params]


class _Manifest(ExprMutator):
    """Rewrites one function."""

    def __init__(self, kernels: dict[GlobalVar, Function], place: VirtualDevice) -> None:
        super().__init__()
        self.kernels: dict[Any, Function] = dict(kernels)
        self.place = place

    def visit_function(self, fn: Function) -> RelayExpr:
        return fn if is_fused_or_external(fn) else super().visit_function(fn)

    def visit_call(self, call: Call) -> RelayExpr:
        if self.kernel_of(call) is not None:
            raise ModelError("a primitive function is called inside an expression: bring it to A-normal form first")
        return super().visit_call(call)

    def visit_let(self, let: Let) -> RelayExpr:
        value, place = (
            (let.value.args[0], let.value.attrs.virtual_device)
            if is_call(let.value, "on_device")
            else (let.value, self.place)
        )
        if isinstance(value, Function) and is_fused_or_external(value):
            self.kernels[let.var] = value
        kernel = self.kernel_of(value)
        if kernel is None:
            return super().visit_let(let)
        scope = _Scope(place)
        made = scope.called(cast("Call", value), kernel)
        # A chain of Lets is walked before what it binds is put around the rest.
        body: RelayExpr = Let(let.var, made, self.visit(let.body), let.span)
        for variable, bound in reversed(scope.bindings):
            body = Let(variable, bound, body)
        return body

    def kernel_of(self, value: RelayExpr) -> Function | None:
        """Return the primitive function that a call calls."""
        if not isinstance(value, Call):
            return None
        if isinstance(value.op, Function):
            return value.op if is_fused_or_external(value.op) else None
        return self.kernels.get(value.op)


class _Scope:
    """The bindings that one call of a primitive function becomes."""

    def __init__(self, place: VirtualDevice) -> None:
        self.place = place
        self.bindings: list[tuple[Var, RelayExpr]] = []

    def bind(self, name: str, value: RelayExpr) -> Var:
        variable = Var(name)
        self.bindings.append((variable, value))
        return variable

    def called(self, call: Call, kernel: Function) -> RelayExpr:
        """Return the result of a call, as tensors that have been asked for and filled."""
        ty, inputs = call.checked_type, list(call.args)
        types = tensor_types(ty)
        shapes = self.shapes(call.op, kernel, inputs, types)
        if kernel.attrs.get("relay.reshape_only"):
            data, shape = cast("Expr", inputs[0]), cast("Expr", shapes[0])
            return reshape_tensor(data, shape, list(types[0].shape))
        storages = [self.storage(i, t, shape) for i, (t, shape) in enumerate(zip(types, shapes, strict=True))]
        tensors = [
            self.bind(f"tensor_{i}", alloc_tensor(s, const(0, "int64"), shape, t.dtype, list(t.shape)))
            for i, (s, t, shape) in enumerate(zip(storages, types, shapes, strict=True))
        ]
        self.bind("_", invoke_tvm_op(call.op, Tuple(inputs), Tuple(tensors)))
        return structured(ty, iter(tensors))

    def shapes(
        self, callee: RelayExpr, kernel: Function, inputs: Sequence[RelayExpr], types: Sequence[TensorType]
    ) -> list[RelayExpr]:
        """Return the shapes of the results as expressions: constants, or what a shape function writes."""
        if all(isinstance(d, int) for ty in types for d in ty.shape):
            return [_vector(ty.shape) for ty in types]
        by_value = values_needed(kernel)
        operands: list[RelayExpr] = []
        flags: list[int] = []
        for value, is_value in zip(inputs, by_value, strict=True):
            for part in leaves(value.checked_type, value):
                operands.append(
                    self.bind(f"in_shape_{len(operands)}", part if is_value else shape_of(cast("Expr", part)))
                )
                flags.append(int(is_value))
        results = []
        for index, ty in enumerate(types):
            of_shape = TensorType([len(ty.shape)], "int64")
            storage = self.storage(f"shape_{index}", of_shape, _vector(of_shape.shape), _HOST)
            made = alloc_tensor(storage, const(0, "int64"), _vector(of_shape.shape), "int64", list(of_shape.shape))
            results.append(self.bind(f"out_shape_{index}", made))
        self.bind("shape_func", shape_func(callee, Tuple(operands), Tuple(results), flags))
        return list(results)

    def storage(self, name: int | str, ty: TensorType, shape: RelayExpr, where: VirtualDevice | None = None) -> Var:
        """Bind storage for a tensor of a type and shape."""
        bits = tvm.DataType(stored_type(ty.dtype)).bits
        element = (bits + 7) // 8
        if isinstance(shape, Constant):
            size: RelayExpr = const(prod(int(d) for d in ty.shape) * element, "int64")
        else:
            size = build("multiply", build("prod", shape), const(element, "int64"))
        made = alloc_storage(size, shape, const(max(_ALIGNMENT, element), "int64"), where or self.place, ty.dtype)
        return self.bind(f"storage_{name}", made)


def _vector(sizes: Iterable[Any]) -> Constant:
    return const(np.array([int(size) for size in sizes], "int64"))
