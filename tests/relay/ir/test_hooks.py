"""What nodes offer and rooms above them do is handed in, and says so where it is missing."""

from __future__ import annotations

import pytest

from vmkit import relay
from vmkit.relay.ir.hooks import Hook
from vmkit.relay.op import build
from vmkit.relay.text import astext, node_text


def test_a_hook_calls_what_fills_it() -> None:
    hook: Hook[[int, int], int] = Hook("a sum for this test", "nowhere")
    hook.fill(lambda a, b: a + b)
    assert hook(2, 3) == 5
    hook.fill(lambda a, b: a - b)
    assert hook(2, 3) == -1


def test_a_hook_that_nothing_fills_names_the_module_to_import() -> None:
    hook: Hook[[], None] = Hook("a thing that nobody does", "vmkit.relay.nowhere")
    with pytest.raises(RuntimeError) as caught:
        hook()
    assert str(caught.value) == "a thing that nobody does: nothing does it yet; import vmkit.relay.nowhere first"


def test_nodes_are_printed_and_built_by_the_rooms_above() -> None:
    x = relay.var("x", shape=(2,))
    assert str(x + x) == node_text(x + x)
    assert (x + x).astext(show_meta_data=False) == astext(x + x, False)
    assert relay.Function([x], x).astext() == astext(relay.Function([x], x))
    assert x.astype("int8").op.same_as(build("cast", x, dtype="int8").op)
    assert x.astype("int8").attrs.dtype == "int8"
