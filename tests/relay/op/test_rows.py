"""A row of fields gives the node of attributes, the builder with its signature, and the documentation of both."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
from tvm import te

import vmkit.optimize  # noqa: F401 - registers operators of its own
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op import REGISTRY
from vmkit.relay.op.attrs import ATTRS_CLASSES, Attrs, Int, Ints, Str, attrs_node, attrs_row, cleaned, field
from vmkit.relay.op.builder import Parameters, derived_builder
from vmkit.relay.op.fields import REQUIRED
from vmkit.relay.op.nn.convolution import ConvAttrs
from vmkit.relay.op.nn.pool_attrs import MaxPoolAttrs
from vmkit.relay.op.nn.window_fields import each_axis, each_side, in_order
from vmkit.relay.op.registry import OpPattern, WithLayout, operator
from vmkit.relay.transform.layout_rules import _RULES

# The parameters of builders whose defaults are those of Relay's Python functions, where the node of Relay 0.14 has
# another or none: a text that leaves the attribute out means the node's. Each stands in a row, beside the node's own.
RELAY_DIFFERS = {
    "arange": {"start"},
    "argsort": {"dtype"},
    "cumprod": {"dtype", "exclusive"},
    "cumsum": {"dtype", "exclusive"},
    "dyn.full": {"shape"},
    "dyn.image.resize2d": {"out_dtype", "rounding_method", "size"},
    "dyn.one_hot": {"axis", "depth", "dtype"},
    "dyn.ones": {"dtype", "shape"},
    "dyn.strided_slice": {"begin", "end", "strides"},
    "dyn.topk": {"dtype", "k"},
    "dyn.zeros": {"dtype", "shape"},
    "full": {"shape"},
    "gather": {"axis"},
    "image.crop_and_resize": {"crop_size", "out_dtype"},
    "image.resize1d": {"out_dtype", "rounding_method", "size"},
    "image.resize2d": {"out_dtype", "rounding_method", "size"},
    "image.resize3d": {"out_dtype", "rounding_method", "size"},
    "one_hot": {"axis", "depth", "dtype"},
    "ones": {"dtype", "shape"},
    "stft": {"hop_length", "n_fft", "win_length"},
    "strided_slice": {"begin", "end"},
    "topk": {"dtype", "k"},
    "zeros": {"dtype", "shape"},
    **{f"nn.{kind}_pool{rank}d": {"pool_size"} for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{rank}d": {"output_size"} for kind in ("max", "avg") for rank in (1, 2, 3)},
    "nn.max_pool2d_grad": {"pool_size"},
    "nn.avg_pool2d_grad": {"pool_size"},
    "nn.batch_matmul": {"transpose_b"},
    "nn.batch_to_space_nd": {"block_shape"},
    "nn.bitpack": {"bit_axis", "pack_type"},
    "nn.bitserial_conv2d": {"out_dtype", "pack_dtype"},
    "nn.bitserial_dense": {"out_dtype", "pack_dtype", "units"},
    "nn.contrib_conv2d_NCHWc": {"data_layout"},
    "nn.contrib_depthwise_conv2d_NCHWc": {"data_layout"},
    "nn.contrib_conv2d_winograd_without_weight_transform": {"tile_size"},
    "nn.contrib_conv3d_winograd_without_weight_transform": {"tile_size"},
    "nn.correlation": {"is_multiply", "kernel_size", "max_displacement", "padding", "stride1", "stride2"},
    "nn.depth_to_space": {"block_size"},
    "nn.dilate": {"strides"},
    "nn.leaky_relu": {"alpha"},
    "nn.nll_loss": {"ignore_index"},
    "nn.space_to_batch_nd": {"block_shape"},
    "nn.space_to_depth": {"block_size"},
    "dyn.nn.upsampling": {"scale_h", "scale_w"},
    "dyn.nn.upsampling3d": {"scale_d", "scale_h", "scale_w"},
    "nn.upsampling": {"scale_h", "scale_w"},
    "nn.upsampling3d": {"scale_d", "scale_h", "scale_w"},
    "image.affine_grid": {"target_shape"},
    "qnn.avg_pool2d": {"count_include_pad", "dilation", "layout", "padding", "strides"},
    "qnn.batch_matmul": {"out_dtype"},
    "qnn.concatenate": {"axis"},
    "qnn.conv2d": {"kernel_size", "out_dtype"},
    "qnn.conv2d_transpose": {"out_dtype"},
    "qnn.dense": {"out_dtype"},
    "qnn.dequantize": {"out_dtype"},
    "qnn.leaky_relu": {"alpha"},
    "qnn.quantize": {"out_dtype"},
    "qnn.requantize": {"out_dtype"},
    "random.contrib_normal": {"shape"},
    "random.contrib_uniform": {"shape"},
    "vision.get_valid_counts": {"score_threshold"},
}

# The same for builders that are written by hand, which have defaults of their own.
RELAY_DIFFERS_BY_HAND = {
    "broadcast_to": "shape",
    "collapse_sum_to": "shape",
    "dyn.broadcast_to": "shape",
}


@attrs_row
class SlideAttrs(Attrs):
    """What the nodes of this test have in common."""

    steps: Ints = each_axis(1, "Steps of the window.")
    padding: Ints = each_side(0)
    layout: Str = in_order("NC")


@attrs_node("test.attrs.Slide{rank}DAttrs", ranks=(1, 2))
class PlainSlideAttrs(SlideAttrs):
    """Attributes of test.slide{rank}d."""

    size: Ints = each_axis(script=3, first=True)
    count: Int = field(2, script=REQUIRED)


@pytest.fixture(scope="module")
def slides() -> Iterator[None]:
    """Register operators over one and two axes, for the tests of this file."""

    @operator(
        "test.slide{rank}d",
        "data",
        attrs=PlainSlideAttrs,
        level=10,
        pattern=OpPattern.INJECTIVE,
        parameters=Parameters("data count size steps padding layout"),
        mixed="follow",
    )
    class Slide:
        """Something that slides over {axes}.

        For a test.
        """

        @staticmethod
        def relation(attrs: PlainSlideAttrs, data: relay.Type) -> relay.Type:
            return data

        @staticmethod
        def compute(attrs: PlainSlideAttrs, data: te.Tensor) -> te.Tensor:
            return data

    yield
    del REGISTRY["test.slide1d"], REGISTRY["test.slide2d"]


def values(attrs: Any) -> dict[str, Any]:
    """Return the values of all attributes, as Python's."""
    given = {f.name: getattr(attrs, f.name) for f in attrs.declared}
    return {name: value if isinstance(value, int | str) else list(value) for name, value in given.items()}


