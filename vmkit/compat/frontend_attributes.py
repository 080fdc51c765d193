"""Operators of other formats as Relay's, their attributes renamed, converted or refused."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from vmkit.errors import suggest
from vmkit.relay import op

__all__ = ["AttrCvt", "Renamer", "RequiredAttr", "StrAttrsDict", "get_relay_op"]

_log = logging.getLogger(__name__)

Attributes: TypeAlias = Mapping[str, Any]
_TRUE = ("true", "1", "t", "y", "yes")
# What formats say of a node beside its attributes.
_OF_NODES = (
    *("_output_shapes", "_input_shapes", "_target_layout", "_node_name"),
    *("T", "use_cudnn_on_gpu", "is_training", "tvm_custom"),
)


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """Return the builder of an operator, by its name with dots, or by its last part as in ``nn`` and ``image``."""
    for full in (op_name, f"nn.{op_name}", f"image.{op_name}"):
        if full in op.REGISTRY:
            builder: Callable[..., Any] = op.REGISTRY[full].builder
            return builder
    raise RuntimeError(f"Unable to map op_name {op_name} to relay{suggest(op_name, op.REGISTRY)}")


class RequiredAttr:
    """The default of an attribute that must be there."""


_REQUIRED = RequiredAttr()


class StrAttrsDict:
    """Attributes whose values are texts, read as what they stand for.

    Each ``get_...`` takes the attribute's name and what to return where it is not there.

    Parameters
    ----------
    attrs : mapping of str to str
        The attributes.

    Raises
    ------
    AttributeError
        When an attribute is read that is not there and has no default.

    Examples
    --------
    >>> attrs = StrAttrsDict({"kernel": "(3, 3)", "no_bias": "True"})
    >>> attrs.get_int_tuple("kernel"), attrs.get_bool("no_bias"), attrs.get_int("num_group", 1)
    ((3, 3), True, 1)
    """

    def __init__(self, attrs: Mapping[str, str]) -> None:
        self.attrs = attrs

    def has_attr(self, key: str) -> bool:
        """Say whether an attribute is there."""
        return key in self.attrs

    def _read(self, key: str, default: Any, convert: Callable[[str], Any]) -> Any:
        if key in self.attrs:
            return convert(self.attrs[key])
        if isinstance(default, RequiredAttr):
            raise AttributeError(f"Required attribute {key} not found.{suggest(key, self.attrs)}")
        return default

    def get_float(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a float."""
        return self._read(key, default, float)

    def get_int(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return an int; None for the text ``"None"``."""
        return self._read(key, default, lambda text: None if text == "None" else int(text))

    def get_str(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return the text."""
        return self._read(key, default, str)

    def get_bool(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return whether the text is one of true, t, yes, y and 1, in any case."""
        return self._read(key, default, lambda text: text.strip().lower() in _TRUE)

    def get_int_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of ints, with None where the text says so."""
        return self._read(key, default, lambda text: tuple(None if p == "None" else int(p) for p in _parts(text)))

    def get_float_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of floats."""
        return self._read(key, default, lambda text: tuple(map(float, _parts(text))))

    def get_int_list(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a list of ints."""
        return self._read(key, default, lambda text: list(map(int, _parts(text))))

    def get_tuple_tuple_int(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of tuples of ints."""
        return self._read(key, default, lambda text: tuple(tuple(map(int, row)) for row in ast.literal_eval(text)))


def _parts(text: str) -> list[str]:
    """Return the texts between the commas of a tuple or list of numbers."""
    return [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]


class AttrCvt:
    """A converter of an operator: its attributes renamed and converted, and what Relay's has not refused.

    Parameters
    ----------
    op_name : str or callable
        The name of Relay's operator, or what gives it from the attributes.
    transforms : mapping of str to str or tuple, optional
        By attribute the new name, or ``(name, default)`` or ``(name, default, convert)``. The default stands for an
        attribute that is None; one that is not there is left to Relay's operator.
    excludes : sequence of str, optional
        The attributes that are refused.
    disables, ignores : sequence of str, optional
        The attributes that are left out.
    extras : mapping, optional
        More attributes of Relay's operator.
    custom_check : (callable, str), optional
        What must hold of the attributes, and what to say when it does not.
    """

    def __init__(
        self,
        op_name: str | Callable[[Attributes], str],
        transforms: Mapping[str, Any] | None = None,
        excludes: Sequence[str] | None = None,
        disables: Sequence[str] | None = None,
        ignores: Sequence[str] | None = None,
        extras: Attributes | None = None,
        custom_check: tuple[Callable[[Attributes], bool], str] | None = None,
    ) -> None:
        self._op_name = op_name
        self._transforms = transforms or {}
        self._excludes = frozenset(excludes or ())
        self._left_out = frozenset((*(disables or ()), *(ignores or ()), *_OF_NODES))
        self._extras = extras or {}
        self._custom_check = custom_check

    def __call__(self, inputs: Sequence[Any], attrs: Attributes, *args: Any) -> Any:
        """Return Relay's operator on inputs; what follows the attributes is not read.

        Raises
        ------
        NotImplementedError
            For an attribute that is excluded.
        RuntimeError
            When the custom check fails, and for an operator that Relay has not.
        """
        if self._custom_check is not None and not self._custom_check[0](attrs):
            raise RuntimeError(f"Check failed: {self._custom_check[1]}")
        name = self._op_name if isinstance(self._op_name, str) else self._op_name(attrs)
        made: dict[str, Any] = {}
        for key, value in attrs.items():
            if key in self._excludes:
                raise NotImplementedError(f"Attribute {key} in operator {name} is not supported.")
            if key in self._left_out:
                _log.debug("attribute %s is left out of %s", key, name)
            elif key in self._transforms:
                made.update([_transformed(key, self._transforms[key], value)])
            else:
                made[key] = value
        return get_relay_op(name)(*inputs, **{**made, **self._extras})


def _transformed(key: str, target: Any, value: Any) -> tuple[str, Any]:
    """Return the new name and value of an attribute."""
    given = tuple(target) if isinstance(target, list | tuple) else (target,)
    name, default, convert = (*given, *(None,) * 3)[:3]
    if not isinstance(name, str):
        raise ValueError(f"{target} is not a valid target of {key}, (name, default) expected.")
    if value is None:
        return name, default
    return name, convert(value) if convert is not None else value


class Renamer:
    """A converter of an operator that Relay has under another name.

    Parameters
    ----------
    new_name : str
        Relay's name.
    """

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name

    def __call__(self, inputs: Sequence[Any], attrs: Attributes, *args: Any) -> Any:
        """Return Relay's operator on inputs; what follows the attributes is not read."""
        return get_relay_op(self._new_name)(*inputs, **{k: v for k, v in attrs.items() if k != "tvm_custom"})
