"""Networks: types and numbers of parameters of all configurations, against published figures."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tvm_ffi

from vmkit import relay
from vmkit.relay.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    run_infer_type,
    squeezenet,
    synthetic,
    vgg,
)

IMAGE = (3, 224, 224)


def sizes(net: relay.Function) -> tuple[str, int, int]:
    """Return the type of the result, the number of trained parameters, and that of all with statistics."""
    function = run_infer_type(net)
    by_name = {
        p.name_hint: math.prod(p.checked_type.concrete_shape)
        for p in function.params
        if not p.name_hint.startswith("data")
    }
    trained = sum(n for name, n in by_name.items() if not name.endswith(("moving_mean", "moving_var")))
    return str(function.checked_type.ret_type), trained, sum(by_name.values())


# gluon's model zoo counts statistics too. It does not project where channels agree; Relay does, by 64 x 64 weights.
@pytest.mark.parametrize(
    ("num_layers", "published"),
    [(18, 11_695_796 + 4096), (34, 21_811_380 + 4096), (50, 25_595_060), (101, 44_639_412), (152, 60_329_140)],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_resnet_has_the_parameters_of_gluons_second_version(num_layers: int, published: int, layout: str) -> None:
    shape = IMAGE if layout == "NCHW" else (224, 224, 3)
    ty, _, count = sizes(resnet.get_net(relay.Any(), 1000, num_layers, shape, layout))
    assert (ty, count) == ("Tensor[(?, 1000), float32]", published)


# The paper says 0.27 and 1.7 million.
@pytest.mark.parametrize(("num_layers", "published"), [(20, 0.27e6), (164, 1.7e6)])
def test_resnet_for_small_images_is_that_of_cifar(num_layers: int, published: float) -> None:
    ty, count, _ = sizes(resnet.get_net(1, 10, num_layers, (3, 28, 28)))
    assert ty == "Tensor[(1, 10), float32]"
    assert count == pytest.approx(published, rel=0.02)


# torchvision's r3d_18 normalises after convolutions and not before, hence the small difference.
@pytest.mark.parametrize(("layout", "shape"), [("NCDHW", (3, 16, 112, 112)), ("NDHWC", (16, 112, 112, 3))])
def test_resnet_over_videos_is_as_large_as_torchvisions(layout: str, shape: tuple[int, ...]) -> None:
    ty, count, _ = sizes(resnet_3d.get_net(relay.Any(), 400, 18, shape, layout))
    assert ty == "Tensor[(?, 400), float32]"
    assert count == pytest.approx(33_371_472, rel=1e-4)


# The figures of torchvision.
@pytest.mark.parametrize(
    ("num_layers", "batch_norm", "published"),
    [
        (11, False, 132_863_336),
        (13, False, 133_047_848),
        (16, False, 138_357_544),
        (19, False, 143_667_240),
        (11, True, 132_868_840),
        (16, True, 138_365_992),
    ],
)
def test_vgg_has_the_parameters_of_torchvisions(num_layers: int, batch_norm: bool, published: int) -> None:
    net = vgg.get_net(relay.Any(), IMAGE, 1000, "float32", num_layers, batch_norm)
    assert sizes(net)[:2] == ("Tensor[(?, 1000), float32]", published)


@pytest.mark.parametrize(("version", "published"), [("1.0", 1_248_424), ("1.1", 1_235_496)])
def test_squeezenet_has_the_parameters_of_torchvisions(version: str, published: int) -> None:
    net = squeezenet.get_net(relay.Any(), IMAGE, 1000, version, "float32")
    assert sizes(net)[:2] == ("Tensor[(?, 1000), float32]", published)


@pytest.mark.parametrize(("layout", "shape"), [("NCHW", (relay.Any(), *IMAGE)), ("NHWC", (relay.Any(), 224, 224, 3))])
def test_mobilenet_has_the_parameters_of_keras(layout: str, shape: tuple[Any, ...]) -> None:
    net = mobilenet.mobile_net(data_shape=shape, layout=layout)
    assert sizes(net) == ("Tensor[(?, 1000), float32]", 4_231_976, 4_253_864)


def test_mobilenet_is_narrow_and_shallow_where_asked() -> None:
    # Keras again, for a width of one half; the shallow one lacks five blocks at 512 channels.
    assert sizes(mobilenet.mobile_net(alpha=0.5))[2] == 1_342_536
    assert sizes(mobilenet.mobile_net(is_shallow=True))[1] == 4_231_976 - 5 * (512 * (9 + 512 + 4))


def test_inception_v3_has_the_parameters_of_torchvisions_without_the_second_head() -> None:
    net = inception_v3.get_net(relay.Any(), 1000, (3, 299, 299), "float32")
    assert sizes(net)[:2] == ("Tensor[(?, 1000), float32]", 23_834_568)


# What Relay 0.14 typed; the paper's networks are larger.
@pytest.mark.parametrize(("size", "count"), [(121, 3_568_808), (161, 10_848_136), (169, 5_363_899), (201, 6_783_656)])
def test_densenet_has_relays_parameters(size: int, count: int) -> None:
    ty, _, total = sizes(densenet.get_net(size, batch_size=relay.Any()))
    assert (ty, total) == ("Tensor[(?, 1000), float32]", count)


@pytest.mark.parametrize(("layout", "shape"), [("NCHW", (4, 84, 84)), ("NHWC", (84, 84, 4))])
def test_dqn_has_the_parameters_of_the_paper(layout: str, shape: tuple[int, ...]) -> None:
    convolutions = (32 * 4 * 64 + 32) + (64 * 32 * 16 + 64) + (64 * 64 * 9 + 64)
    dense = (3136 * 512 + 512) + (512 * 18 + 18)
    net = dqn.get_net(relay.Any(), image_shape=shape, layout=layout)
    assert sizes(net)[:2] == ("Tensor[(?, 18), float32]", convolutions + dense)


@pytest.mark.parametrize(("layout", "result"), [("NCHW", "?, 3, 64, 64"), ("NHWC", "?, 64, 64, 3")])
def test_dcgan_has_the_parameters_of_pytorchs_example_but_for_the_first_normalisation(layout: str, result: str) -> None:
    net = dcgan.get_net(relay.Any(), ngf=64, layout=layout)
    assert sizes(net)[:2] == (f"Tensor[({result}), float32]", 3_576_704 - 2 * 512)


@pytest.mark.parametrize("batch", [2, relay.Any()])
def test_lstm_has_its_own_weights_in_each_step(batch: Any) -> None:
    ty, count, _ = sizes(lstm.get_net(3, 8, batch))
    assert (ty, count) == (f"Tensor[({batch}, 8), float32]", 3 * 2 * (4 * 8 * 8 + 4 * 8))


def test_parameters_take_the_element_type_of_the_input() -> None:
    for net in (mlp.get_net(2, dtype="float16"), resnet.get_net(1, 10, 8, (3, 8, 8), dtype="float16")):
        assert {p.checked_type.dtype for p in run_infer_type(net).params} == {"float16"}


def test_mlp_is_the_program_that_relay_built() -> None:
    text = """#[version = "0.0.5"]
    def @main(%data: Tensor[(1, 1, 28, 28), float32], %fc1_weight, %fc1_bias, %fc2_weight, %fc2_bias, %fc3_weight,
              %fc3_bias) {
      %0 = nn.batch_flatten(%data);
      %1 = nn.relu(nn.bias_add(nn.dense(%0, %fc1_weight, units=128), %fc1_bias, axis=-1));
      %2 = nn.relu(nn.bias_add(nn.dense(%1, %fc2_weight, units=64), %fc2_bias, axis=-1));
      nn.softmax(nn.bias_add(nn.dense(%2, %fc3_weight, units=10), %fc3_bias, axis=-1))
    }"""
    assert tvm_ffi.structural_equal(relay.parse(text)["main"], run_infer_type(mlp.get_net(1)))


def test_synthetic_is_the_program_that_relay_built() -> None:
    text = """#[version = "0.0.5"]
    def @main(%data: Tensor[(1, 3, 24, 12), float32], %dense_weight: Tensor[(12, 12), float32],
              %conv_weight: Tensor[(3, 3, 3, 3), float32], %bias, %batch_norm_gamma, %batch_norm_beta,
              %batch_norm_moving_mean, %batch_norm_moving_var, %dense2_weight: Tensor[(12, 12), float32],
              %conv2_weight: Tensor[(3, 3, 3, 3), float32]) {
      %0 = nn.relu(nn.dense(reshape(%data, newshape=[-1, 12]), %dense_weight, units=None));
      %1 = nn.softmax(nn.conv2d(%data, %conv_weight, padding=[1, 1, 1, 1], kernel_size=[3, 3]));
      %2 = nn.bias_add(add(reshape_like(%0, %data), %1), %bias);
      %3 = nn.batch_norm(%2, %batch_norm_gamma, %batch_norm_beta, %batch_norm_moving_mean, %batch_norm_moving_var);
      %4 = %3.0;
      %5 = nn.relu(nn.dense(reshape(%4, newshape=[-1, 12]), %dense2_weight, units=None));
      %6 = nn.softmax(nn.conv2d(%4, %conv2_weight, padding=[1, 1, 1, 1], kernel_size=[3, 3]));
      add(reshape_like(%5, %data), %6)
    }"""
    function = run_infer_type(synthetic.get_net())
    expected = relay.parse(text)["main"]
    assert [p.name_hint for p in function.params] == [p.name_hint for p in expected.params]
    assert tvm_ffi.structural_equal(expected, function)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resnet.get_net(1, 10, 19), "num_layers for pictures higher than 28 is one of [18, 34,"),
        (lambda: resnet.get_net(1, 10, 21, (3, 28, 28)), "is 6 n + 2, or 9 n + 2 from 164 on, not 21"),
        (lambda: resnet.get_net(1, 10, layout="NCWH"), "no kernel layout goes with the data layout 'NCWH'"),
        (lambda: vgg.get_net(1, IMAGE, 10, "float32", 12), "num_layers is one of [11, 13, 16, 19], not 12"),
        (lambda: squeezenet.get_net(1, IMAGE, 10, "1.2", "float32"), "version is one of ['1.0', '1.1'], not '1.2'"),
        (lambda: densenet.get_net(122), "densenet_size is one of [121, 161, 169, 201], not 122"),
        (lambda: dcgan.get_net(1, oshape=(3, 32, 32)), "the generator makes no images of 32 by 32"),
        (lambda: lstm.get_net(0, 4), "iterations is 0; a network has one step at least"),
    ],
)
def test_unknown_configurations_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert message in str(caught.value)
