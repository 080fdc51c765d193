"""Strings at the boundary of programs: what comes in, what goes out, and how long texts live."""

from __future__ import annotations

import subprocess
import sys
import threading
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper

import vmkit
from tests.places import TOP
from vmkit import relay
from vmkit.errors import InputError, VMError
from vmkit.relay.op import build
from vmkit.values import text_tables, texts
from vmkit.values.texts import ProgramTexts, StringTensor, Texts, as_texts, digest


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    """Return a program that puts strings and a constant together, and says which strings are that constant."""
    constant = helper.make_tensor("c", TensorProto.STRING, [1], ["ké".encode()])
    nodes = [helper.make_node("StringConcat", ["x", "c"], ["y"]), helper.make_node("Equal", ["x", "c"], ["e"])]
    outputs = [("y", TensorProto.STRING), ("e", TensorProto.BOOL)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info(name, code, ["n"]) for name, code in outputs],
        [constant],
    )
    return vmkit.compile(helper.make_model(graph), target="llvm")


def answers(machine: vmkit.VirtualMachine, *args: object) -> list[object]:
    return [r.numpy().tolist() for r in machine.run(*args)]


def test_strings_come_in_every_form_and_go_out_as_objects(executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(executable)
    forms = [["a", "ké"], np.array(["a", "ké"]), np.array(["a", "ké"], object), np.array([b"a", "ké".encode()])]
    for form in [*forms, StringTensor(["a", "ké"])]:
        assert answers(machine, form) == [["aké", "kéké"], [False, True]]
    result = machine.run(forms[0])[0]
    assert result.numpy().dtype == object and result.shape == (2,) and result.dtype == "string"
    assert answers(machine, result)[0] == ["akéké", "kékéké"]
    assert answers(machine, np.array([], object)) == [[], []]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1, 2], "element 0 is 1, not a string"),
        (np.array([1.0]), "float64, not strings"),
        (["a", None], "element 1 is None"),
        ([b"\xff"], "no text in UTF-8"),
        (3, "an int, expected string"),
        (["\ud800"], "no text in UTF-8"),
    ],
)
def test_what_is_no_string_is_refused_by_its_place(executable: vmkit.Executable, value: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        vmkit.VirtualMachine(executable).run(value)


def test_texts_of_calls_before_are_taken_at_once_and_others_looked_at(executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(executable)
    document = "a text that is longer than most words are"
    for form in (np.array, np.asarray):
        given = form(["a", "ké", document, ""], dtype=object)
        for _ in range(2):
            assert answers(machine, given) == [["aké", "kéké", f"{document}ké", "ké"], [False, True, False, False]]
    # An element of numpy's arrays of strings is a str, too, and bytes are UTF-8.
    mixed = np.array([np.str_("a"), b"b", "a"], object)
    assert answers(machine, mixed)[0] == ["aké", "bké", "aké"]
    assert answers(machine, np.array(["a", "b", "c"], object)[::-2])[0] == ["cké", "aké"]
    for wrong, said in ((["a", None], "element 1 is None"), (["a", []], "not a string"), (["\ud800"], "UTF-8")):
        made = np.empty(len(wrong), object)
        made[:] = wrong
        with pytest.raises(InputError, match=said):
            machine.run(made)
    with pytest.raises(InputError, match="rank 2"):
        machine.run(np.array([["a"]], object))
    with pytest.raises(InputError, match="expected string"):
        machine.run(np.array([7], "int64"))


def test_strings_beside_numbers_are_checked_like_these() -> None:
    n = tvm.tirx.Var("n", "int64")
    x, y = relay.var("x", shape=(n, 2), dtype="string"), relay.var("y", shape=(n,), dtype="float32")
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], relay.Tuple([x, y])), target="llvm"))
    given = np.array([["a", "b"], ["c", "a"]], object)
    for _ in range(2):
        texts_back, numbers = machine.run(given, np.arange(2, dtype="float32"))
        assert texts_back.numpy().tolist() == given.tolist() and numbers.numpy().tolist() == [0, 1]
        with pytest.raises(InputError, match="y: n"):
            machine.run(given, np.arange(3, dtype="float32"))
        with pytest.raises(InputError, match="dim 1 is 1, expected 2"):
            machine.run(given[:, :1], np.arange(2, dtype="float32"))
        with pytest.raises(InputError, match="float64"):
            machine.run(given, np.arange(2.0))
    assert machine.run(given[:0], np.empty(0, "float32"))[0].shape == (0, 2)


def test_inputs_stay_set_and_outputs_can_be_asked_for(executable: vmkit.Executable) -> None:
    machine = vmkit.VirtualMachine(executable)
    given = np.array(["u", "v"], object)
    machine.set_input("main", given)
    given[0] = "changed"
    for _ in range(2):
        machine.invoke_stateful("main")
        assert machine.get_outputs()[0].numpy().tolist() == ["uké", "vké"]
    machine.set_one_input("main", "x", ["w"])
    assert answers(machine)[0] == ["wké"]


