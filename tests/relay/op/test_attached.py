"""Functions that scripts attach to operators."""

import pytest
from tvm.ir.op import register_op_attr

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op import attached

REGISTERING = {
    "FTVMLegalize": relay.op.register_legalize,
    "FTVMAlterOpLayout": relay.op.register_alter_op_layout,
    "FTVMConvertOpLayout": relay.op.register_convert_op_layout,
    "FInferCorrectLayout": relay.op.register_infer_correct_layout,
}


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    for key in REGISTERING:
        if relay.op.get("erf").has_attr(key):
            relay.op.get("erf").reset_attr(key)


@pytest.mark.parametrize("key", REGISTERING)
def test_what_is_registered_is_an_attribute_of_the_operator(key):
    assert attached.attached(relay.op.get("erf"), key) is None
    REGISTERING[key]("erf", lambda *_: 7)
    assert relay.op.get("erf").get_attr(key)(1, 2) == 7
    assert attached.attached(relay.op.get("erf"), key)(1, 2) == 7


def test_an_attribute_set_by_tvm_is_found():
    register_op_attr("erf", attached.LEGALIZE, lambda *_: 3)
    assert attached.attached(relay.op.get("erf"), attached.LEGALIZE)() == 3


def test_a_decorator_gives_the_function_back():
    @relay.op.register_legalize("erf")
    def legal(*_):
        return 5

    assert legal() == 5
    assert relay.op.get("erf").get_attr("FTVMLegalize")() == 5


def test_the_highest_level_is_taken_whatever_the_order():
    relay.op.register_legalize("erf", lambda *_: "high", level=11)
    relay.op.register_legalize("erf", lambda *_: "low", level=9)
    assert relay.op.get("erf").get_attr("FTVMLegalize")() == "high"


def test_a_second_of_the_same_level_is_refused():
    relay.op.register_legalize("erf", lambda *_: None)
    with pytest.raises(RuntimeError, match="FTVMLegalize of erf is already registered with same plevel=10"):
        relay.op.register_legalize("erf", lambda *_: None)


def test_an_unknown_operator_has_a_close_name():
    with pytest.raises(TypeCheckError, match=r"no operator 'nn.conv2dd'.*nn.conv2d"):
        relay.op.register_alter_op_layout("nn.conv2dd", lambda *_: None)
