"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "vmkit: error: the following arguments are required: COMMAND; see vmkit --help"),
        (["compil"], "vmkit: error: argument COMMAND: invalid choice: 'compil'; did you mean 'compile'"),
        (["demo", "--nosuch"], "vmkit demo: error: unrecognized arguments: --nosuch; see vmkit demo --help"),
        (["demo", "--verbos", "x"], "vmkit demo: error: unrecognized arguments: x; see vmkit demo --help"),
        (["run", __file__, "--fil-mode=ones"], "unrecognized arguments: --fil-mode=ones; did you mean '--fill-mode'"),
        (["run", __file__, "--fill-mode", "one"], "invalid choice: 'one'; did you mean 'ones'? (choose from"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == ExitCode.USAGE
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_the_process_of_a_command_searches_nothing_when_it_ends() -> None:
    program = """
import atexit, gc, os, sys
def tell(phase, info):
    if phase == "start": os.write(1, b"few" if len(gc.get_objects()) < 1_000 else b"many")
atexit.register(gc.callbacks.append, tell)
from vmkit.cli import main
sys.argv = ["vmkit", "completion"]
main()
sys.stdout.flush()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "complete" in done.stdout and done.stdout.endswith("few") and "many" not in done.stdout


def test_a_missing_file_is_said_with_the_close_name_before_tvm_is_imported(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    program = f"""
import sys
from vmkit.cli import main
code = main(["compile", {str(tmp_path / "modle.onnx")!r}])
print(int(code), sorted({{"numpy", "onnx", "tvm"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("modle.onnx: there is no such file; did you mean 'model.onnx'?\n")
    assert done.stdout == f"{int(ExitCode.MODEL)} []\n"


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
