"""What is known of an executable beside its code, as it stands in the manifest of a file and in a note in bytecode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from .._dataclasses import dataclass
from ..errors import ExecutableError, VMKitError
from ..target.built_for import BuiltFor
from ..values.signature import Signature
from .build_info import BuildInfo

__all__ = ["MALFORMED", "Description", "is_note"]

_NOTE = "vmkit.executable:"

MALFORMED = (LookupError, TypeError, AttributeError, ValueError)
"""What reading a description raises where an entry is missing, or is not of its kind."""


@dataclass(frozen=True)
class Description:
    """The signatures by function name, what the code was compiled for, and facts about the build."""

    signatures: Mapping[str, Signature]
    built_for: BuiltFor
    info: BuildInfo

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values; :meth:`from_json` reads them."""
        return {
            **self.built_for.to_json(),
            "signatures": {name: signature.to_json() for name, signature in self.signatures.items()},
            "info": self.info.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Description:
        """Return what :meth:`to_json` described."""
        signatures = {name: Signature.from_json(each) for name, each in data["signatures"].items()}
        return Description(signatures, BuiltFor.from_json(data), BuildInfo.from_json(data["info"]))

    def as_note(self) -> str:
        """Return it as a text that stands among the constants of bytecode."""
        return _NOTE + json.dumps(self.to_json())

    @staticmethod
    def of_note(note: str) -> Description:
        """Return what :meth:`as_note` wrote.

        Raises
        ------
        ExecutableError
            If the text is something else.
        """
        try:
            return Description.from_json(json.loads(note.removeprefix(_NOTE)))
        except VMKitError:
            raise
        except MALFORMED as error:
            raise ExecutableError(f"the note in the bytecode is incomplete: {error!r}") from error


def is_note(constant: Any) -> TypeGuard[str]:
    """Tell whether a constant is a note."""
    return isinstance(constant, str) and constant.startswith(_NOTE)
