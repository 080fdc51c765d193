"""Programs that only hand values on, for tensors of any extents."""

from __future__ import annotations

from dataclasses import replace

from ..bytecode import without_extent_checks
from ..values.signature import Spec, TensorSpec, TupleSpec
from .executable import Executable, Parts

__all__ = ["of_any_extents"]


def of_any_extents(executable: Executable) -> Executable:
    """Return an executable that takes tensors of any extents, if it only hands values on; another one as it is.

    Relay's machine compared no extents, and scripts passed what was wrong only where nothing read it.
    """
    free = None if executable.late_bound else without_extent_checks(executable.program)
    if free is None:
        return executable
    signatures = {
        name: replace(signature, inputs=tuple(map(_of_any_extent, signature.inputs)))
        for name, signature in executable.signatures.items()
    }
    return Executable(Parts(free, executable.libraries), signatures, executable.built_for, executable.info)


def _of_any_extent(spec: Spec) -> Spec:
    match spec:
        case TensorSpec():
            return replace(spec, shape=("?",) * len(spec.shape))
        case TupleSpec():
            return replace(spec, fields=tuple(map(_of_any_extent, spec.fields)))
    return spec