def test_a_row_makes_a_node_for_each_rank() -> None:
    one, two = PlainSlideAttrs.over(1), PlainSlideAttrs.over(2)
    assert (one.type_key, one.__name__, one.rank) == ("test.attrs.Slide1DAttrs", "Slide1DAttrs", 1)
    assert ATTRS_CLASSES["test.attrs.Slide2DAttrs"] is two
    assert [f.name for f in two.declared] == ["size", "steps", "padding", "layout", "count"]
    made = two(size=[5, 5])
    assert values(made) == {"size": [5, 5], "steps": [1, 1], "padding": [0, 0], "layout": "NCHW", "count": 2}
    assert isinstance(made, PlainSlideAttrs) and not isinstance(made, one)
    with pytest.raises(TypeCheckError, match=r"test\.attrs\.Slide1DAttrs needs a value for 'size'"):
        one()
    assert "ize : int or sequence of int" in two.__doc__.replace("\n", " ")
    assert "steps : int or sequence of int, default (1, 1)\n    Steps of the window." in two.__doc__
    assert two.__doc__.startswith("Attributes of test.slide2d.\n")


def test_a_row_makes_builders_with_signature_and_documentation(slides: None) -> None:
    builder = REGISTRY["test.slide2d"].builder
    assert str(inspect.signature(builder)) == (
        "(data, count, size=(3, 3), steps=(1, 1), padding=(0, 0), layout='NCHW')"
    )
    assert str(inspect.signature(REGISTRY["test.slide1d"].builder)) == (
        "(data, count, size=(3,), steps=(1,), padding=(0,), layout='NCW')"
    )
    assert builder.__doc__ == (
        "Something that slides over two spatial axes.\n\nFor a test.\n\nParameters\n----------\ndata : Expr\n"
        "count : int\n"
        "size : int or sequence of int, default (3, 3)\n"
        "steps : int or sequence of int, default (1, 1)\n    Steps of the window.\n"
        "padding : int or sequence of int, default (0, 0)\nlayout : str, default 'NCHW'"
    )
    assert REGISTRY["test.slide2d"].mixed == "follow"


