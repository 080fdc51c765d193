"""What runs the graphs of other code generators: it is there when an executable is loaded, or an error says so."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from .._tvm import has_global_function
from .._tvm.importing import whole
from ..errors import ExecutableError

__all__ = ["require_runtimes"]


def require_runtimes(runtimes: Mapping[str, str]) -> None:
    """Import what registers packed functions, where they are not there yet.

    Parameters
    ----------
    runtimes : mapping of str to str
        The names of packed functions, and the Python modules that register them.

    Raises
    ------
    ExecutableError
        When one is not there, and its module cannot be imported or does not register it.
    """
    for function, module in runtimes.items():
        if not has_global_function(function):
            whole()  # some come with TVM's compiler
        if has_global_function(function):
            continue
        reason = f"the module {module} does not register it"
        if module == "__main__":
            reason = "the script that compiled it registered it; put the code generator into a module of its own"
        else:
            try:
                importlib.import_module(module)
            except ImportError as error:
                reason = f"the module {module}, which registers it, cannot be imported: {error}"
        if not has_global_function(function):
            raise ExecutableError(f"the executable needs {function}, the runtime of another code generator: {reason}")
