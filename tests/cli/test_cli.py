"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import vmkit
from vmkit import cli
from vmkit.cli import COMMANDS, ExitCode, main
from vmkit.errors import TargetError


def vmkit_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "vmkit", *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_command_and_exit_code() -> None:
    result = vmkit_command("--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in COMMANDS)
    assert "3 a model,\ntarget or file that cannot be used" in result.stdout


def test_help_does_not_wait_for_what_only_compiling_needs() -> None:
    program = """
import contextlib, sys
from vmkit.cli import main
with contextlib.suppress(SystemExit):
    main(["--help"])
print(sorted({"numpy", "onnx", "tvm", "tvm_ffi"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert vmkit_command("--version").stdout == f"vmkit {vmkit.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["demo", "--nosuch"]])
def test_wrong_arguments_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == ExitCode.USAGE
    assert "usage: vmkit" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == ExitCode.OK
    assert f"usage: vmkit {name}" in capsys.readouterr().out


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> object:
    def fail_with(error: BaseException) -> None:
        def run(arguments: object) -> int:
            raise error

        monkeypatch.setattr(cli, "_module", lambda name: SimpleNamespace(add_arguments=lambda p: None, run=run))

    return fail_with


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (TargetError("there is no target"), ExitCode.MODEL, "vmkit: there is no target\n"),
        (FileNotFoundError(2, "No such file", "m.onnx"), ExitCode.MODEL, "vmkit: [Errno 2] No such file: 'm.onnx'\n"),
        (
            ZeroDivisionError("division by zero"),
            ExitCode.INTERNAL,
            "vmkit: internal error: ZeroDivisionError: division by zero\nrun again with -v for the traceback\n",
        ),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ""),
    ],
)
def test_errors_go_to_stderr_without_a_traceback(
    failing, capsys: pytest.CaptureFixture[str], error: BaseException, code: ExitCode, said: str
) -> None:
    failing(error)
    assert main(["demo"]) == code
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", said)


@pytest.mark.parametrize("arguments", [["-v", "demo"], ["demo", "-v"]])
def test_verbose_shows_the_traceback(failing, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    failing(TargetError("there is no target"))
    assert main(arguments) == ExitCode.MODEL
    assert "Traceback (most recent call last)" in capsys.readouterr().err
