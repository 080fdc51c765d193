"""Functions that depend on the target in force."""

from __future__ import annotations

import pytest
from tvm.target import Target

from vmkit.target.generic_function import generic_func


def test_the_function_of_the_first_key_that_has_one_is_called() -> None:
    @generic_func
    def name(x: int) -> str:
        """Say which."""
        return f"default {x}"

    name.register("cpu", lambda x: f"cpu {x}")
    name.register(["arm_cpu", "mali"])(lambda x: f"arm {x}")
    assert name.__doc__ == "Say which."
    assert name(1) == "default 1"
    for keys, expected in ((["cpu"], "cpu 1"), (["arm_cpu", "cpu"], "arm 1"), (["cpu", "arm_cpu"], "cpu 1")):
        with Target({"kind": "llvm", "keys": keys}):
            assert name(x=1) == expected
    with Target("cuda"):
        assert name(1) == "default 1"


def test_a_second_function_for_a_key_is_refused_unless_asked_for() -> None:
    name = generic_func(lambda: 0)
    name.register("cpu", lambda: 1)
    with pytest.raises(ValueError, match="has a function for 'cpu' already; pass override=True"):
        name.register("cpu", lambda: 2)
    name.register("cpu", lambda: 2, override=True)
    with Target("llvm"):
        assert name() == 2
