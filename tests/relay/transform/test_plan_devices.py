"""Where values are: devices flow through programs, and values are copied where they change them."""

from __future__ import annotations

import pytest
import tvm

from tests.relay.transform.device_texts import DEVICES, placed_module
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.transform import PlanDevices
from vmkit.relay.transform.plan_devices import DeviceConfig
from vmkit.target import canonical_target

# Values are on the GPU where nothing is said.
CONFIG = DeviceConfig(canonical_target(["llvm", "cuda -arch=sm_80"]), DEVICES["GPU"])

CASES = {
    "what nothing is said of is where the default is": (
        "def @main(%a: T, %b: T) { %0 = add(%a, %b); negative(%0) }",
        "def @main(%a{GPU}: T, %b{GPU}: T, at GPU) { %0 = add(%a, %b); negative(%0) }",
    ),
    "an operator is where its result is asked for": (
        "def @main(%a: T, %b: T, %c: T) { %0 = add(%a, %b); %1 = on(%0, CPU); %2 = negative(%c); subtract(%1, %2) }",
        """def @main(%a{CPU}: T, %b{CPU}: T, %c{GPU}: T, at GPU) {
          %0 = add(%a, %b); %1 = held(%0, CPU); %2 = copy(%1, CPU, GPU); %3 = negative(%c); subtract(%2, %3) }""",
    ),
    "a copy says where both sides are": (
        "def @main(%a: T, %c: T) { %0 = negative(%a); %1 = copy(%0, CPU, GPU); subtract(%1, %c) }",
        """def @main(%a{CPU}: T, %c{GPU}: T, at GPU) {
          %0 = negative(%a); %1 = held(%0, CPU); %2 = copy(%1, CPU, GPU); subtract(%2, %c) }""",
    ),
    "a copy to where a value is goes": (
        "def @main(%a: T) { %0 = copy(%a, CPU, CPU); on(negative(%0), CPU) }",
        "def @main(%a{CPU}: T, at CPU) { negative(%a) }",
    ),
    "the use of a variable places what a Let binds": (
        "def @main(%a: T, %c: T) { let %l = negative(%a); let %r = tanh(%c); %0 = on(%l, CPU); subtract(%0, %r) }",
        """def @main(%a{CPU}: T, %c{GPU}: T, at GPU) { let %l = held(negative(%a), CPU); let %r = held(tanh(%c), GPU);
          %0 = copy(%l, CPU, GPU); subtract(%0, %r) }""",
    ),
    "the result of a function places its calls": (
        "def @main(%a: T, %c: T) { let %f = fn (%x: T) { on(negative(%x), CPU) }; %0 = %f(%a); subtract(%0, %c) }",
        """def @main(%a{CPU}: T, %c{CPU}: T, at CPU) { let %f = fn (%x{CPU}: T, at CPU) { negative(%x) };
          %0 = %f(%a); subtract(%0, %c) }""",
    ),
    "a call places the result of the function": (
        "def @main(%a: T, %c: T) { let %f = fn (%x: T) { negative(%x) }; %0 = %f(%a); %1 = on(%0, CPU); add(%1, %c) }",
        """def @main(%a{CPU}: T, %c{GPU}: T, at GPU) { let %f = fn (%x{CPU}: T, at CPU) { negative(%x) };
          %0 = %f(%a); %1 = held(%0, CPU); %2 = copy(%1, CPU, GPU); add(%2, %c) }""",
    ),
    "devices go through functions of functions": (
        """def @main(%x: T, %y: T) {
          let %f = fn (%g: fn (T) -> T) { fn (%a: T) { %0 = on(%a, CPU); %1 = %g(%0); add(%1, %x) } };
          let %h = fn (%b: T) { negative(%b) }; %2 = %f(%h); %3 = %2(%y); subtract(%x, %3) }""",
        """def @main(%x{GPU}: T, %y{CPU}: T, at GPU) {
          let %f = fn (%g{GPU}: fn (T) -> T, at GPU) {
            fn (%a{CPU}: T, at GPU) { %0 = copy(%a, CPU, GPU); %1 = %g(%0); add(%1, %x) } };
          let %h = fn (%b{GPU}: T, at GPU) { negative(%b) }; %2 = %f(%h); %3 = %2(%y); subtract(%x, %3) }""",
    ),
    "a function in a tuple is where the tuple is": (
        """def @main(%x: T, %y: T) { let %f = fn (%a: T, %b: T) { %0 = on(%b, CPU); add(%a, %0) };
          let %t = (%f, %x); %1 = %t.1; %2 = %t.0; %2(%1, %y) }""",
        """def @main(%x{CPU}: T, %y{CPU}: T, at CPU) { let %f = fn (%a{CPU}: T, %b{CPU}: T, at CPU) { add(%a, %b) };
          let %t = held((%f, %x), CPU); %0 = %t.1; %1 = %t.0; %1(%0, %y) }""",
    ),
    "shapes are on the host": (
        'def @main(%x: Tensor[(?, ?), float32]) { %0 = held(%x, GPU); vm.shape_of(%0, dtype="int64") }',
        'def @main(%x{GPU}: Tensor[(?, ?), float32], at CPU) { vm.shape_of(%x, dtype="int64") }',
    ),
    "a field of a tuple is taken before it is copied": (
        """def @main(%x: Tensor[(3, 3, 4), float32]) { let %t = split(%x, indices_or_sections=3);
          %0 = on(%t, CPU); %1 = %0.0; on(negative(%1), GPU) }""",
        """def @main(%x{CPU}: Tensor[(3, 3, 4), float32], at GPU) { %0 = split(%x, indices_or_sections=3);
          let %t = held(%0, CPU); %1 = %t.0; %2 = held(%1, CPU); %3 = copy(%2, CPU, GPU); negative(%3) }""",
    ),
    "a global function has its parameters where it uses them": (
        "def @f(%a: T, %b: T) -> T { %0 = on(%b, CPU); add(%a, %0) } def @main(%x: T, %y: T) -> T { @f(%y, %x) }",
        """def @f(%a{GPU}: T, %b{CPU}: T, at GPU) -> T { %0 = copy(%b, CPU, GPU); add(%a, %0) }
          def @main(%x{CPU}: T, %y{GPU}: T, at GPU) -> T { @f(%y, %x) }""",
    ),
    "a condition and its branches are in one place": (
        """def @main(%x: bool, %y: T, %z: T) { let %f = fn (%a: T) { %0 = held(%y, CPU); add(%a, %0) };
          let %g = fn (%b: T) { subtract(%b, %y) }; let %h = if (%x) { %f } else { %g }; %h(%z) }""",
        """def @main(%x{CPU}: bool, %y{CPU}: T, %z{CPU}: T, at CPU) {
          let %f = fn (%a{CPU}: T, at CPU) { add(%a, %y) }; let %g = fn (%b{CPU}: T, at CPU) { subtract(%b, %y) };
          let %h = held(if (%x) { %f } else { %g }, CPU); %h(%z) }""",
    ),
    "what is written to a reference is where the reference is": (
        "def @main(%x: T, %y: T) { let %r = ref(%x); %0 = on(%y, CPU); let %w = ref_write(%r, %0); ref_read(%r) }",
        """def @main(%x{GPU}: T, %y{CPU}: T, at GPU) { let %r = held(ref(%x), GPU); %0 = copy(%y, CPU, GPU);
          let %w = held(ref_write(%r, %0), GPU); ref_read(%r) }""",
    ),
    "a value of a data type is in one place": (
        """type List[A] { Cons(A, List[A]), Nil } def @main(%x: T, %y: T) { %0 = held(%y, CPU); %1 = Nil;
          %2 = Cons(%0, %1); let %l = Cons(%x, %2); match? (%l) { Cons(%z, _) => %z } }""",
        """type List[A] { Cons(A, List[A]), Nil } def @main(%x{CPU}: T, %y{CPU}: T, at CPU) { %0 = Nil;
          %1 = Cons(%y, %0); let %l = held(Cons(%x, %1), CPU); match? (%l) { Cons(%z, _) => %z } }""",
    ),
    "an operand that is elsewhere already is copied": (
        """def @main(%a: T, %b: T, %c: T) { %0 = add(%a, %b); %1 = on(%0, CPU); %2 = add(%b, %c);
          %3 = on(%2, GPU); subtract(%1, %3) }""",
        """def @main(%a{CPU}: T, %b{CPU}: T, %c{GPU}: T, at GPU) { %0 = add(%a, %b); %1 = held(%0, CPU);
          %2 = copy(%1, CPU, GPU); %3 = copy(%b, CPU, GPU); %4 = add(%3, %c); subtract(%2, %4) }""",
    ),
    "what a function gives elsewhere is copied after the call": (
        """def @f(%x{CPU}: T, at CPU) -> T { negative(%x) }
          def @main(%a{GPU}: T, %b{GPU}: T, at GPU) { %0 = @f(%a); add(%0, %b) }""",
        """def @f(%x{CPU}: T, at CPU) -> T { negative(%x) } def @main(%a{GPU}: T, %b{GPU}: T, at GPU) {
          %0 = copy(%a, GPU, CPU); %1 = @f(%0); %2 = held(%1, CPU); %3 = copy(%2, CPU, GPU); add(%3, %b) }""",
    ),
    "kinds of memory count, and what leaves the body free follows": (
        """def @f(%x{B}: T, at B) -> T { %x } def @main(%a{CPU}: T, %b{A}: T, at A) {
          %0 = free(%a, CPU); %1 = @f(%0); %2 = free(%b, CPU); %3 = @f(%2); %4 = add(%1, %3); free(%4, CPU) }""",
        """def @f(%x{B}: T, at B) -> T { %x } def @main(%a{B}: T, %b{A}: T, at A) {
          %0 = @f(%a); %1 = copy(%b, A, B); %2 = @f(%1); %3 = add(%0, %2); %4 = held(%3, B); copy(%4, B, A) }""",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_devices_flow(what: str) -> None:
    before, after = (placed_module(text) for text in CASES[what])
    got = PlanDevices(CONFIG)(before)
    relay.assert_structural_equal(got, after)
    relay.assert_structural_equal(PlanDevices(CONFIG)(got), after)


def test_what_is_planned_is_printed_and_read_back() -> None:
    planned = PlanDevices(CONFIG)(placed_module(CASES["a call places the result of the function"][0]))
    text = relay.astext(planned)
    assert "%a {virtual_device=meta[VirtualDevice][0]}: Tensor[(5, 7), float32]" in text
    relay.assert_structural_equal(relay.parse(text), planned)


def test_targets_say_what_the_default_is() -> None:
    planned = PlanDevices("cuda -arch=sm_80")(placed_module("def @main(%a: T) { negative(%a) }"))
    (param,) = planned["main"].attrs["param_virtual_devices"]
    assert str(param) == "cuda"


def test_a_function_on_two_devices_is_refused() -> None:
    text = "def @main(%x: T) { let %f = fn (%a: T) { negative(%a) }; %0 = held(%f, CPU); %1 = held(%f, GPU); (%0, %1) }"
    with pytest.raises(ModelError, match=r"in @main: a value is to be on cuda and cpu at once, and cannot be copied"):
        PlanDevices(CONFIG)(placed_module(text))


def test_a_deep_program_is_planned() -> None:
    x = expr = relay.var("x", shape=(2,))
    for _ in range(3000):
        expr = relay.negative(expr)
    mod = relay.transform.InferType()(
        tvm.IRModule({"main": relay.Function([x], relay.annotation.on_device(expr, "cpu"))})
    )
    assert str(PlanDevices(CONFIG)(mod)["main"].attrs["result_virtual_device"]) == "cpu"
