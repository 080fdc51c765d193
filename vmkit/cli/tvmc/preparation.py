"""What compiling and tuning begin with: what a model is compiled for, and what is changed in it before that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ...errors import suggest
from . import composite_target
from .exceptions import TVMCException
from .target import target_from_cli
from .transform import apply_graph_transforms, parse_graph_transform_args

if TYPE_CHECKING:
    import tvm
    from tvm.target import Target

__all__ = ["Preparation"]


@dataclass(frozen=True)
class Preparation:
    """What a model is compiled for, and what is changed in it before.

    Attributes
    ----------
    target : Target
        What compiles it, with its host.
    generators : sequence of mapping
        The code generators that take their parts first, as :func:`~.target.parse_target` describes them.
    changes : mapping
        Layouts and precision; see :func:`~.transform.apply_graph_transforms`.
    """

    target: Target
    generators: Sequence[Mapping[str, Any]]
    changes: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        target: str,
        host: str | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> Preparation:
        """Return what a command line, or a caller of tvmc, says.

        Parameters
        ----------
        target, host : str
            What to compile for, with code generators, and what drives a device; see :func:`~.target.target_from_cli`.
        options : mapping, optional
            More options of targets, by their names.
        changes : mapping, optional
            Layouts and precision, by the names of tvmc's arguments.

        Raises
        ------
        TVMCException
            For a target that there is not.
        TypeError
            For a change that there is not.
        """
        from tvm.target import Target

        known = parse_graph_transform_args({})
        for name in changes or {}:
            if name not in known:
                raise TypeError(f"tvmc has no argument {name!r}{suggest(name, known)}")
        if not target:
            raise TVMCException("there is no target: --target native is this machine, --target llvm any of its kind")
        found, generators = target_from_cli(target, options)
        whole = found if host is None else Target(found, target_from_cli(host)[0])
        return cls(whole, generators, known | dict(changes or {}))

    @property
    def configs(self) -> dict[str, Any]:
        """The options of code generators that ``PassContext`` has."""
        keys = {
            each["name"]: composite_target.get_codegen_by_target(each["name"])["config_key"] for each in self.generators
        }
        return {key: each["opts"] for each in self.generators if (key := keys[each["name"]]) is not None}

    def changed(self, mod: tvm.IRModule, params: Mapping[str, Any]) -> tvm.IRModule:
        """Return a model with the layouts and the precision that are wanted."""
        return apply_graph_transforms(mod, self.changes, params)

    def cut(
        self, mod: tvm.IRModule, params: Mapping[str, Any], name: str | None = "default"
    ) -> tuple[tvm.IRModule, Mapping[str, Any]]:
        """Return a program that is cut for each code generator in turn, and the parameters that are not inside it."""
        for generator in self.generators:
            codegen = composite_target.get_codegen_by_target(generator["name"])
            mod = codegen["pass_pipeline"](mod, params, mod_name=name, **generator["opts"])
        return mod, {} if self.generators else params
