"""Relay's handle of a module that has the prelude: its functions, types and constructors by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from ..ir import Constructor, Dim, GlobalTypeVar, find_constructor, find_type
from ..library import import_from_std
from .names import ranked_name, static_name
from .ranked import TensorArrayOps
from .static import StaticTensorArrayOps

__all__ = ["Prelude"]


class Prelude:
    """The prelude of a module.

    Making it adds lists, options, trees and functions over them to the module. A function of the module is an attribute
    under its name, such as ``prelude.map``. Tensor arrays are made when first asked for, by the methods that take a
    data type.

    Parameters
    ----------
    mod : tvm.IRModule, optional
        The module, which is changed; by default a new one. What it has of the prelude stays as it is.

    Examples
    --------
    >>> import tvm
    >>> from vmkit import relay
    >>> mod = tvm.IRModule()
    >>> prelude = relay.prelude.Prelude(mod)
    >>> _, cons, nil = prelude.get_type("List")
    >>> mod["main"] = relay.Function([], prelude.length(cons(relay.const(5), nil())))
    >>> int(relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()().numpy())
    1
    """

    def __init__(self, mod: tvm.IRModule | None = None) -> None:
        self.mod = tvm.IRModule() if mod is None else mod
        self.load_prelude()

    def load_prelude(self) -> None:
        """Add what is missing of the prelude to the module."""
        import_from_std(self.mod, "prelude.rly")

    def find_global(self, name: str) -> GlobalVar | None:
        """Return the function of a name; None when the module has none."""
        return self.mod.get_global_var(name) if name in self._names() else None

    def __getattr__(self, name: str) -> GlobalVar:
        # Only what is no attribute otherwise gets here; the module itself is missing while a copy is made.
        if name.startswith("__") or name == "mod":
            raise AttributeError(name)
        found = self.find_global(name)
        if found is None:
            raise AttributeError(f"the module has no function @{name}{suggest(name, self._names())}")
        return found

    def _names(self) -> list[str]:
        return [gvar.name_hint for gvar in self.mod.functions]

    # -- by name, or by name and element type

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of what tensor arrays of an element type have: ``tensor_array_read_float32``."""
        return ranked_name(canonical, dtype)

    def get_global_var(self, canonical: str, dtype: str | None = None) -> GlobalVar:
        """Return a function; with an element type, one of its tensor arrays, which is made if need be.

        Raises
        ------
        ModelError
            When there is none of that name.
        """
        if dtype is not None:
            return TensorArrayOps(self, dtype).get_global_var(canonical)
        found = self.find_global(canonical)
        if found is None:
            raise ModelError(f"the module has no function @{canonical}{suggest(canonical, self._names())}")
        return found

    get_var = get_global_var

    def get_type(self, canonical: str, dtype: str | None = None) -> Any:
        """Return a type and its constructors; with an element type, the type ``tensor_t`` alone.

        Returns
        -------
        tuple of GlobalTypeVar and Constructor, or GlobalTypeVar
            ``get_type("List")`` is ``(List, Cons, Nil)``.
        """
        if dtype is not None:
            return TensorArrayOps(self, dtype).get_type(canonical)
        data = find_type(self.mod, canonical)
        return (data.header, *data.constructors)

    def get_ctor(self, ty_name: str, canonical: str, dtype: str | None = None) -> Constructor:
        """Return a constructor of a type; with an element type, the canonical name goes without it."""
        if dtype is None:
            return find_constructor(self.mod, ty_name, canonical)
        if ty_name in ("tensor_t", ranked_name("tensor_t", dtype)):
            return TensorArrayOps(self, dtype).get_ctor(canonical)
        return find_constructor(self.mod, ty_name, ranked_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the tensors of an element type, such as ``tensor2``."""
        return TensorArrayOps(self, dtype).get_ctor(canonical)

    # -- by name, element type and shape

    def get_name_static(self, canonical: str, dtype: str, shape: Sequence[Dim], batch_dim: int | None = None) -> str:
        """Return the name of what tensor arrays of a shape have: ``tensor_array_read_float32_2_3``."""
        return static_name(canonical, dtype, shape, batch_dim)

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Sequence[Dim], batch_dim: int | None = None
    ) -> GlobalVar:
        """Return a function of the tensor arrays of an element type and a shape, which is made if need be."""
        return StaticTensorArrayOps(self, dtype, shape, batch_dim).get_global_var(canonical)

    get_var_static = get_global_var_static

    def get_type_static(self, canonical: str, dtype: str, shape: Sequence[Dim]) -> GlobalTypeVar:
        """Return the type ``tensor_t`` of an element type and a shape."""
        return StaticTensorArrayOps(self, dtype, shape).get_type(canonical)

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Sequence[Dim]) -> Constructor:
        """Return a constructor, of the type ``tensor_t`` of an element type and a shape."""
        if ty_name != "tensor_t":
            raise ModelError(f"tensor arrays have the type 'tensor_t', not {ty_name!r}")
        return StaticTensorArrayOps(self, dtype, shape).get_ctor(name)

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Sequence[Dim]) -> Constructor:
        """Return a constructor of the tensors of an element type and a shape: ``tensor_constructor``."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)
