"""What each option of tvmc does today: the table that ``vmkit tvmc --options`` prints, and what refuses by it.

An option that is not in the table here does what it did in TVM 0.14.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from ..._dataclasses import dataclass
from .exceptions import TVMCException

__all__ = ["HARDWARE", "MLONMCU", "POOLS", "STATES", "State", "check_options", "rows", "table"]

logger = logging.getLogger("TVMC")

Kind: TypeAlias = Literal["works", "changed", "no effect", "refused"]


@dataclass(frozen=True)
class State:
    """What an option does.

    Attributes
    ----------
    kind : str
        ``"works"`` as in TVM 0.14; ``"changed"``: it does what today's TVM has for it; ``"no effect"``: taken, and a
        warning says that nothing comes of it; ``"refused"``: an error.
    note : str
        How, or why.
    """

    kind: Kind
    note: str


_POOLS = "memory is planned by vmkit, in no pools; the planner of TVM is gone"
_HARDWARE = "of the auto-scheduler, which is gone; the target says what the processor is"
_MICRO = "microTVM's projects are gone from TVM; -f mlf writes C for any board"

POOLS = (
    *(
        "workspace-pools",
        "workspace-pools-targets",
        "workspace-pools-size-hint-bytes",
        "workspace-pools-clock-frequency-hz",
    ),
    *("workspace-pools-read-bandwidth-bytes-per-cycle", "workspace-pools-write-bandwidth-bytes-per-cycle"),
    *("workspace-pools-read-latency-cycles", "workspace-pools-write-latency-cycles", "workspace-pools-burst-bytes"),
)
HARDWARE = (
    *("cache-line-bytes", "vector-unit-bytes", "max-shared-memory-per-block", "max-local-memory-per-block"),
    *("max-threads-per-block", "max-vthread-extent", "warp-size"),
)

STATES: dict[str, dict[str, State]] = {
    "compile": {
        **dict.fromkeys(POOLS, State("refused", _POOLS)),
        "executor": State("changed", "packages run on the virtual machine; graph adds the graph and its constants"),
        "executor-aot-constant-byte-alignment": State("no effect", "constants lie where the linker puts them"),
        "executor-aot-interface-api": State("changed", "for -f mlf; c where it is not given"),
        "executor-aot-link-params": State("no effect", "weights are always inside"),
        "executor-aot-unpacked-api": State("changed", "1 is for -f mlf, where executor-aot-interface-api decides"),
        "executor-aot-workspace-byte-alignment": State("changed", "for -f mlf; a package's memory is always aligned"),
        "executor-graph-link-params": State("no effect", "weights are always inside"),
        "model-format": State("changed", "onnx, tflite, pytorch (.pt2), relay, stablehlo; others are gone from TVM"),
        "output-format": State("changed", "so is a package with a vmkit executable; mlf is C"),
        "pass-config": State("changed", "old names are translated; tir.usmp.* has no effect"),
        "runtime": State("changed", "crt is for -f mlf"),
        "runtime-cpp-system-lib": State("changed", "1 is for -f mlf, where executor-aot-interface-api decides"),
        "runtime-crt-system-lib": State("no effect", "C of -f mlf is linked as it is"),
        "tuning-records": State("changed", "records of tvmc tune, or folders of MetaSchedule's"),
    },
    "tune": {
        **dict.fromkeys(HARDWARE, State("refused", _HARDWARE)),
        "enable-autoscheduler": State("changed", "MetaSchedule searches further, into a folder beside the file"),
        "include-simple-tasks": State("refused", _HARDWARE),
        "log-estimated-latency": State("refused", _HARDWARE),
        "num-cores": State("changed", "as --target-llvm-num-cores"),
        "parallel": State("no effect", "schedules are measured one after another"),
        "tuner": State("no effect", "AutoTVM's searches are gone; schedule rules have one of their own"),
        "tuning-records": State("changed", "records of tvmc tune"),
    },
    "run": {
        "device": State("changed", "cl is opencl; micro is gone from TVM"),
        "list-options": State("refused", _MICRO),
        "project-option": State("refused", _MICRO),
    },
    "micro": {"": State("refused", _MICRO)},
}
"""By command and option: what is not as in TVM 0.14."""

MLONMCU: dict[str, State] = {
    name: State("works", f"reaches tvmc as {how}")
    for name, how in {
        "opt_level": "--opt-level",
        "target_device": "--target-KIND-device",
        "target_mcpu": "--target-KIND-mcpu",
        "target_march": "--target-c-march",
        "target_model": "--target-KIND-model",
        "target_mtriple": "--target-KIND-mtriple",
        "target_mabi": "--target-llvm-mabi",
        "target_mattr": "--target-llvm-mattr",
        "target_keys": "--target-KIND-keys",
        "target_num_cores": "--target-llvm-num-cores",
        "tvm_target_str": "--target",
        "extra_targets": "--target 'NAME, KIND'",
        "desired_layout": "--desired-layout",
        "desired_layout_ops": "--desired-layout-ops",
        "desired_layout_map": "--desired-layout and --desired-layout-ops",
        "disabled_passes": "--disabled-pass",
        "extra_pass_config": "--pass-config",
        "disable_vectorize": "--pass-config tir.disable_vectorize=1",
        "fuse_ops": "--pass-config relay.FuseOps.max_depth=N",
        "tvmc_extra_args": "they stand",
        "tvmc_custom_script": "python SCRIPT; vmkit tvmc --script prints it",
        "dump": "--dump-code",
        "num_threads": "TVM_NUM_THREADS",
        "bool_as_int": "1, 0, True or False",
        "print_outputs": "nothing: it shows what tvmc prints",
        "params_path": "--relay-params",
    }.items()
} | {
    "use_tuning_results": State("changed", "--tuning-records takes records of tvmc tune"),
    "autotuned_mode": State("changed", "records are vmkit's own, or MetaSchedule's"),
    "autotuned_results_file": State("changed", "--tuning-records takes records of tvmc tune"),
    "extra_target_details": State("refused", "vmkit's code generators take no options"),
    "tophub_url": State("no effect", "records come with vmkit; nothing is downloaded"),
    "relay_debug": State("no effect", "TVM_LOG_DEBUG needs another build of TVM"),
    "custom_unroll": State("refused", "LLVM as it is has no feature no-default-unroll"),
    "refresh_model_info": State(
        "changed", "--dump-code relay; models that are read as Relax, such as TFLite's, have none"
    ),
    "generate_wrapper": State("changed", "auto alone: an archive of -f mlf has its entry itself"),
    "moiopt": State("refused", "the pass was never TVM's"),
    "disable_legalize": State("refused", "the pass was never TVM's"),
    "tvm.build_dir": State("no effect", "TVM is a package of Python"),
    "tvm.pythonpath": State("no effect", "TVM is a package of Python"),
    "tvm.configs_dir": State("works", "TVM_CONFIGS_JSON_DIR, for --config"),
    "tvm.use_tlcpack": State("no effect", "TVM is a package of Python"),
}
"""By key of mlonmcu's TVM backends: what becomes of it where ``tvmc_custom_script`` is vmkit's."""


def check_options(command: str, args: argparse.Namespace, defaults: Mapping[str, object]) -> None:
    """Raise TVMCException for options of a command that are refused, and warn of those without effect.

    Parameters
    ----------
    command : str
        The command.
    args : argparse.Namespace
        What it was given.
    defaults : mapping
        What its arguments are where they are not given.
    """
    given = {
        name: state
        for name, state in STATES.get(command, {}).items()
        if getattr(args, name.replace("-", "_"), None) != defaults.get(name.replace("-", "_"))
    }
    refused = [f"--{name}: {state.note}" for name, state in given.items() if state.kind == "refused"]
    if refused:
        raise TVMCException("; ".join(refused))
    for name, state in given.items():
        if state.kind == "no effect":
            logger.warning("--%s: no effect; %s", name, state.note)


def rows(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[tuple[str, str, State]]:
    """Yield the program, the option and its state, for every option of tvmc and every key of mlonmcu."""
    for command, parser in parsers.items():
        states = STATES.get(command, {})
        for action in parser._actions:
            name = max(action.option_strings, key=len, default=action.dest)
            if name.startswith("--target-") and name != "--target-host":
                continue  # the kinds' own, as TVM registers them
            said = (action.help or "as its name says").replace("%(default)s", str(action.default))
            yield f"tvmc {command}", name, states.get(name.removeprefix("--"), State("works", said))
    yield "tvmc compile, tune", "--target-KIND-OPTION", State("works", "the options that TVM has for each kind")
    yield "tvmc", "micro", STATES["micro"][""]
    for name, state in MLONMCU.items():
        yield "mlonmcu", name, state


def table(parsers: Mapping[str, argparse.ArgumentParser], as_json: bool = False) -> str:
    """Return the table as text, or as JSON."""
    found = list(rows(parsers))
    if as_json:
        return json.dumps([{"of": of, "option": o, "state": s.kind, "note": s.note} for of, o, s in found], indent=1)
    shown = [("of", "option", "state", "note"), *((of, o, s.kind, " ".join(s.note.split())) for of, o, s in found)]
    widths = [max(len(row[at]) for row in shown) for at in range(3)]
    return "\n".join("  ".join([*(t.ljust(w) for t, w in zip(row, widths, strict=False)), row[3]]) for row in shown)