def test_one_number_spreads_over_axes_and_sides(slides: None) -> None:
    x = relay.var("x", shape=(1, 2, 3, 4))
    call = REGISTRY["test.slide2d"].builder(x, 7, steps=2, padding=1)
    assert values(call.attrs) == {
        "size": [3, 3],
        "steps": [2, 2],
        "padding": [1, 1, 1, 1],
        "layout": "NCHW",
        "count": 7,
    }
    padded = REGISTRY["test.slide2d"].builder(x, 7, (1, 2), padding=(1, 2))
    assert values(padded.attrs)["padding"] == [1, 2, 1, 2] and values(padded.attrs)["size"] == [1, 2]
    with pytest.raises(TypeCheckError, match=r"test\.slide2d\(data, count, .*\): missing a required argument: 'count'"):
        REGISTRY["test.slide2d"].builder(x)


def test_parameters_rename_fix_and_keep() -> None:
    how = Parameters(
        "data order size padding",
        renamed={"order": "layout"},
        given={"order": "NHWC"},
        fixed={"count": 9},
        kept=("padding",),
    )
    builder = derived_builder("nn.relu", ("data",), PlainSlideAttrs.over(2), "A test.", how, value=lambda call: call)
    assert str(inspect.signature(builder)) == "(data, order='NHWC', size=(3, 3), padding=(0, 0))"
    made = builder(relay.var("x", shape=(2,)), padding=1)
    assert values(made.attrs) == {
        "size": [3, 3],
        "steps": [1, 1],
        "padding": [1],
        "layout": "NHWC",
        "count": 9,
    }
    x = relay.var("x", shape=(2,))
    named = derived_builder(
        "nn.relu", ("data",), PlainSlideAttrs.over(2), "A test.", Parameters("of count size", renamed={"of": "data"})
    )
    assert str(inspect.signature(named)) == "(of, count, size=(3, 3))"
    assert named(count=7, of=x).args[0].same_as(x)
    with pytest.raises(ValueError, match="a builder has the parameters sizes, which are neither inputs nor attributes"):
        derived_builder("nn.relu", ("data",), PlainSlideAttrs.over(2), "", Parameters("data sizes"))


def test_names_of_what_is_known_are_checked() -> None:
    with pytest.raises(ValueError, match="operator test: 'sometimes' is none of always, follow, never"):
        operator("test", level=1, mixed="sometimes")  # type: ignore[arg-type]


def test_entries_say_what_passes_know() -> None:
    known = {name: (made.mixed, made.layout, made.by_place, made.moves) for name, made in REGISTRY.items()}
    assert known["nn.conv3d"] == ("always", "own", False, False)
    assert known["nn.softmax"] == ("never", "axis", False, False)
    assert known["nn.avg_pool1d"] == ("follow", "layout", False, False)
    assert known["transpose"] == ("follow", "transpose", False, True)
    assert known["trilu"] == (None, None, True, False)


def test_every_way_with_a_held_layout_has_a_rule() -> None:
    assert set(_RULES) == set(get_args(WithLayout))
    assert {made.layout for made in REGISTRY.values()} - {None} == set(_RULES)


