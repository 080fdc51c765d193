"""``tvm.driver.tvmc.composite_target``: the code generators that may stand before a target.

Those of :mod:`vmkit.byoc` cut a program for themselves. TVM's own, for libraries and accelerators, are gone with
Relay; their names are known, and say so when a model is compiled for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from ...errors import suggest
from .exceptions import TVMCException

if TYPE_CHECKING:
    import tvm

__all__ = ["get_codegen_by_target", "get_codegen_names"]

# By name: the option of PassContext that had the options of each.
_GONE = {
    "bnns": None,
    "clml": "relay.ext.clml.options",
    "cmsis-nn": "relay.ext.cmsisnn.options",
    "compute-library": None,
    "ethos-n": "relay.ext.ethos-n.options",
    "ethos-u": "relay.ext.ethos-u.options",
    "mrvl": "relay.ext.mrvl.options",
    "vitis-ai": "relay.ext.vitis_ai.options",
}


class Codegen(TypedDict):
    """What is known of a code generator.

    ``config_key`` is the option of ``PassContext`` that takes its options, None where it has none;
    ``pass_pipeline(mod, params, mod_name=..., **options)`` returns a module that is cut for it.
    """

    config_key: str | None
    pass_pipeline: Callable[..., tvm.IRModule]


def get_codegen_names() -> list[str]:
    """Return the names that there are."""
    from vmkit.byoc import CODEGENS

    return sorted({*_GONE, *CODEGENS})


def get_codegen_by_target(name: str) -> Codegen:
    """Return the code generator of a name.

    Raises
    ------
    TVMCException
        If there is none.
    """
    known = get_codegen_names()
    if name not in known:
        raise TVMCException(f"Composite target {name} is not defined in TVMC{suggest(name, known)}")
    if name in _GONE:
        return {"config_key": _GONE[name], "pass_pipeline": _refusing(name)}
    return {"config_key": None, "pass_pipeline": _partitioning(name)}


def _refusing(name: str) -> Callable[..., tvm.IRModule]:
    def refuse(*_: object, **__: object) -> tvm.IRModule:
        raise TVMCException(
            f"the code generator {name!r} is gone from TVM with Relay; vmkit.byoc.codegen registers one of your own"
        )

    return refuse


def _partitioning(name: str) -> Callable[..., tvm.IRModule]:
    def partitioned(
        mod: tvm.IRModule, params: Mapping[str, Any] | None = None, mod_name: str | None = "default", **options: object
    ) -> tvm.IRModule:
        from vmkit.byoc import partition
        from vmkit.relay.params import bind_params

        if options:
            raise TVMCException(f"the code generator {name!r} takes no options, got {', '.join(options)}")
        bound = bind_params(mod, params) if params else mod
        return partition(bound, name, mod_name=mod_name or "default").module

    return partitioned
