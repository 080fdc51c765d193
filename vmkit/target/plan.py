"""Every way of saying what to compile for, brought to one form: checked targets and one host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tvm_ffi
from tvm.runtime import Device
from tvm.target import Target

from vmkit.errors import TargetError
from vmkit.target import llvm
from vmkit.target.check import build_target
from vmkit.target.device_types import CPU, device_name, device_type, numbered_device, numbered_name
from vmkit.target.options import NATIVE
from vmkit.target.source import Problem, Source
from vmkit.target.text import parse_command_line, split_host

from .._dataclasses import dataclass

__all__ = ["OneTarget", "TargetPlan", "Targets", "canonical_target", "command_line", "with_attributes", "without_host"]

OneTarget: TypeAlias = Target | str | Mapping[str, Any]
"""The forms of one target: the last has ``kind`` or ``tag``, and options."""


@dataclass(frozen=True, eq=False)
class TargetPlan:
    """What to compile for: one target for each device, and the host that drives them.

    Attributes
    ----------
    targets : tuple of Target
        In the order given, each with `host` attached; no two are for the same device.
    host : Target
        A cpu target without a host of its own.
    numbers : tuple of int
        Which device of its type each target is for; empty where all are for the first.

    Examples
    --------
    >>> plan = canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4")
    >>> print(plan)
    llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu -num-cores=4
    """

    targets: tuple[Target, ...]
    host: Target
    numbers: tuple[int, ...] = ()

    @property
    def devices(self) -> tuple[tuple[int, int], ...]:
        """The device of each target: the number of its type, and which one of that type."""
        numbers = self.numbers or (0,) * len(self.targets)
        return tuple((device_type(target), number) for target, number in zip(self.targets, numbers, strict=True))

    @property
    def primary(self) -> Target:
        """The target of code that names no device: the only one, else the cpu's, else the first."""
        if len(self.targets) == 1:
            return self.targets[0]
        return next((target for target in self.targets if device_type(target) == CPU), self.targets[0])

    @property
    def by_device(self) -> dict[str, Target]:
        """Each target by the name of its device, such as ``"cpu"``, ``"cuda"`` or ``"cpu:1"``."""
        return {numbered_name(*device): target for device, target in zip(self.devices, self.targets, strict=True)}

    def for_device(self, device: str | int | Device) -> Target:
        """Return the target for a device; raise ``TargetError`` if the plan has none."""
        wanted = numbered_device(device)
        for known, target in zip(self.devices, self.targets, strict=True):
            if known == wanted:
                return target
        names = ", ".join(self.by_device)
        raise TargetError(f"there is no target for device {numbered_name(*wanted)!r}, only for: {names}")

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_json` reads."""
        data = {"targets": [_config_of(without_host(t)) for t in self.targets], "host": _config_of(self.host)}
        return {**data, "numbers": list(self.numbers)} if self.numbers else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TargetPlan:
        """Return the plan that :meth:`to_json` wrote; raise ``TargetError`` if this TVM cannot have it."""
        match data:
            case {"targets": [*configs], "host": dict(host), "numbers": [*numbers]} if len(configs) == len(numbers) > 0:
                kinds = [device_type(_single(dict(config))[0]) for config in configs]
                names = [numbered_name(kind, int(number)) for kind, number in zip(kinds, numbers, strict=True)]
                return canonical_target(dict(zip(names, map(dict, configs), strict=True)), host)
            case {"targets": [*configs], "host": dict(host)} if configs:
                return canonical_target([dict(config) for config in configs], host)
        raise TargetError(f"expected the data of a target plan, with 'targets' and 'host', got {data!r}")

    def __str__(self) -> str:
        names = [f" on {name}" if ":" in name else "" for name in self.by_device]
        lines = [command_line(without_host(target)) for target in self.targets]
        text = ", ".join(line + name for line, name in zip(lines, names, strict=True))
        bare = [str(without_host(target)) for target in self.targets]
        return text if str(self.host) in bare else f"{text} --host='{command_line(self.host)}'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TargetPlan) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))


Targets: TypeAlias = OneTarget | TargetPlan | Sequence[OneTarget] | Mapping[Any, OneTarget]
"""The forms of one target or of several: a plan, a list, or by device."""


def canonical_target(target: Targets | None = None, target_host: OneTarget | None = None) -> TargetPlan:
    """Return the checked targets and host that `target` and `target_host` mean.

    Parameters
    ----------
    target : optional
        - None: the target of the surrounding ``with Target(...)``, else ``"native"``;
        - ``"native"``: this machine's own cpu and cores; ``"portable"``: any cpu of its architecture;
        - a kind (``"llvm"``), a tag (``"nvidia/nvidia-h100"``), the command-line form
          (``"llvm -mcpu=znver4 --host=llvm"``, ``"cuda -arch=sm_80, llvm"`` with the host last), or JSON text;
        - a dict with ``"kind"`` or ``"tag"``, or a ``tvm.target.Target``;
        - several: a list of any of these, or a dict from device (``"cuda"``, 2, ``"cpu:1"``, ``tvm.device``) to any
          of these; values are where the program says, see :func:`vmkit.relay.transform.PlanDevices`.
    target_host : optional
        The host, in any of the forms for one target. By default the host that `target` names, else the cpu target
        itself, else llvm for this machine.

    Raises
    ------
    TargetError
        For anything that the installed TVM and its LLVM do not have; the message lists all that is wrong in one target.
    """
    if isinstance(target, TargetPlan):
        target = target.by_device if target.numbers else list(target.targets)
    if target is None:
        target = Target.current() or NATIVE
    several = _several(target)
    given = [(one, host) for one, host, _ in several]
    numbers = tuple(number for _, _, number in several)
    hosts = [host for _, host in given if host is not None]
    if target_host is not None:
        hosts.append(_single(target_host)[0])
    targets = [without_host(target) for target, _ in given]
    _refuse_duplicates(targets, numbers)
    host = _agreed_host(hosts) or next((t for t in targets if device_type(t) == CPU), None) or _single("llvm")[0]
    _refuse_host(host, targets)
    whole = tuple(Target(target, host=host) for target in targets)
    for each in (host, *whole):
        # TVM writes a target's text into it at the first reading, without a lock: not in the threads that build.
        str(each), str(each.host)
    return TargetPlan(whole, host, numbers if any(numbers) else ())


def command_line(target: Target) -> str:
    """Return the command-line form of `target`, without its host; :func:`canonical_target` reads it back."""
    config = _config_of(without_host(target))
    tag = config.pop("tag", "")
    base = _config_of(Target({"tag": tag})) if tag else {}
    head = tag or config["kind"]
    derived = {"kind", "keys", "host", "feature"}
    words = [
        f"-{name}={','.join(value) if isinstance(value, list) else int(value) if isinstance(value, bool) else value}"
        for name, value in sorted(config.items())
        if name.partition(".")[0] not in derived and base.get(name) != value
    ]
    return " ".join([head, *words])


def _several(target: Targets) -> list[tuple[Target, Target | None, int]]:
    """Return each target with the host that it names itself, and which device of its type it is for."""
    if isinstance(target, Mapping) and not {"kind", "tag"} & {*map(str, target)}:
        return _from_devices(target)
    if isinstance(target, list | tuple | tvm_ffi.Array):
        if not target:
            raise TargetError("the list of targets is empty; expected at least one")
        return [(*_single(one), 0) for one in target]
    return [(*_single(target), 0)]  # type: ignore[arg-type]  # which refuses what names no target


def _from_devices(mapping: Mapping[Any, OneTarget]) -> list[tuple[Target, Target | None, int]]:
    if not mapping:
        raise TargetError("the target dict is empty; expected 'kind' and its options, or a target for each device")
    given = []
    for device, one in mapping.items():
        try:
            wanted, number = numbered_device(device)
        except TargetError as error:
            raise TargetError(
                f"a target dict has 'kind' (or 'tag') and its options, or a target for each device; {error}"
            ) from None
        target, host = _single(one)
        if device_type(target) != wanted:
            names = device_name(wanted), device_name(device_type(target))
            raise TargetError(f"the target for {names[0]!r} is {command_line(target)!r}, which is for {names[1]!r}")
        given.append((target, host, number))
    return given


def _single(target: OneTarget) -> tuple[Target, Target | None]:
    match target:
        case Target():
            return _from_config(_config_of(target), Source(command_line(target)))
        case str() if target.lstrip().startswith("{"):
            return _from_config(_from_json(target), Source(target))
        case str():
            return _from_text(target)
        case Mapping():
            config = {str(key): _plain(value) for key, value in target.items()}
            return _from_config(config, Source(json.dumps(config, default=str)))
    raise TargetError(
        f"expected a target as a str, a dict, a tvm.target.Target, or a list of these, got {type(target).__name__}"
    )


def _from_text(text: str) -> tuple[Target, Target | None]:
    first, *rest = split_host(text)
    config, source, problems = parse_command_line(text if not rest else first)
    if not rest:
        return _from_config(config, source, problems)
    if len(rest) > 1 or "host" in config:
        raise TargetError(f"target {text!r} names more than one host; expected 'target, host'")
    return _from_config({**config, "host": rest[0]}, source, problems)


def _from_config(
    config: Mapping[str, Any], source: Source, found: Sequence[Problem] = ()
) -> tuple[Target, Target | None]:
    target = build_target(config, source, found)
    if config.get("host") is not None:
        return target, _single(config["host"])[0]
    own = target.host
    return without_host(target), without_host(own) if own is not None else None


def _from_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        at = Source(text, {"json": (error.pos, error.pos + 1)})
        raise at.error([Problem("json", f"{error.msg} at column {error.pos + 1}")]) from None
    return dict(config)


def _agreed_host(hosts: list[Target]) -> Target | None:
    hosts = [without_host(host) for host in hosts]
    texts = sorted({command_line(host) for host in hosts})
    if len(texts) > 1:
        raise TargetError(f"several hosts are given, expected one: {'; '.join(texts)}")
    return hosts[0] if hosts else None


def _refuse_duplicates(targets: list[Target], numbers: Sequence[int]) -> None:
    seen: dict[tuple[int, int], Target] = {}
    for target, number in zip(targets, numbers, strict=True):
        device = device_type(target), number
        other = seen.setdefault(device, target)
        if other is not target:
            name, both = numbered_name(*device), f"{command_line(other)}; {command_line(target)}"
            raise TargetError(
                f"two targets are for device {name!r}, expected one for each type of device: {both}; for several "
                f"devices of a type give a dict from device, such as {name.partition(':')[0] + ':1'!r}"
            )


def _refuse_host(host: Target, targets: list[Target]) -> None:
    if device_type(host) != CPU:
        raise TargetError(f"the host must be a cpu target such as 'llvm', got {command_line(host)!r}")
    for target in targets:
        one, other = (str(t.attrs.get("mtriple", "")) for t in (target, host))
        if device_type(target) == CPU and one and other and llvm.architecture(one) != llvm.architecture(other):
            raise TargetError(
                f"target {command_line(target)!r} and host {command_line(host)!r} are of different architectures,"
                f" {llvm.architecture(one)} and {llvm.architecture(other)}; their code goes into one library"
            )


def without_host(target: Target) -> Target:
    """Return a target as it is for itself."""
    if target.host is None:
        return target
    config = _config_of(target)
    config.pop("host", None)
    return Target(config)


def with_attributes(target: Target, *attributes: str) -> Target:
    """Return a target with more of LLVM's attributes, such as ``"+avx2"``, after its own, and so its host."""

    def more(config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "mattr": [*config.get("mattr", ()), *attributes]}

    config = more(_config_of(target))
    return Target({**config, "host": more(config["host"])} if "host" in config else config)


def _config_of(target: Target) -> dict[str, Any]:
    # Not from its text, which another thread may be writing at this moment.
    config: dict[str, Any] = _plain(target.export())
    if not config.get("tag"):
        config.pop("tag", None)
    return config


def _plain(value: Any) -> Any:
    """Bring values out of TVM's containers, so that a dict made from a ``tvm`` Map is read like any other."""
    match value:
        case Target():
            return value
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | tvm_ffi.Array():
            return [_plain(item) for item in value]
    return value