def test_an_operator_takes_a_node_and_no_row() -> None:
    class Slide:
        """Something."""

    with pytest.raises(
        ValueError, match=r"operator test: PlainSlideAttrs is a row; take a node, such as its over\(2\)"
    ):
        operator("test", "data", attrs=PlainSlideAttrs, level=1)(Slide)
    with pytest.raises(ValueError, match="needs attributes for several numbers of spatial axes"):
        operator("test{rank}", "data", attrs=PlainSlideAttrs.over(1), level=1)(Slide)


def differing(name: str) -> set[str]:
    """Return the parameters of an operator's builder whose default is not that of the attribute of their name."""
    made = REGISTRY[name]
    fields = {f.name: f for f in (made.attrs.declared if made.attrs is not None else ())}
    found = set()
    for parameter in inspect.signature(made.builder).parameters.values():
        said = fields.get(parameter.name)
        if said is not None and parameter.default != (inspect.Parameter.empty if said.is_required else said.default):
            found.add(parameter.name)
    return found


@pytest.mark.parametrize(
    "doc",
    [
        "",
        "One line.",
        "A line.\n\n    Another, and\n        one further in.\n    ",
        "A line.\n\n    Another at the quotes.",
        "\n    Begins below.\n    ",
    ],
)
def test_documentation_is_cleaned_as_python_does_it(doc: str) -> None:
    assert cleaned(doc) == inspect.cleandoc(doc)


def test_builders_are_made_once_and_when_the_first_asks() -> None:
    made: list[str] = []
    entry = replace(REGISTRY["exp"], make_builder=lambda: made.append("exp") or relay.exp)
    before = list(made)
    assert (before, entry.builder, entry.builder, made) == ([], relay.exp, relay.exp, ["exp"])


def is_derived(name: str) -> bool:
    """Say whether the builder of an operator follows from its row."""
    return hasattr(REGISTRY[name].builder, "derived")


@pytest.mark.parametrize("name", [*filter(is_derived, REGISTRY)])
def test_defaults_of_builders_are_those_of_attributes_but_where_relay_had_two(name: str) -> None:
    assert differing(name) == RELAY_DIFFERS.get(name, set())


def test_defaults_of_builders_written_by_hand_are_those_of_attributes_but_where_relay_had_two() -> None:
    by_hand = {name: differing(name) for name in REGISTRY if not is_derived(name)}
    more = {name: found - set(RELAY_DIFFERS_BY_HAND.get(name, "").split()) for name, found in by_hand.items()}
    assert {name: found for name, found in more.items() if found} == {}


def test_where_relay_had_two_defaults_the_row_says_both() -> None:
    said = {f.name: (f.default, f.script) for f in MaxPoolAttrs.over(2).declared}
    assert said["pool_size"] == (REQUIRED, (1, 1)) and said["strides"] == ((1, 1), (1, 1))
    assert all(f.default == f.script for f in ConvAttrs.over(3).declared)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((), {}, "missing a required argument: 'data'"),
        ((1,), {"data": 1}, "multiple values for argument 'data'"),
        ((1,), {"axs": 0}, "got an unexpected keyword argument 'axs'"),
        ((), {"axis": 0, "date": 1}, "missing a required argument: 'data'"),
        ((1, 0, 1, 2), {}, "too many positional arguments"),
    ],
)
def test_arguments_that_do_not_fit_a_builder(
    arguments: tuple[object, ...], named: dict[str, object], said: str
) -> None:
    with pytest.raises(TypeCheckError, match=said):
        relay.squeeze(*arguments, **named)


def test_arguments_of_a_builder_by_place_and_by_name() -> None:
    x = relay.var("x", shape=(1, 2, 1))
    for made in (relay.squeeze(x, [0]), relay.squeeze(data=x, axis=[0]), relay.squeeze(x, axis=[0])):
        assert made.op.name == "squeeze" and list(made.attrs.axis) == [0] and made.args[0].same_as(x)
    assert relay.squeeze(x).attrs.axis is None
