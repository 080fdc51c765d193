"""StableHLO as Relax modules, read by TVM's importer through jaxlib."""

from __future__ import annotations

import importlib
import re
from importlib.metadata import version

import tvm

from ..errors import ModelError, UnsupportedOperatorError, VersionError
from .packages import needed

__all__ = ["from_stablehlo"]

# The importer would take the first of several results for all of them.
_RETURN = re.compile(r"^\s*(?:func\.|stablehlo\.)?return\s([^:\n]*):", re.MULTILINE)
_UNSUPPORTED = "Unsupported op"


def from_stablehlo(text: str, name: str = "the module") -> tvm.IRModule:
    """Return the Relax module of StableHLO's text, as ``jax.export`` and ``jax.jit(f).lower(x)`` give it.

    Parameters
    ----------
    text : str
        A module of MLIR with one function.
    name : str
        What to call it in messages.

    Raises
    ------
    UnsupportedOperatorError
        For an operator that TVM's importer has no converter for.
    ModelError
        For what is no such text.
    UnavailableError
        Where the package ``jax`` is not installed.
    VersionError
        Where it is newer than TVM's importer.
    """
    needed("jax", "'jax<0.7'", f"{name}: StableHLO")
    shaped = importlib.import_module("jaxlib.mlir.ir").ShapedType
    if not hasattr(shaped, "isinstance"):
        raise VersionError(
            f"{name}: TVM's importer of StableHLO uses what jax {version('jax')} has no more; pip install 'jax<0.7'"
        )
    results = _RETURN.search(text)
    if results is not None and results[1].count("%") > 1:
        raise UnsupportedOperatorError(
            f"{name}: TVM's importer takes functions of one result, not {results[1].strip()}"
        )
    from tvm.relax.frontend.stablehlo import from_stablehlo as imported

    try:
        return imported(text)
    except Exception as error:
        if str(error).startswith(_UNSUPPORTED):
            raise UnsupportedOperatorError(f"{name}: TVM's importer has no converter: {error}") from error
        raise ModelError(f"{name}: TVM's importer fails at it: {type(error).__name__}: {error}") from error