def test_a_call_leaves_few_texts_behind(executable: vmkit.Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = vmkit.VirtualMachine(executable)
    tables: list[tuple[Texts, ProgramTexts]] = []
    made = Texts.__init__

    def counted(self: Texts, program: ProgramTexts) -> None:
        made(self, program)
        tables.append((self, program))

    monkeypatch.setattr(Texts, "__init__", counted)
    for call in range(3):
        machine.run([f"a text that is longer than most words are {call}"])
    assert [(len(table), len(below)) for table, below in tables] == [(2, 1)] * 3
    for word in ("a", "b", "a"):
        assert answers(machine, [word])[0] == [f"{word}ké"]
    assert [(len(table), len(below)) for table, below in tables[3:]] == [(0, 5)] * 3
    monkeypatch.setattr(tables[0][1], "room", 7)
    for word in "cde":
        assert answers(machine, [word])[0] == [f"{word}ké"]
    assert [(len(table), len(below)) for table, below in tables[6:]] == [(1, 6), (2, 6), (2, 6)]
    with pytest.raises(VMError, match=r"in a call of vmkit\.VirtualMachine"):
        texts.call_texts()


def test_machines_and_threads_do_not_see_each_other(executable: vmkit.Executable) -> None:
    machines = [vmkit.VirtualMachine(executable, num_threads=1) for _ in range(2)]
    wrong = []

    def work(number: int) -> None:
        for call in range(30):
            text = f"{number}.{call}"
            if answers(machines[number % 2], [text, text * 2]) != [[f"{text}ké", f"{text * 2}ké"], [False, False]]:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_ELSEWHERE = """
import sys, vmkit
machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]))
assert [r.numpy().tolist() for r in machine.run(["a", "ké"])] == [["aké", "kéké"], [False, True]]
"""


def test_a_saved_program_knows_its_texts_in_a_fresh_process(executable: vmkit.Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "model.vmx")
    command = [sys.executable, "-c", _ELSEWHERE, str(tmp_path / "model.vmx")]
    subprocess.run(command, check=True, cwd=TOP)
    again = vmkit.Executable.load_exec(*executable.save())
    assert answers(vmkit.VirtualMachine(again), ["a"])[0] == ["aké"]


def test_strings_in_a_recursive_program_reach_its_own_thread() -> None:
    mod = relay.parse(
        """#[version = "0.0.5"]
def @main(%n: int32, %x: Tensor[(?), string]) -> Tensor[(?), string] {
  if (%n == 0) { %x } else { contrib_string_concatenate(%x, @main(%n - 1, %x)) }
}"""
    )
    machine = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"))
    assert machine.run(2, ["ab"]).numpy().tolist() == ["ababab"]


def test_equal_digests_of_two_texts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "digest", lambda text: 7)
    for words in (0, 8):
        for text in ("b", "b" * 40):
            with pytest.raises(VMError, match=f"'{text}' and 'a' have the same digest"):
                Texts(ProgramTexts(["a"], words)).numbers_of(["a", text])
    with pytest.raises(VMError, match="'b' and 'a' have the same digest"):
        ProgramTexts(["a", "b"])
    call = Texts(ProgramTexts([], words=8))
    assert call.numbers_of(["b" * 40]) == [7]
    with pytest.raises(VMError, match=r"'c' and 'b+' have the same digest"):
        call.numbers_of(["c"])


def test_the_empty_text_is_zero_and_others_are_64_bits() -> None:
    assert digest("") == 0
    assert digest("a") == int.from_bytes(blake2b(b"a", digest_size=8).digest(), "little", signed=True)
    assert as_texts([["a"], [b"b"]]).tolist() == [["a"], ["b"]]
    with pytest.raises(VMError, match="no string has the digest 5"):
        Texts(ProgramTexts([])).read([5])


def test_constants_of_strings_are_printed_and_read_again() -> None:
    call = build("contrib_strings", texts='["a", "\\u00e9\\"", ""]', shape=[3])
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([], call)))
    again = relay.parse(relay.astext(mod))
    for each in (mod, again):
        machine = vmkit.VirtualMachine(vmkit.compile(each, target="llvm"))
        assert machine.run().numpy().tolist() == ["a", 'é"', ""]


def test_strings_are_ordered_by_their_code_points() -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype="string")
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], build("contrib_string_order", x)), target="llvm"))
    words = ["b", "", "ab", "é", "b", "Z"]
    order = machine.run(words).numpy()
    assert [words[k] for k in np.argsort(order, kind="stable")] == sorted(words)
    assert order[0] == order[4]
