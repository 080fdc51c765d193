"""The console script itself: every command with every option that it has, every exit code, and what is written."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from PIL import Image
from tvm import rpc
from tvm.rpc.tracker import Tracker

from tests.cli.commands import save
from tests.cli.console import ROWS, Row, W, X, done, started
from tests.cli.test_every_option import OF_TARGETS, commands
from vmkit.cli import COMMANDS, ExitCode
from vmkit.cli.tvmc.option_states import STATES
from vmkit.tophub import Records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model ``y = relu(conv(x, w))`` and with what options name."""
    path = tmp_path_factory.mktemp("console")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    save(path / "m.onnx", *nodes, w=W)
    np.savez(path / "in.npz", x=X)
    np.savez(path / "w.npz", w=-W)
    Image.fromarray(np.full((6, 6), 51, "uint8")).save(path / "photo.png")
    conv = "nn.conv2d(%x, %w, padding=[0, 0, 0, 0], channels=8, kernel_size=[3, 3])"
    tensors = "%x: Tensor[(2, 1, 6, 6), float32], %w: Tensor[(8, 1, 3, 3), float32]"
    (path / "w.relay").write_text(f'#[version = "0.0.5"]\ndef @main({tensors}) {{ nn.relu({conv}) }}')
    (path / "r.py").write_text(
        "from tvm.script import ir as I, relax as R\n@I.ir_module\nclass M:\n    @R.function\n"
        "    def main(x: R.Tensor(('n', 4), 'float32')):\n"
        "        y = R.nn.relu(R.matmul(x, R.permute_dims(x)))\n        return y\n"
    )
    (path / "quiet.json").write_text(json.dumps({"seed": 3}))
    (path / "level.json").write_text(json.dumps({"opt-level": 1}))
    (path / "budget.json").write_text(json.dumps({"budget": 100}))
    (path / "repeat.json").write_text(json.dumps({"repeat": 2}))
    Records([]).write(path / "none.json")
    return path


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    done("tvmc", "compile", "m.onnx", "--target", "llvm", "-o", "package.tar", folder=folder)
    return folder


@pytest.fixture(scope="module")
def board() -> Iterator[str]:
    """Yield the address of a tracker that lends a device with the key ``board``."""
    tracker = Tracker("127.0.0.1")
    server = rpc.Server("127.0.0.1", key="board", tracker_addr=("127.0.0.1", tracker.port))
    try:
        time.sleep(2)
        yield f"127.0.0.1:{tracker.port}"
    finally:
        server.terminate()
        tracker.terminate()


GONE = {
    name: [f"--{option}" for option, state in STATES[name.removeprefix("tvmc ")].items() if state.kind == "refused"]
    for name in ("tvmc compile", "tvmc tune", "tvmc run")
}


def words_of(name: str) -> list[str]:
    return [word.partition("=")[0] for row in ROWS[name] for word in row.words.split()] + GONE.get(name, [])


def test_every_command_and_option_is_given_to_the_script() -> None:
    assert {*ROWS} == {name for name, _ in commands()}
    assert {name.split()[0] for name in ROWS} == {*COMMANDS}
    lacking = [
        f"{name} {action.option_strings[-1]}"
        for name, parser in commands()
        for action in parser._actions
        if action.option_strings
        and not isinstance(action, argparse._HelpAction)
        and not any(map(OF_TARGETS.match, action.option_strings))
        and not {*action.option_strings} & {*words_of(name)}
    ]
    assert lacking == []
    assert any(map(OF_TARGETS.match, words_of("compile"))) and any(map(OF_TARGETS.match, words_of("tvmc compile")))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(name, row, id=f"{name} {at}") for name in ROWS for at, row in enumerate(ROWS[name])]
)
def test_a_command_does_what_its_options_say(name: str, row: Row, package: Path, board: str) -> None:
    words = [*name.split(), *row.words.replace("BOARD", board).split()]
    row.look(package, done(*words, folder=package, code=row.code))


@pytest.mark.nightly
@pytest.mark.parametrize("name", GONE)
def test_an_option_that_is_gone_is_refused(name: str, package: Path) -> None:
    parser = dict(commands())[name]
    values = {word: [] if action.nargs == 0 else ["1"] for action in parser._actions for word in action.option_strings}
    file = ["package.tar"] if name == "tvmc run" else ["m.onnx", "--target", "llvm", "-o", "gone"]
    given = [word for option in GONE[name] for word in (option, *values[option])]
    said = done(*name.split(), *file, *given, folder=package, code=4)
    assert said.startswith("Error: ") and any(option in said for option in GONE[name])
    assert not (package / "gone").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], ExitCode.OK, "vmkit "),
        (["check", "nosuch.onnx"], ExitCode.MODEL, "vmkit: nosuch.onnx: there is no such file"),
        (["tvmc", "run", "nosuch.tar"], 4, "Error: nosuch.tar: there is no such file"),
        (
            ["compile", "m.onnx", "--opt-levle", "2"],
            ExitCode.USAGE,
            "vmkit compile: error: unrecognized arguments: --opt-levle 2; did you mean '--opt-level'",
        ),
    ],
)
def test_exit_codes_of_what_cannot_be_done(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    out = done(*words, folder=tmp_path, code=code)
    assert said in out and "Traceback" not in out


@pytest.mark.nightly
def test_the_exit_code_of_an_error_inside(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "__init__.py").write_text("1 / 0\n")  # a package as nobody expects it
    (tmp_path / "m.onnx").touch()
    said = done("check", "m.onnx", folder=tmp_path, code=ExitCode.INTERNAL, first=str(tmp_path))
    assert said.startswith("vmkit: internal error: ZeroDivisionError") and "run again with -v" in said
    said = done("-v", "check", "m.onnx", folder=tmp_path, code=ExitCode.INTERNAL, first=str(tmp_path))
    assert "Traceback (most recent call last)" in said


@pytest.mark.nightly
def test_the_exit_code_of_what_is_interrupted(folder: Path) -> None:
    os.mkfifo(folder / "slow.npz")
    process = started("verify", "m.onnx", "-i", "slow.npz", folder=folder)
    for _ in range(600):  # until it waits for what the file has
        try:
            writer = os.open(folder / "slow.npz", os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            assert process.poll() is None
            time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == ExitCode.INTERRUPTED
    os.close(writer)
