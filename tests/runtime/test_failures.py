"""What a failure inside a running program means."""

from __future__ import annotations

import pytest

from vmkit.runtime.failures import explain_failure, useful_line

MESSAGES = {"7000000000001": "n is {actual}, expected {expected}", "7000000000002": "the list is empty"}
FAILURE = (
    "Check failed: input_shape[i] == heap_data[reg] ({pair}) : ErrorContext(match_cast, ty=R.Shape([{dims}]))  "
    "match_cast error,  shape[0] mismatch to a previous populated value."
)


@pytest.mark.parametrize(
    ("pair", "dims", "text"),
    [
        ("3 vs. 2", "n, 7000000000001", "n is 3, expected 2"),
        ("-1 vs. 0", "T.Select(a == 1, a, b), 7000000000001", "n is -1, expected 0"),
        ("0 vs. 1", "T.int64(1), T.int64(7000000000002)", "the list is empty"),
        ("3 vs. 2", "n, 4", None),
        ("3 vs. 2", "n, 7000000000003", None),
        ("3 vs. 2", "n, 70000000000011", None),
    ],
)
def test_a_check_of_the_compiler_is_found_by_its_number(pair: str, dims: str, text: str | None) -> None:
    assert explain_failure(FAILURE.format(pair=pair, dims=dims), MESSAGES) == text


def test_of_several_checks_made_at_once_the_place_says_which_failed() -> None:
    said = FAILURE.format(pair="0 vs. 1", dims="n, 7000000000001, 1, 7000000000002").replace("shape[0]", "shape[2]")
    assert explain_failure(said, MESSAGES) == "the list is empty"


def test_what_is_written_around_the_number_does_not_matter() -> None:
    said = "Check failed: a == b (5 vs. 6)\n  in MatchShape: context=[shape(n, 7000000000001)], try again"
    assert explain_failure(said, MESSAGES) == "n is 5, expected 6"


@pytest.mark.parametrize("text", ["", "7000000000001", "out of memory (0 vs. 0)", "(a vs. b) 7000000000001"])
def test_other_errors_are_left_alone(text: str) -> None:
    assert explain_failure(text, MESSAGES) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Check failed: (x != y) is false: there is no y", "there is no y"),
        ("Check failed: n == m (3 vs. 4) : sizes differ", "sizes differ (3 vs. 4)"),
        (FAILURE.format(pair="3 vs. 4", dims="n"), "match_cast, ty=R.Shape([n]): match_cast error, "
         "shape[0] mismatch to a previous populated value. (3 vs. 4)"),
        ("a plain\n   error", "a plain error"),
        ("std::bad_alloc", "the system has no memory for a tensor of the size that the inputs ask for"),
        ("", "RuntimeError"),
    ],
)  # fmt: skip
def test_the_useful_line_of_an_error(text: str, line: str) -> None:
    assert useful_line(RuntimeError(text)) == line
