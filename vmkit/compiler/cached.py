"""Compiling through a cache: what was compiled before is loaded, what was not is kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm.target import Target

from ..cache import Cache
from ..cache.kernels import Kernels
from ..errors import ExecutableError, OptionError
from ..executable.executable import Executable
from ..target import TargetPlan, device_name, device_type, host_supports
from ..target.devices import is_present
from .cache_key import key_of, model_digest
from .surroundings import Surroundings

__all__ = ["opened", "through_cache"]

logger = logging.getLogger(__name__)


def opened(cache: object) -> Cache | None:
    """Return the cache that an argument of :func:`vmkit.compile` means; None for none.

    Raises
    ------
    OptionError
        If it is no bool, path or :class:`vmkit.cache.Cache`, or the folder cannot be used.
    """
    match cache:
        case None | False:
            return None
        case True:
            return Cache()
        case Cache():
            return cache
        case str() | os.PathLike():
            return Cache(Path(cache))
    raise OptionError(f"cache is {cache!r}, expected True, False, a folder or a vmkit.cache.Cache")


def through_cache(
    cache: Cache,
    model: Any,
    plan: TargetPlan,
    params: Mapping[str, Any],
    shapes: Mapping[str, Sequence[Any]] | None,
    compiled: Callable[[Kernels | None], tuple[Executable, bool]],
) -> Executable:
    """Return the executable of a model out of a cache, or what `compiled` returns, which is kept there.

    Nothing about a cache makes compiling fail: what cannot be kept is compiled and a line in the log says so. With the
    executable `compiled` tells whether other code generators made parts of it, of which no digest is known; it is given
    the kernels of the cache, if the executable is to be kept there.
    """
    digest = model_digest(model)
    reason = "its parts are not all known" if digest is None else _not_to_be_kept(plan)
    if digest is None or reason:
        logger.info("not cached: %s", reason)
        return compiled(None)[0]
    key = key_of(digest, plan, params, shapes)
    with cache.alone(key):
        found = cache.get(key)
        if found is not None:
            return found
        executable, has_foreign_parts = compiled(cache.kernels)
        if has_foreign_parts:
            logger.info("not cached: other code generators made parts of it, which may change with nothing to tell by")
            return executable
        try:
            cache.put(key, executable)
        except ExecutableError as error:
            logger.warning("the executable was compiled, but the cache cannot keep it: %s", error)
        return executable


def _not_to_be_kept(plan: TargetPlan) -> str:
    """Return why what is compiled here and now does not go into a cache; empty if it does."""
    surroundings = Surroundings.capture()
    if surroundings.has_instruments:
        return "passes are observed"
    if surroundings.database is not None:
        return "a MetaSchedule database is in force, whose records have no digest"
    if host_supports(plan) or not all(map(_runs_here, plan.targets)):
        return "the code is for another machine, and what is in the cache is loaded"
    return ""


def _runs_here(target: Target) -> bool:
    return str(target.kind.name) == "llvm" or is_present(device_name(device_type(target)))
