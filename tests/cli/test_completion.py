"""What ``vmkit completion`` prints completes words in bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vmkit.cli.completion import script


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shell") / "completion.sh"
    path.write_text(script())
    return path


def completed(shell: Path, *words: str) -> list[str]:
    call = f'. {shell}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vmkit; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", call, "bash", *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["vmkit", "comp"], ["compile", "completion"]),
        (["vmkit", "tvmc", "ru"], ["run"]),
        (["vmkit", "compile", "m.onnx", "--target-ho"], ["--target-host"]),
        (["vmkit", "tvmc", "compile", "--target-llvm-mc"], ["--target-llvm-mcpu"]),
        (["vmkit", "tvmc", "run", "m.tar", "--fill-mode", ""], ["zeros", "ones", "random"]),
        (["vmkit", "run", "compile", "--print-ti"], ["--print-time"]),
        (["vmkit", "nosuch"], []),
    ],
)
def test_words_are_completed(shell: Path, words: list[str], found: list[str]) -> None:
    assert completed(shell, *words) == found
