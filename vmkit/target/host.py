"""Whether code built for a target can run on this machine.

Asked before a library is loaded: code for another architecture, or with instructions that this processor does not
have, does not raise an error when it runs, it ends the process with SIGILL.
"""

from __future__ import annotations

from tvm.target import Target

from vmkit.target import llvm
from vmkit.target.plan import TargetPlan, without_host

__all__ = ["host_supports"]


def host_supports(target: Target | TargetPlan) -> list[str]:
    """Return the reasons why this machine cannot run code built for `target`; empty if it can.

    Only what runs on the cpu is judged: the host code of a plan and its cpu targets. Whether a device is present is
    found when it is opened.
    """
    if isinstance(target, TargetPlan):
        reasons = [reason for one in (target.host, *target.targets) for reason in host_supports(one)]
        return list(dict.fromkeys(reasons))
    if target.host is not None:
        reasons = [*host_supports(target.host), *host_supports(without_host(target))]
        return list(dict.fromkeys(reasons))
    if str(target.kind.name) != "llvm":
        return []
    own = llvm.default_triple()
    triple, cpu, attributes = llvm.description_of(target)
    architecture, own_architecture = llvm.architecture(triple), llvm.architecture(own)
    if architecture != own_architecture:
        return [f"built for {architecture} ({triple}), but this machine is {own_architecture} ({own})"]
    reasons = []
    system, own_system = llvm.operating_system(triple), llvm.operating_system(own)
    if system and own_system and system != own_system:
        reasons.append(f"built for {system} ({triple}), but this machine runs {own_system} ({own})")
    missing = llvm.missing_on_host(triple, cpu, attributes)
    if missing:
        built_for = f"mcpu {cpu}" if cpu else "the given mattr"
        reasons.append(f"built for {built_for}, but this machine's cpu lacks {', '.join(missing)}")
    return reasons
