"""``tvmc``: the command line and the Python interface that TVM had for compiling, tuning and running models.

``vmkit tvmc compile model.onnx --target llvm -o model.tar``, and after ``vmkit.compat.install()``
``from tvm.driver import tvmc``. Arguments, tables and exit codes are those of TVM 0.14; packages hold executables of
vmkit. What each option does today, ``vmkit tvmc --options`` says.

>>> from vmkit.cli import tvmc
>>> tvmc.shape_parser.parse_shape_string("data:[1,3,224,224]")
{'data': [1, 3, 224, 224]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._later import named_later

if TYPE_CHECKING:
    from . import (
        autotuner,
        common,
        compiler,
        composite_target,
        config_options,
        frontends,
        main,
        model,
        pass_config,
        pass_list,
        registry,
        runner,
        shape_parser,
        target,
        tracker,
        transform,
    )
    from .autotuner import tune_model as tune
    from .compiler import compile_model as compile
    from .exceptions import TVMCException, TVMCImportError
    from .frontends import load_model as load
    from .model import TVMCModel, TVMCPackage, TVMCResult
    from .runner import run_module as run

__all__ = [
    "TVMCException",
    "TVMCImportError",
    "TVMCModel",
    "TVMCPackage",
    "TVMCResult",
    "autotuner",
    "common",
    "compile",
    "compiler",
    "composite_target",
    "config_options",
    "frontends",
    "load",
    "main",
    "model",
    "pass_config",
    "pass_list",
    "registry",
    "run",
    "runner",
    "shape_parser",
    "target",
    "tracker",
    "transform",
    "tune",
]


# One command needs few of them, and waits for those.
__getattr__, __dir__ = named_later(__name__)


def take_over(words: list[str]) -> int:
    """Run the words behind ``vmkit tvmc``, and return the exit code."""
    from .main import run_words

    return run_words(words, "vmkit tvmc")
