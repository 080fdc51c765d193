"""What code was built for, as its file tells it: read and judged without TVM's compiler, where that is possible."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._dataclasses import dataclass
from .._deferred import deferred
from . import arm_features, x86_features

if TYPE_CHECKING:
    from tvm.target import Target

    from . import host, llvm, plan
else:
    # They need TVM's compiler, which takes most of a second to import.
    host, llvm, plan = (deferred(f"vmkit.target.{name}") for name in ("host", "llvm", "plan"))

__all__ = ["BuiltFor"]


@dataclass(frozen=True)
class BuiltFor:
    """The targets of code, and what it needs of a processor.

    Attributes
    ----------
    text, host_text : str or None
        The target and its host as JSON; None for a target that is not known, and for one without a host.
    triple : str
        Of the machine that built the code: what a target that names none is for.
    features : dict
        By the text of a target, the features of a processor that its code may use; only of targets for machines like
        the one that built the code.

    Examples
    --------
    >>> from vmkit.target import canonical_target
    >>> built_for = BuiltFor.of(canonical_target("llvm -num-cores=2").primary)
    >>> built_for.kind, built_for.number_of_cores, built_for.problems_here()
    ('llvm', 2, [])
    """

    text: str | None
    host_text: str | None = None
    triple: str = ""
    features: Mapping[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(target: Target | None) -> BuiltFor:
        """Return the description of a target."""
        if target is None:
            return BuiltFor(None)
        made = BuiltFor(str(target), None if target.host is None else str(target.host))
        made.__dict__["target"] = target
        return made

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> BuiltFor:
        """Return what :meth:`to_json` described; entries of older files may be missing."""
        features = data.get("features", {})
        if not isinstance(features, Mapping) or not all(isinstance(names, list) for names in features.values()):
            raise ValueError(f"the features are {features!r}")
        for text in filter(None, (data["target"], data["target_host"])):
            if not isinstance(json.loads(text)["kind"], str):
                raise ValueError(f"the target is {text!r}")
        return BuiltFor(data["target"], data["target_host"], str(data["triple"]), features)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "triple": self.triple or llvm.default_triple(),
            "target": self.text,
            "target_host": self.host_text,
            "features": dict(self.features) or self._features_needed(),
        }

    @cached_property
    def target(self) -> Target | None:
        """The target itself."""
        if self.text is None:
            return None
        from tvm.target import Target

        return Target(json.loads(self.text), json.loads(self.host_text) if self.host_text else None)

    @property
    def kind(self) -> str | None:
        """The kind of target, such as ``llvm``; None if not known."""
        return None if self.text is None else str(json.loads(self.text)["kind"])

    @property
    def number_of_cores(self) -> int:
        """How many cores the code was built for; 0 if nothing was said."""
        return 0 if self.text is None else int(json.loads(self.text).get("num-cores", 0))

    def problems_here(self) -> list[str]:
        """Return the reasons why this machine cannot run the code; empty if it can. See :func:`host_supports`."""
        reasons = [reason for text in self._cpu_texts() if not self._surely_fits(text) for reason in self._judged(text)]
        return list(dict.fromkeys(reasons))

    def _cpu_texts(self) -> list[str]:
        texts = dict.fromkeys(text for text in (self.text, self.host_text) if text is not None)
        return [text for text in texts if json.loads(text)["kind"] == "llvm"]

    def _triple_of(self, text: str) -> str:
        return str(json.loads(text).get("mtriple") or self.triple)

    def _surely_fits(self, text: str) -> bool:
        """Tell whether this machine has what the code needs, as far as that can be seen without LLVM."""
        needed, triple = self.features.get(text), self._triple_of(text)
        if needed is None or sys.platform != "linux" or "linux" not in triple:
            return False
        machine = os.uname().machine
        if machine != triple.partition("-")[0]:
            return False
        if machine == "x86_64":
            present = x86_features.features_in()
        else:
            present = {name for name, there in arm_features.features_in().items() if there}
        return set(needed) <= present

    def _judged(self, text: str) -> list[str]:
        """Return what LLVM finds missing."""
        from tvm.target import Target

        config = json.loads(text)
        config.pop("host", None)
        triple = self._triple_of(text)
        return host.host_supports(Target({**config, "mtriple": triple} if triple else config))

    def _features_needed(self) -> dict[str, list[str]]:
        """Return what code for each target may use of a processor, out of what can be detected on one like this."""
        own, found = llvm.architecture(llvm.default_triple()), {}
        for text in self._cpu_texts():
            config = json.loads(text)
            config.pop("host", None)
            from tvm.target import Target

            described = llvm.description_of(Target(config))
            if llvm.architecture(described[0]) == own:
                found[text] = llvm.features_to_have(*described)
        return found
