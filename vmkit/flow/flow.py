"""A flow's step that compiles: arguments of tvmc, a process of its own, artifacts and metrics."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cli.tvmc.main import SCRIPT
from ..cli.tvmc.target_options import OPTIONS
from ..errors import CompileError, CompileTimeoutError, ModelError, OptionError, suggest
from ..isolation.ending import end_with_children
from .artifacts import Artifact, ArtifactFormat
from .options import FlowOptions

__all__ = ["Flow"]

logger = logging.getLogger(__name__)

Artifacts = dict[str, list[Artifact]]
Metrics = dict[str, dict[str, float]]

_NAME = "default"
_DETAILS = ("device", "mcpu", "march", "model", "mtriple", "mabi", "mattr", "keys", "num_cores")


class Flow:
    """Compiles a model for a flow.

    Parameters
    ----------
    options : FlowOptions or mapping, optional
        What it is compiled with, as :class:`FlowOptions`, or as :meth:`FlowOptions.parsed` reads it.

    Examples
    --------
    >>> flow = Flow({"target": "llvm", "target_mcpu": "generic", "opt_level": "2"})
    >>> flow.get_target_details()
    {'mcpu': 'generic'}
    """

    def __init__(self, options: FlowOptions | Mapping[str, Any] | None = None) -> None:
        self.options = options if isinstance(options, FlowOptions) else FlowOptions.parsed(options or {})
        self._model: Path | None = None
        self._shapes: dict[str, Sequence[int | str]] = {}
        self._params: str | None = self.options.params_path
        self._records: Path | None = None
        self._artifacts: Artifacts = {}

    def load_model(
        self,
        model: str | Path,
        input_shapes: Mapping[str, Sequence[int | str]] | None = None,
        params_path: str | None = None,
    ) -> None:
        """Take a model's file, shapes of its inputs, and its weights where they are in another file."""
        if not Path(model).is_file():
            raise ModelError(f"{model}: there is no such file")
        self._model, self._shapes = Path(model), dict(input_shapes or {})
        self._params = params_path or self.options.params_path

    def set_tuning_records(self, path: str | Path) -> None:
        """Take the file of records to compile with."""
        if not Path(path).exists():
            raise OptionError(f"tuning records {path}: there is no such file")
        self._records = Path(path)

    def get_tuning_records(self) -> Path | None:
        """Return the file of records that is compiled with, None for none."""
        if self._records is None and self.options.use_tuning_results and self.options.autotuned_results_file:
            return Path(self.options.autotuned_results_file)
        return self._records

    def get_target_details(self) -> dict[str, str]:
        """Return the options of the target that are given, by their names.

        Raises
        ------
        OptionError
            For one that the kind of target has not.
        """
        given = {name: getattr(self.options, f"target_{name}") for name in _DETAILS}
        details = {name.replace("num_cores", "num-cores"): str(v) for name, v in given.items() if v is not None}
        known = OPTIONS.get(self.options.target)
        if known is None:
            raise OptionError(f"target: there is no {self.options.target!r}{suggest(self.options.target, OPTIONS)}")
        for name in details:
            if name not in known:
                raise OptionError(f"target_{name}: targets of kind {self.options.target} have no {name}")
        return details

    def get_compile_args(self, output: str | Path) -> list[str]:
        """Return the arguments of tvmc that compile the model to a file."""
        if self._model is None:
            raise ModelError("there is no model yet: call load_model")
        options = self.options
        words = ["compile", str(self._model), *self._target_args(), *self._pass_args()]
        words += ["--opt-level", str(options.opt_level), "--output", str(output), "-f", options.fmt]
        if options.executor != "vm":
            words += ["--executor", options.executor]
        if options.fmt == "mlf" and options.executor == "aot":
            words += ["--executor-aot-workspace-byte-alignment", str(options.alignment_bytes)]
            words += ["--executor-aot-unpacked-api", self._shown(options.unpacked_api)]
            words += ["--executor-aot-interface-api", "c" if options.unpacked_api else "packed"]
        if self._shapes:
            shapes = (f"{name}:[{','.join(map(str, shape))}]" for name, shape in self._shapes.items())
            words += ["--input-shapes", " ".join(shapes)]
        if self._params:
            words += ["--relay-params", self._params]
        if (records := self.get_tuning_records()) is not None:
            words += ["--tuning-records", str(records)]
        dumps = dict.fromkeys([*options.dump, *(["relay"] if options.refresh_model_info else [])])
        if dumps:
            words += ["--dump-code", ",".join(dumps)]
        return [*words, *options.tvmc_extra_args]

    def _shown(self, flag: bool) -> str:
        return str(int(flag)) if self.options.bool_as_int else str(flag)

    def _target_args(self) -> list[str]:
        kind = self.options.target
        target = self.options.tvm_target_str or kind
        words = ["--target", ", ".join([*self.options.extra_targets, target])]
        if self.options.tvm_target_str is None:
            for name, value in self.get_target_details().items():
                words.append(f"--target-{kind}-{name}={value}")
        return words

    def _pass_args(self) -> list[str]:
        options = self.options
        no_vectors = options.target == "c" if options.disable_vectorize == "auto" else bool(options.disable_vectorize)
        config = {"tir.disable_vectorize": no_vectors, **options.extra_pass_config}
        if options.fuse_ops is not None:
            config["relay.FuseOps.max_depth"] = options.fuse_ops
        words = []
        for name, value in config.items():
            words += ["--pass-config", f"{name}={self._shown(value) if isinstance(value, bool) else value}"]
        if options.disabled_passes:
            words += ["--disabled-pass", ",".join(options.disabled_passes)]
        layouts = options.desired_layout_map or dict.fromkeys(options.desired_layout_ops, options.desired_layout or "")
        if layouts:
            words += ["--desired-layout", *layouts.values(), "--desired-layout-ops", *layouts]
        elif options.desired_layout:
            words += ["--desired-layout", options.desired_layout]
        return words

    def generate(self, timeout: float = 0.0) -> tuple[Artifacts, Metrics]:
        """Compile the model in a process of its own; return the artifacts, and the metrics, each under ``default``.

        Parameters
        ----------
        timeout : float
            Seconds after which the process is ended; 0 for none.

        Returns
        -------
        dict, dict
            ``default.tar``, ``default.json`` with facts, a file for each stage that is dumped, and what the compiler
            said, ``tvmc_compile_out.log``; and ``Build Stage Time [s]`` and, for C, ``Workspace Size [B]``.

        Raises
        ------
        CompileError
            If the process fails; the message has the last line that it printed.
        CompileTimeoutError
            If it takes too long. It is ended with all that it started.
        """
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / f"{_NAME}.tar"
            start = time.perf_counter()
            log = self._invoke(self.get_compile_args(output), timeout)
            metrics = {"Build Stage Time [s]": time.perf_counter() - start}
            made = _artifacts(Path(folder), self.options.fmt)
        facts = next(each for each in made if each.name == f"{_NAME}.json")
        if self.options.fmt == "mlf":
            metrics["Workspace Size [B]"] = _workspace(json.loads(facts.data))
        self._artifacts = {_NAME: [*made, Artifact("tvmc_compile_out.log", log.encode(), ArtifactFormat.TEXT)]}
        return self._artifacts, {_NAME: metrics}

    def _invoke(self, words: Sequence[str], timeout: float) -> str:
        """Run tvmc, and return what it printed."""
        command = [sys.executable, self.options.tvmc_custom_script or str(SCRIPT), *words]
        environment = {**os.environ, "TVM_NUM_THREADS": str(self.options.num_threads)}
        idle = [name for name in ("tophub_url", "relay_debug", "autotuned_mode") if getattr(self.options, name)]
        if idle:
            logger.warning("%s: no effect; vmkit tvmc --options says why", ", ".join(idle))
        log, code, is_late = self._run(command, environment, timeout)
        if is_late:
            raise CompileTimeoutError(f"{self._model}: not compiled in {timeout:g} s")
        if code:
            how = f"died of signal {-code}" if code < 0 else f"ended with {code}"
            last = next((line for line in reversed(log.splitlines()) if line.strip()), "it printed nothing")
            raise CompileError(f"{self._model}: the compiler {how}: {last}")
        return log

    def _run(self, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[str, int, bool]:
        """Return what a process printed, how it ended, and whether it was ended because it took too long."""
        lines: list[str] = []
        late = threading.Event()
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:

            def end() -> None:
                late.set()
                end_with_children(process)

            timer = threading.Timer(timeout, end) if timeout else None
            if timer is not None:
                timer.start()
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    lines.append(line)
                    if self.options.print_outputs:
                        sys.stdout.write(line)
                code = process.wait()
            except BaseException:  # of a session of its own, it is not interrupted with this process
                end_with_children(process)
                raise
            finally:
                if timer is not None:
                    timer.cancel()
        return "".join(lines), code, late.is_set()

    def export(self, path: str | Path) -> list[Path]:
        """Write the artifacts of the last :meth:`generate` to a folder, and return the files."""
        if not self._artifacts:
            raise CompileError("there are no artifacts yet: call generate")
        Path(path).mkdir(parents=True, exist_ok=True)
        return [artifact.export(path) for artifact in self._artifacts[_NAME]]


def _artifacts(folder: Path, fmt: str) -> list[Artifact]:
    """Return what tvmc left in a folder; the facts of an archive stand by themselves, too."""
    import tarfile

    archive = folder / f"{_NAME}.tar"
    formats = {"mlf": ArtifactFormat.MLF, "so": ArtifactFormat.ARCHIVE}
    found = [Artifact(archive.name, archive.read_bytes(), formats[fmt])]
    parts = {"metadata.json": "json", "package.json": "json", "mod.json": "graph", "mod.params": "params"}
    parts |= {f"executor-config/graph/{_NAME}.graph": "graph", f"parameters/{_NAME}.params": "params"}
    kinds = {"json": ArtifactFormat.JSON, "graph": ArtifactFormat.SOURCE, "params": ArtifactFormat.PARAMS}
    with tarfile.open(archive) as members:
        for member in members.getmembers():
            suffix = parts.get(member.name.removeprefix("./"))
            file = members.extractfile(member) if suffix else None
            if suffix and file is not None:
                found.append(Artifact(f"{_NAME}.{suffix}", file.read(), kinds[suffix]))
    for dump in sorted(folder.glob(f"{archive.name}.*")):
        found.append(
            Artifact(f"{_NAME}{dump.name.removeprefix(archive.name)}", dump.read_bytes(), ArtifactFormat.SOURCE)
        )
    return found


def _workspace(metadata: Mapping[str, Any]) -> float:
    (module,) = metadata["modules"].values()
    return float(module["memory"]["functions"]["main"][0]["workspace_size_bytes"])
