"""What was built: bytecode, kernels and signatures; saved to one file, which :mod:`.loading` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
from tvm.runtime import Tensor

from .. import bytecode
from .._dataclasses import dataclass
from .._deferred import deferred
from .._version import __version__
from ..bytecode import Program, module_of
from ..bytecode.late_constants import bound, late_names, taken_out
from ..bytecode.program import is_placeholder
from ..bytecode.stored_weights import moved_to_block, needs_blocks, needs_half_weights, needs_later_weights
from ..errors import ExecutableError
from ..target.built_for import BuiltFor
from ..values.param_dict import load_param_dict, save_param_dict
from ..values.signature import AnySpec, Signature, Spec
from .archive import CODE, FORMAT_VERSION, HALF_VERSION, LATER_VERSION, PLAIN_VERSION, WEIGHTS, Content, write_archive
from .build_info import BuildInfo
from .description import Description, is_note
from .machine_code import built_here
from .needs import require_needs
from .runtimes import require_runtimes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..target import plan
    from . import library_files
    from .linker import Linker
    from .objects import Objects
else:
    # They need TVM's compiler, which running does not.
    library_files, plan = deferred("vmkit.executable.library_files"), deferred("vmkit.target.plan")

__all__ = ["Executable", "Parts", "ProfilingParts", "described"]

_DEVICE_KINDS = {"llvm": "cpu", "c": "cpu", "nvptx": "cuda"}


class _ArgumentTypeError(ExecutableError, TypeError):
    """An argument of :meth:`Executable.load_exec` of the wrong type."""


@dataclass(frozen=True)
class Parts:
    """What a runtime module is made of. As long as it is not made, constants are where they were read to.

    Of libraries that were linked already, `files` are what the linker made; it is empty if there are others. Kernels of
    which only machine code is kept are `objects`, and no libraries.
    """

    program: Program
    libraries: tuple[tvm.runtime.Module, ...]
    files: tuple[bytes, ...] = ()
    objects: Objects | None = None


@dataclass(frozen=True)
class ProfilingParts:
    """What a profiler needs of a program that was compiled in this process; a file does not keep it.

    Parameters
    ----------
    marked
        Returns libraries whose kernel groups say when each kernel has run; None for a program without groups.
    hashes
        Returns a digest of each kernel, by its name.
    functions
        Returns the kernels before code was made of them, by their names.
    nodes
        Which nodes of the model each call of a kernel is for, by the kernel's name and in the order of the calls;
        empty where it was not asked for.
    """

    marked: Callable[[], tuple[tvm.runtime.Module, ...]] | None
    hashes: Callable[[], Mapping[str, str]]
    functions: Callable[[], Mapping[str, tvm.tirx.PrimFunc]]
    nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Executable:
    """A compiled program: its functions' bytecode, its kernels, what it takes and returns.

    Parameters
    ----------
    mod
        The runtime module that the Relax VM loads, or its parts, from which it is made when it is needed.
    signatures
        By function name. A function that has none gets one of parameter names only.
    target
        What it was compiled for; None if not known.
    info
        What the compiler tells of the build; kept in the file.
    profiling
        For :mod:`vmkit.profiling`; None for an executable from a file.

    Examples
    --------
    >>> import tempfile
    >>> import vmkit
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(relay.Any(), 2))
    >>> exe = vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exe.export(f"{folder}/model.vmx")
    ...     print(vmkit.load(f"{folder}/model.vmx").signature)
    main(x: float32[?, 2]) -> float32[?, 2]
    """

    def __init__(
        self,
        mod: tvm.runtime.Module | Parts,
        signatures: Mapping[str, Signature] | None = None,
        target: tvm.target.Target | BuiltFor | None = None,
        info: BuildInfo | None = None,
        *,
        libraries: Mapping[str, bytes] | None = None,
        profiling: ProfilingParts | None = None,
    ) -> None:
        self.profiling = profiling
        self._parts = mod if isinstance(mod, Parts) else None
        self._mod = None if isinstance(mod, Parts) else mod
        self.built_for = target if isinstance(target, BuiltFor) else BuiltFor.of(target)
        self.info = info if info is not None else BuildInfo()
        files = mod.files if isinstance(mod, Parts) and len(mod.files) == len(mod.libraries) else ()
        self._libraries = libraries or {f"lib{number}.so": file for number, file in enumerate(files)}
        self._runnable: tvm.runtime.Module | None = None
        self._built: tuple[tvm.runtime.Module, ...] | None = None
        given = dict(signatures or {})
        unknown = sorted(set(given) - set(self.globals))
        if unknown:
            raise ExecutableError(f"signatures for functions that the executable lacks: {', '.join(unknown)}")
        self.signatures = {name: given.get(name) or self._derived(name) for name in self.globals}
        for name, signature in self.signatures.items():
            arity = len(self.program.function(name).param_names)
            if len(signature.inputs) != arity:
                raise ExecutableError(f"{name} takes {arity} values, but its signature is {signature}")

    @staticmethod
    def from_module(mod: tvm.runtime.Module | tvm.runtime.Executable) -> Executable:
        """Return the executable of a runtime module that TVM compiled, with what its bytecode tells of it."""
        inner = mod.mod if isinstance(mod, tvm.runtime.Executable) else mod
        if isinstance(inner, tvm.runtime.Module) and inner.kind == "rpc":
            raise _ArgumentTypeError("the module is on another machine: vmkit.runtime.RemoteMachine runs it there")
        if not isinstance(inner, tvm.runtime.Module) or not inner.implements_function("vm_load_executable"):
            kind = type(mod).__name__
            raise _ArgumentTypeError(f"expected an Executable or a runtime module of the Relax VM, not a {kind}")
        return _noted(inner)

    def __repr__(self) -> str:
        target = plan.command_line(self.target) if self.target is not None else "unknown"
        main = self.signatures.get("main")
        shown = str(main) if main else ", ".join(map(str, self.signatures.values()))
        return f"<Executable {shown}, target {target}>"

    @property
    def target(self) -> tvm.target.Target | None:
        """What it was compiled for; None if not known."""
        return self.built_for.target

    @property
    def number_of_cores(self) -> int:
        """How many cores it was compiled for; 0 if nothing was said."""
        return self.built_for.number_of_cores

    @property
    def code(self) -> bytes:
        """The bytecode blob."""
        return bytecode.encode(self.program)

    @cached_property
    def program(self) -> bytecode.Program:
        """The bytecode as data."""
        return self._parts.program if self._parts else bytecode.decode(bytecode.blob_of(self._module_here))

    @property
    def mod(self) -> tvm.runtime.Module:
        """The runtime module that the Relax VM loads; it has its own copy of the constants."""
        return self._module_here

    @property
    def _module_here(self) -> tvm.runtime.Module:
        if self._mod is None:
            self._mod = module_of(self.program, self.libraries)
        return self._mod

    @property
    def libraries(self) -> tuple[tvm.runtime.Module, ...]:
        """The libraries of kernels; where only machine code was kept of them, they are built once more."""
        if self._objects is not None:
            return self._objects.in_llvm()
        return tuple(self._parts.libraries if self._parts else self._module_here.imports)

    @property
    def _objects(self) -> Objects | None:
        return self._parts.objects if self._parts else None

    def with_program(self, program: Program) -> Parts:
        """Return another program with the kernels of this one."""
        return Parts(program, () if self._objects is not None else self.libraries, objects=self._objects)

    @property
    def holds_weights(self) -> bool:
        """Whether the constants are in this object's memory, and not in that of a runtime module."""
        return self._parts is not None and self._mod is None

    @property
    def module(self) -> tvm.runtime.Module:
        """The runtime module; Relay's other name of :attr:`mod`."""
        return self.mod

    @property
    def lib(self) -> tvm.runtime.Module | None:
        """The library of kernels, or None if the program has none."""
        libraries = self.libraries
        return libraries[0] if libraries else None

    @property
    def signature(self) -> Signature:
        """The signature of ``main``."""
        if "main" not in self.signatures:
            raise ExecutableError(f"the executable has no function main; it has {', '.join(self.globals) or 'none'}")
        return self.signatures["main"]

    @property
    def inputs(self) -> tuple[Spec, ...]:
        """What ``main`` takes."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[Spec, ...]:
        """What ``main`` returns."""
        return self.signature.outputs

    @property
    def device_kind(self) -> str | None:
        """The kind of device that the program runs on, such as ``cuda``; None if not known."""
        kind = self.built_for.kind
        return None if kind is None else _DEVICE_KINDS.get(kind, kind)

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be called."""
        return self.program.globals

    @property
    def _kernel_groups(self) -> Mapping[str, list[str]]:
        return self.info.kernel_groups or {}

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels."""
        return bytecode.kernel_names(self.program, self._kernel_groups)

    @property
    def primitives(self) -> str:
        """The kernels, one a line."""
        return bytecode.primitives_text(self.program, self._kernel_groups)

    @property
    def constants(self) -> str:
        """The constants, one a line."""
        return bytecode.constants_text(self.program)

    @property
    def bytecode(self) -> str:
        """The instructions of every function, for people to read."""
        return bytecode.disassemble(self.program, self._kernel_groups)

    @property
    def stats(self) -> str:
        """Counts and names of constants, functions and kernels."""
        return bytecode.stats(self.program, self._kernel_groups)

    def get_function_params(self, func_name: str) -> list[str]:
        """Return the names of a function's parameters."""
        return list(self.program.function(func_name).param_names)

    @property
    def late_bound(self) -> list[str]:
        """The names of the constants that have to be loaded before a machine can be made."""
        return late_names(self.program)

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, Tensor]:
        """Move the constants of `byte_limit` bytes and more out of the executable, and return them by name."""
        program, moved = taken_out(self.program, byte_limit)
        if moved:
            self._replace_program(program)
        return moved

    def move_late_bound_consts(self, path: str | Path, byte_limit: int) -> None:
        """Move the constants of `byte_limit` bytes and more to a file, in the format of ``relay.save_param_dict``."""
        moved = self.get_late_bound_consts(byte_limit)
        Path(path).write_bytes(save_param_dict(moved))

    def load_late_bound_consts(self, path: str | Path) -> None:
        """Bind the constants in a file that :meth:`move_late_bound_consts` wrote."""
        self.load_late_bound_consts_from_map(load_param_dict(Path(path).read_bytes()))

    def load_late_bound_consts_from_map(self, constants: Mapping[str, Any]) -> None:
        """Bind constants by name; an executable that lacks none stays as it is.

        Raises
        ------
        ExecutableError
            If one is missing, of another type or shape, or has no place.
        """
        if self.late_bound:
            self._replace_program(bound(self.program, constants))

    def _replace_program(self, program: Program) -> None:
        program.validate()
        self._parts = self.with_program(program)
        self.__dict__.pop("program", None)
        self._mod = self._runnable = None

    @property
    def needs_deep_stack(self) -> bool:
        """Whether calls may recurse deeper than an ordinary stack: the program recurses or builds ADT values.

        The compiler can decide it by ``info.recursive``.
        """
        if self.info.recursive is not None:
            return self.info.recursive
        return bool(self.program.recursive_functions()) or self.program.makes_adt_values()

    def runnable(self, program: Program | None = None) -> tvm.runtime.Module:
        """Return the module in a form that runs here: kernels that are still source or objects are built first.

        Parameters
        ----------
        program
            Another form of the program, to be run in its place.

        Raises
        ------
        ExecutableError
            If the kernels are for another machine; running them would end the process.
        """
        if self.late_bound:
            raise ExecutableError(
                f"Need to load late-bound-constants before creating VM: {', '.join(self.late_bound)}; "
                "call load_late_bound_consts"
            )
        left = [at for at, each in enumerate(self.program.constants) if is_placeholder(each) and not is_note(each)]
        if left:
            raise ExecutableError(
                f"constant {left[0]} of the bytecode is a text in the place of a tensor that is lacking"
            )
        problems = self.built_for.problems_here()
        if problems:
            reasons = "; ".join(problems)
            raise ExecutableError(f"the executable cannot run here: {reasons}; compile the model for this machine")
        if self._built is None:
            linked = None if self._objects is None else self._objects.library()
            self._built = (linked,) if linked is not None else built_here(self.libraries, self.program)
        if program is not None:
            return module_of(program, self._built)
        if self._runnable is None:
            is_own = self._objects is None and all(map(tvm.runtime.Module.same_as, self._built, self.libraries))
            # Weights stay out of what a compiler and a linker make of kernels in C.
            self._runnable = self._module_here if is_own else module_of(self.program, self._built)
        return self._runnable

    def save(self) -> tuple[bytearray, tvm.runtime.Module | None]:
        """Return the bytecode, with signatures and target inside, and the library; :meth:`load_exec` joins them."""
        return bytearray(bytecode.encode(self._with_note)), self.lib

    @property
    def _with_note(self) -> Program:
        """The bytecode with what is known of the executable among its constants."""
        kept = tuple(constant for constant in self.program.constants if not is_note(constant))
        return replace(self.program, constants=(*kept, self._description.as_note()))

    @staticmethod
    def load_exec(bytecode: bytes | bytearray | str, lib: tvm.runtime.Module | None) -> Executable:
        """Return the executable that :meth:`save` took apart.

        Raises
        ------
        ExecutableError
            Also a TypeError for arguments of another type; ``Invalid VM file format ...`` if the bytes are not code.
        """
        if isinstance(bytecode, str):
            bytecode = bytecode.encode("latin-1")
        if not isinstance(bytecode, bytes | bytearray):
            raise _ArgumentTypeError(
                "bytecode is expected to be the type of bytearray or TVMByteArray, "
                f"but received {type(bytecode).__name__}"
            )
        if lib is not None and not isinstance(lib, tvm.runtime.Module):
            raise _ArgumentTypeError(
                f"lib is expected to be the type of tvm.runtime.Module, but received {type(lib).__name__}"
            )
        made = _noted(module_of(bytes(bytecode), [] if lib is None else [lib]))
        require_needs(made.program, made.libraries)
        return made

    def export(
        self,
        path: str | Path,
        linker: Linker | None = None,
        *,
        sign: Ed25519PrivateKey | bytes | None = None,
        portable: bool = False,
    ) -> None:
        """Write all of the executable to one file, which :func:`load` reads.

        Whoever loads the file runs its code. A signature lets them see whose it is before they do.

        Parameters
        ----------
        path : path
            Of the file.
        linker : str or callable, optional
            What links the kernels: the command of a C compiler for the target, with options if need be, or what TVM's
            ``export_library`` takes as `fcompile`. By default the C compiler of this machine or, for another one, a
            cross compiler that is found by its name, such as ``aarch64-linux-gnu-gcc``. Where there is none the
            kernels are stored as LLVM IR, which is compiled when the file is loaded; a warning says so.
        sign : Ed25519PrivateKey or bytes, optional
            The key to sign the file with, of the package ``cryptography``: the object, its 32 bytes, or the text of a
            PEM file as bytes. ``load(path, trusted_keys=[...])`` takes the public one.
        portable : bool
            Whether to store kernels as LLVM IR, for any processor of the family that the executable was compiled for,
            such as ``target="portable"``. Loading compiles it for the processor at hand, which takes time, and memory
            for TVM's compiler. An executable out of such a file is written as one again.

        Raises
        ------
        ExecutableError
            If the file cannot be written, or the linker is not there or is for another machine; no part of the file is
            left then. If it is to be portable, and is for one processor, for another device, has parts that other code
            generators made, or was loaded from a file of machine code.
        OptionError
            If a linker is given for what is to be portable.
        """
        self.write(Path(path), {}, linker, sign, portable=portable)

    def write(
        self,
        path: Path,
        more: Mapping[str, Any],
        linker: Linker | None = None,
        sign: Ed25519PrivateKey | bytes | None = None,
        *,
        portable: bool = False,
    ) -> None:
        """Write the executable as :meth:`export` does, with `more` in its manifest: names that it does not have yet."""
        if not path.parent.is_dir():
            raise ExecutableError(f"cannot write {path}: there is no folder {path.parent}")
        if path.is_dir():
            raise ExecutableError(f"cannot write {path}: it is a folder")
        libraries = self.library_files(linker, portable=portable)
        program, weights = moved_to_block(self.program)
        manifest = {
            **more,
            "format_version": _format_version(program),
            "vmkit_version": __version__,
            "tvm_version": tvm.__version__,
            **self._description.to_json(),
        }
        members: dict[str, Content] = {CODE: bytecode.encode(program)}
        if weights:
            members[WEIGHTS] = weights
        members.update(libraries)
        write_archive(path, manifest, members, sign)

    def library_files(self, linker: Linker | None = None, *, portable: bool = False) -> Mapping[str, bytes]:
        """Return the libraries of kernels as files, by their names; see :meth:`export` for `linker` and `portable`."""
        if portable:
            return library_files.portable_libraries(list(self.libraries), linker, self._libraries)
        linked = None if self._objects is None else self._objects.file(linker)
        if linked is not None:
            return {"lib0.so": linked}
        return self._libraries or library_files.export_libraries(list(self.libraries), self.target, linker)

    @property
    def _description(self) -> Description:
        return Description(self.signatures, self.built_for, self.info)

    def _derived(self, name: str) -> Signature:
        return Signature(name, tuple(AnySpec(param) for param in self.get_function_params(name)))


def _format_version(moved: Program) -> int:
    """Return the format version of a file with a program whose large constants were moved to a block."""
    if needs_blocks(moved):
        return FORMAT_VERSION
    if needs_half_weights(moved):
        return HALF_VERSION
    return LATER_VERSION if needs_later_weights(moved) else PLAIN_VERSION


def described(
    mod: tvm.runtime.Module | Parts, description: Description, libraries: Mapping[str, bytes] | None = None
) -> Executable:
    """Return the executable of a module or its parts with what is known of it."""
    require_runtimes(description.info.runtimes or {})
    return Executable(mod, description.signatures, description.built_for, description.info, libraries=libraries)


def _noted(mod: tvm.runtime.Module) -> Executable:
    """Return the executable of a module, described as the note that :meth:`Executable.save` left says."""
    plain = Executable(mod)
    note = next(filter(is_note, plain.program.constants), None)
    return plain if note is None else described(mod, Description.of_note(note))
