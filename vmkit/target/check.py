"""From a configuration, as written by the user, to a ``Target`` that the compiler can take.

TVM accepts much that fails later or never: a cpu name that LLVM does not know is only logged, an unknown feature is
ignored, a triple without a back end ends the process. All of it is checked here, and all that is wrong is reported at
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.target import Target

from vmkit.errors import suggest
from vmkit.target import llvm, matrix_unit
from vmkit.target.families import PORTABLE, portable_config
from vmkit.target.options import NATIVE, OptionTable, code_generators, has_code_generator
from vmkit.target.source import Problem, Source

__all__ = ["build_target", "native_config"]

_CHOICES = {
    "mfloat-abi": ("soft", "hard"),
    "jit": ("mcjit", "orcjit"),
    "opt-level": (0, 1, 2, 3),
}
_COMMON_TRIPLES = (
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "arm-linux-gnueabihf",
    "riscv64-linux-gnu",
    "thumb-none-eabi",
)
_POSITIVE = ("num-cores", "vector-width")


def native_config() -> dict[str, Any]:
    """The configuration of this machine: its triple, cpu and cores, less the features that it turns out to lack.

    LLVM names the cpu by its model. Under a hypervisor the machine may not have all that the model has; code that used
    the rest would be killed by SIGILL.
    """
    triple, cpu = llvm.default_triple(), llvm.host_cpu()
    config: dict[str, Any] = {"kind": "llvm", "mtriple": triple, "mcpu": cpu, "num-cores": llvm.host_cores()}
    attributes = [f"-{feature}" for feature in llvm.missing_on_host(triple, cpu, ())]
    if matrix_unit.is_permitted():
        # LLVM may take the model for an older one, and the operating system has a say.
        wanted = (*matrix_unit.FEATURES, *(f for f in matrix_unit.MORE_FEATURES if llvm.host_features().get(f)))
        attributes += [f"+{f}" for f in wanted if f not in llvm.cpu_features(triple, cpu)]
    if attributes:
        config["mattr"] = attributes
    return config


def build_target(config: Mapping[str, Any], source: Source, found: Sequence[Problem] = ()) -> Target:
    """Return the checked target, without a host, that `config` describes.

    Raises ``TargetError`` with all that is wrong: what was `found` while reading the text, and what is seen here.
    """
    name = config.get("tag") or config.get("kind")
    if not isinstance(name, str):
        raise source.error([Problem("kind", f"expected the name of a target kind, got {name!r}")])
    table = OptionTable.for_name(name, source)
    complaints = {option: text for option, value in config.items() if (text := table.complaint(option, value))}
    problems = [*found, *(Problem(option, text) for option, text in complaints.items())]
    good = {option: value for option, value in config.items() if option not in complaints and option != "host"}
    if table.kind == "llvm":
        good = _with_portable(_with_native(good, source))
    if table.kind == "llvm" and not (good.get("mtriple") or _tag_has_triple(good)):
        good["mtriple"] = llvm.default_triple()
    try:
        target = Target(good)
    except (ValueError, TypeError, RuntimeError) as error:
        raise source.error([*problems, Problem("kind", _first_line(error))]) from error
    problems += _target_problems(target)
    if problems:
        raise source.error(problems)
    return target


def _target_problems(target: Target) -> list[Problem]:
    """Return what `target` asks for and the installed TVM or LLVM does not have."""
    kind = str(target.kind.name)
    problems: list[Problem] = []
    if not has_code_generator(kind):
        known = ", ".join(code_generators())
        problems.append(Problem("kind", f"the installed TVM has no code generator for {kind!r}; it has: {known}"))
    for option, choices in _CHOICES.items():
        if option in target.attrs and _plain(target.attrs[option]) not in choices:
            listed = ", ".join(map(str, choices))
            problems.append(Problem(option, f"expected one of {listed}, got {_plain(target.attrs[option])!r}"))
    for option in _POSITIVE:
        if option in target.attrs and int(target.attrs[option]) < 1:
            problems.append(Problem(option, f"expected at least 1, got {int(target.attrs[option])}"))
    return problems + (_llvm_problems(target) if kind in ("llvm", "nvptx", "rocm") else [])


def _llvm_problems(target: Target) -> list[Problem]:
    triple, cpu, attributes = llvm.description_of(target)
    architecture = llvm.architecture(triple)
    if architecture is None:
        first, known = triple.split("-", 1)[0], llvm.known_architectures()
        close = suggest(first, known) or f"; known: {', '.join(known)}"
        return [Problem("mtriple", f"LLVM has no back end for {first!r}{close}")]
    problems = []
    if cpu and not llvm.is_cpu(cpu, triple):
        close = _other_architecture(cpu) or suggest(cpu, llvm.cpu_names(triple))
        problems.append(Problem("mcpu", f"LLVM knows no {architecture} cpu {cpu!r}{close}"))
    for attribute in attributes:
        sign, feature = attribute[:1], attribute[1:]
        if sign not in ("+", "-"):
            text = f"write '+{attribute}' to turn the feature on or '-{attribute}' to turn it off"
            problems.append(Problem("mattr", text))
        elif not llvm.is_feature(feature, triple):
            close = suggest(feature, llvm.feature_names(triple))
            problems.append(Problem("mattr", f"LLVM knows no {architecture} feature {feature!r}{close}"))
    return problems


def _other_architecture(cpu: str) -> str:
    for triple in _COMMON_TRIPLES:
        if llvm.is_cpu(cpu, triple):
            return f"; it is a cpu of {llvm.architecture(triple)}: give its triple, such as -mtriple={triple}"
    return ""


def _with_native(config: dict[str, Any], source: Source) -> dict[str, Any]:
    """Fill in what ``kind: native`` and ``mcpu: native`` stand for; what the user gave comes after it and so wins."""
    if NATIVE not in (config.get("kind"), config.get("mcpu")):
        return config
    native = native_config()
    triple, here = config.get("mtriple", native["mtriple"]), llvm.architecture(native["mtriple"])
    if llvm.architecture(triple) != here:
        text = f"native stands for this machine, which is {here}; it cannot be combined with mtriple {triple}"
        raise source.error([Problem("mtriple", text)])
    own = {key: value for key, value in config.items() if (key, value) not in (("kind", NATIVE), ("mcpu", NATIVE))}
    attributes = [*native.get("mattr", ()), *own.get("mattr", ())] if own.get("mcpu") is None else own.get("mattr", ())
    merged = {**native, **own, "mattr": list(attributes)}
    return merged if attributes else {key: value for key, value in merged.items() if key != "mattr"}


def _with_portable(config: dict[str, Any]) -> dict[str, Any]:
    """Fill in what ``kind: portable`` stands for."""
    if config.get("kind") != PORTABLE:
        return config
    return {**portable_config(config.get("mtriple", "")), **{k: v for k, v in config.items() if k != "kind"}}


def _tag_has_triple(config: Mapping[str, Any]) -> bool:
    return "tag" in config and "mtriple" in Target({"tag": config["tag"]}).attrs


def _plain(value: int | str) -> int | str:
    return int(value) if isinstance(value, int) else str(value)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].split(" Target creation from")[0]
