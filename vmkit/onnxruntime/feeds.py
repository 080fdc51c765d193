"""What a run is given, checked by onnxruntime's rules before the program checks data types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import suggest
from .described import NodeArg
from .errors import ArgumentTypeError, Fail, InvalidArgument
from .options import RunOptions

__all__ = ["check_run", "initializers_fed", "output_places"]


def check_run(options: RunOptions | None) -> None:
    """Raise if a run is not to be made with some options."""
    if options is None:
        return
    if not isinstance(options, RunOptions):
        raise ArgumentTypeError(f"run_options is a {type(options).__name__}, expected a RunOptions")
    options.told()
    if options.terminate:
        raise Fail("the run was not begun: terminate of its options is set")


def output_places(names: Sequence[str] | None, outputs: Sequence[NodeArg]) -> list[int]:
    """Return the positions of outputs by their names; of all if none are named."""
    known = [arg.name for arg in outputs]
    if isinstance(names, str):
        raise ArgumentTypeError(f"output_names is the str {names!r}, expected a list of names: [{names!r}]")
    if not names:
        return list(range(len(known)))
    strange = [f"{name!r}{suggest(str(name), known)}" for name in names if name not in known]
    if strange:
        raise InvalidArgument(f"the model has no output {', '.join(strange)}; it has {', '.join(known)}")
    return [known.index(name) for name in names]


def initializers_fed(
    feed: Mapping[str, object], inputs: Sequence[NodeArg], overridable: Sequence[NodeArg]
) -> frozenset[str]:
    """Return the initializers that a feed has.

    Raises
    ------
    InvalidArgument
        With every name in it that the model does not take, and every input that it lacks.
    """
    if not isinstance(feed, Mapping):
        raise ArgumentTypeError(f"input_feed is a {type(feed).__name__}, expected a dict from names to values")
    own = {arg.name for arg in overridable}
    known = {arg.name for arg in inputs} | own
    problems = [f"{name}: no such input{suggest(str(name), known)}" for name in feed if name not in known]
    missing = [arg for arg in inputs if arg.name not in feed and not arg.type.startswith("optional")]
    problems += [f"{arg.name}: missing, expected {arg.type} of shape {arg.shape}" for arg in missing]
    if problems:
        raise InvalidArgument("\n  ".join(["the feed does not fit the model's inputs", *problems]))
    return frozenset(own.intersection(feed)) if own else frozenset()
