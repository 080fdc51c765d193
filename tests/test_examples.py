"""Every example runs, and prints what its story says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTED = {
    "code_generator": [
        "accumulator gets 1 of 4 calls, in 1 functions",
        "5 rows: (5, 16), as without it: True",
    ],
    "data_types": [
        "main(xs: List[float32], k: float32) -> (List[float32], float32)",
        "[10.0, 20.0, 30.0] add up to 60.0",
    ],
    "executor_migration": [
        "main by position: [6.0, 24.0]",
        "double:           8.0",
        "an expression:    [6.0, 6.0, 6.0]",
    ],
    "microcontroller": [
        "RAM between inputs and outputs: 256 bytes",
        "constants in flash: 36 bytes",
        "int32_t tvmgen_edges_run(struct tvmgen_edges_inputs* inputs, struct tvmgen_edges_outputs* outputs);",
        "equal to the virtual machine's: True",
    ],
    "onnx_dynamic_batch": [
        "main(Input3: float32[n, 1, 28, 28]) -> (Plus214_Output_0: float32[n, 10])",
        "batch 16: scores (16, 10)",
    ],
    "relay_program": ["main(x: int64[?]) -> int32", "27 numbers up to 27: 111 rounds"],
    "serving": [
        '  queries: dtype float64, expected float32; pass queries.astype("float32")',
        "  mask: m = 4, but keys already bound m = 5",
        "  key: no such input; did you mean 'keys'?",
        "32 requests answered; masked keys got [0.0, 0.0]",
    ],
    "staged_compiler": ["parameters left: ['x']", "5 rows: [0.0, 0.0, 1.0, 2.0]"],
    "torch_export": ["3 sentences of 40 words: scores (3, 40, 5)"],
    "torch_onnx": [
        "main(images: float32[batch, 3, height, width]) -> (outlines: float32[batch, 1, height, width])",
        "3 images of 40x24: (3, 1, 40, 24)",
    ],
}
# Extras of single examples, which need not be installed.
NEEDED = {"torch_export": "torch", "torch_onnx": "torch"}


def test_every_example_is_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name], reason=f"{NEEDED[name]} is not installed: pip install '.[exported]'")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in PRINTED[name] if line not in printed] == []


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    assert lines[0].startswith('"""')
    assert len(lines) <= 80
