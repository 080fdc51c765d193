"""Texts of a program at the stages of its compilation, by the names that command lines have for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tvm

from ..errors import ModelError, OptionError, suggest
from ..executable.executable import Executable
from ..relay.ir import Function
from ..relay.text import astext
from .pass_names import known_passes, todays_name
from .snapshots import FLATTENED, LOWERED, SCHEDULED, SIMPLIFIED, TENSORS, Snapshots

__all__ = ["FORMATS", "Dumps"]

# The names of TVM's fork of it that dumps TIR at four places are kept for what stands there today.
_AFTER = {
    "relax": SCHEDULED,
    "tir": LOWERED,
    "tir0": TENSORS,
    "tir1": FLATTENED,
    "tir2": SIMPLIFIED,
    "tir3": LOWERED,
}
# What is asked of the libraries of kernels: the kinds of those that have it.
_SOURCES = {"ll": ("llvm",), "asm": ("llvm",), "c": ("c",)}

FORMATS = ("relay", *_AFTER, "bytecode", *_SOURCES)
"""What there is; beside it ``tir:PASS``, the program after a pass."""


class Dumps:
    """The texts that a caller asks for.

    Parameters
    ----------
    formats : iterable of str
        Of :data:`FORMATS`, or ``tir:PASS``: ``relay`` is the model, ``relax`` the calls of scheduled kernels, ``tir``
        the kernels before code is made of them (``tir0`` to ``tir2`` are earlier), ``bytecode`` the virtual machine's
        program, ``ll``, ``asm`` and ``c`` the code of the kernels.

    Attributes
    ----------
    instruments : list
        What ``PassContext(instruments=...)`` has to be given while the program is compiled.

    Raises
    ------
    OptionError
        For a format or a pass that there is not.

    Examples
    --------
    >>> import vmkit
    >>> from vmkit import relay
    >>> dumps = Dumps(["relay", "tir"])
    >>> x = relay.var("x", shape=(2,))
    >>> mod = tvm.IRModule({"main": relay.Function([x], relay.exp(x))})
    >>> with vmkit.PassContext(instruments=dumps.instruments):
    ...     executable = vmkit.compile(mod, "llvm")
    >>> texts = dumps.texts(mod, executable)
    >>> "exp(%x)" in texts["relay"], "T.prim_func" in texts["tir"]
    (True, True)
    """

    def __init__(self, formats: Iterable[str]) -> None:
        self._passes = {each: _pass_of(each) for each in formats}
        wanted = [name for name in self._passes.values() if name]
        self._snapshots = Snapshots(wanted)
        self.instruments = [self._snapshots] if wanted else []

    def __bool__(self) -> bool:
        return bool(self._passes)

    def texts(
        self,
        mod: tvm.IRModule,
        executable: Executable | None,
        code: Callable[[str], str | None] | None = None,
    ) -> dict[str, str]:
        """Return each text by the name of its format; without an executable there are texts of the program only.

        What else was made of it than an executable gives its `code` by the name of a format, None for one that it has
        not.

        Raises
        ------
        ModelError, OptionError
            Where the program or its target has no such form.
        """
        return {
            each: self._snapshots.text(name) if name else _text(mod, executable, code, each)
            for each, name in self._passes.items()
        }


def _pass_of(each: str) -> str | None:
    """Return the pass after which a dump is taken, None for one that is no snapshot."""
    kind, colon, name = each.partition(":")
    if not colon and each in FORMATS:
        return _AFTER.get(each)
    if kind != "tir" or not colon:
        raise OptionError(f"--dump-code: there is no {each!r}; there are {', '.join(FORMATS)}, tir:PASS")
    forms = (todays_name(name), todays_name(f"tir.{name}"))
    found = next((form for form in forms if form in known_passes()), None)
    if found is None:
        raise OptionError(f"--dump-code: there is no pass {name!r}{suggest(name, known_passes())}")
    return found


def _text(mod: tvm.IRModule, executable: Executable | None, code: Callable[[str], str | None] | None, each: str) -> str:
    if each == "relay":
        if not any(isinstance(function, Function) for function in mod.functions.values()):
            raise ModelError("--dump-code relay: the model is Relax and has no Relay text; --dump-code relax shows it")
        return astext(mod, show_meta_data=False)
    if code is not None and (found := code(each)) is not None:
        return found
    if executable is None:
        raise OptionError(f"--dump-code {each}: there is no such code where no executable is made")
    if each == "bytecode":
        return executable.bytecode
    all_of_them = [part for library in executable.libraries for part in (library, *library.imports)]
    libraries = [library for library in all_of_them if library.kind in _SOURCES[each]]
    if not libraries:
        raise OptionError(f"--dump-code {each}: there is no such code for {executable.target}")
    return "\n".join(library.inspect_source(each) for library in libraries)
