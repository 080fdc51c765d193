"""Every node tells where in the text it stands."""

from __future__ import annotations

from typing import Any

from vmkit.relay.ir import post_order
from vmkit.relay.text.parser import read_module

TEXT = """#[version = "0.0.5"]
type T {
  Leaf,
  Node(T, int32),
}

def @main[A](%t: T, %a: A) -> (T, int32) {
  %0 = fn (%x: int32) { negative(%x) };
  let %r: ref(int32) = ref(1);
  ref_write(%r, %0(2));
  let %pair = match (%t) {
    Node(%left, %n) => (%left, %n + 3 * 4),
    Leaf => @main(Node(Leaf, 5), %a),
  };
  if (True) { %pair } else { (%pair.0, ref_read(%r)) }
}
"""


def _marked(node: Any) -> str:
    """Return the part of the text that the span of a node covers."""
    span = node.span
    assert span.source_name.name == "from_string"
    starts = [0]
    for line in TEXT.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return TEXT[starts[span.line - 1] + span.column - 1 : starts[span.end_line - 1] + span.end_column - 1]


def test_span_covers_the_text_of_the_node() -> None:
    main = read_module(TEXT)["main"]
    found: dict[str, set[str]] = {}
    for node in post_order(main):
        if getattr(node, "span", None) is not None:
            found.setdefault(type(node).__name__, set()).add(_marked(node))
    body = TEXT[TEXT.index("let %r") : TEXT.rindex("\n}")]
    match = body[body.index("match") : body.index("  if") - 2]
    assert match.startswith("match (%t) {") and match.endswith("}")
    assert found == {
        "Call": {"negative(%x)", "%0(2)", "%n + 3 * 4", "3 * 4", "Leaf", "Node(Leaf, 5)", "@main(Node(Leaf, 5), %a)"},
        "Constant": {"1", "2", "3", "4", "5", "True"},
        "Constructor": {"Leaf", "Node(T, int32)"},
        "Function": {"fn (%x: int32) { negative(%x) }", TEXT[TEXT.index("def") :].rstrip()},
        "If": {"if (True) { %pair } else { (%pair.0, ref_read(%r)) }"},
        "Let": {body, body[body.index("ref_write") :], body[body.index("let %pair") :]},
        "Match": {match},
        "RefCreate": {"ref(1)"},
        "RefRead": {"ref_read(%r)"},
        "RefWrite": {"ref_write(%r, %0(2))"},
        "Tuple": {"(%left, %n + 3 * 4)", "(%pair.0, ref_read(%r))"},
        "TupleGetItem": {"%pair.0"},
        "Var": {"%t", "%a", "%x", "%r", "%pair", "%left", "%n", "ref_write(%r, %0(2))"},
    }
