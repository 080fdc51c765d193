"""At level 1, where kernels are shared by sizes and LLVM is given less time, programs give what they give by default.

Programs that Relay 0.14 ran, and networks for inputs of one size, each of which has kernels that level 1 makes
otherwise. A selection runs always, all of them nightly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests import golden
from tests.frontend.onnx.programs import assert_agrees, session
from tests.frontend.onnx.test_exported import SIZES, feed_of, model_of
from tests.frontend.onnx.test_models import light, packed, random, silero_feed
from tests.relay.test_golden_programs import REFUSED
from vmkit import relay

PROGRAMS = [each for each in golden.selected() if not each.error and each.name.rsplit("/", 1)[-1] not in REFUSED]
EVERY = 4  # programs of which one runs always
EXPORTED = ("bert_eager", "mobilenet_v3", "vit")
LIGHT = ("densenet121", "inception_v1", "resnet50", "shufflenet", "squeezenet")
QUICK = ("mobilenet_v3", "bert_eager", "squeezenet", "shufflenet")


@pytest.fixture(autouse=True)
def _level_one() -> Iterator[None]:
    with vmkit.PassContext(opt_level=1):
        yield


def nightly(names: Sequence[str]) -> list[Any]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in names]


def check(proto: onnx.ModelProto, feed: Mapping[str, Any]) -> None:
    """Compare a model that is compiled for the sizes of its inputs with onnxruntime."""
    executable = vmkit.compile(proto, shapes={name: list(np.shape(value)) for name, value in feed.items()})
    result = vmkit.VirtualMachine(executable, "cpu").run(**feed)
    outputs = result if executable.signature.result_is_tuple else [result]
    assert_agrees(
        [o.numpy() for o in outputs], session(proto).run(None, dict(feed)), [o.name for o in executable.outputs]
    )


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=[pytest.mark.nightly] * (at % EVERY > 0)) for at, p in enumerate(PROGRAMS)],
    ids=str,
)
def test_a_program_gives_what_relay_gave(program: golden.GoldenProgram) -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(relay.parse(program.text)), "cpu")
    program.assert_outputs(machine.run(*program.inputs))


def test_a_network_of_few_layers() -> None:
    with resources.as_file(resources.files("vmkit") / "data" / "mnist.onnx") as path:
        check(onnx.load(path), {"Input3": random(1, 1, 28, 28) * np.float32(100)})


def test_a_detector() -> None:
    check(onnx.load_from_string(packed("ultraface")), {"input": random(1, 3, 240, 320)})


def test_a_recurrent_network() -> None:
    check(onnx.load_from_string(packed("silero_op15")), silero_feed(2, 512))


@pytest.mark.parametrize("name", nightly(EXPORTED))
def test_an_exported_network(name: str) -> None:
    proto = model_of(name)
    check(proto, feed_of(proto, SIZES[name][0]))


@pytest.mark.parametrize("name", nightly(LIGHT))
def test_a_network_of_convolutions(name: str) -> None:
    proto = light(name)
    initializers = {i.name for i in proto.graph.initializer}
    (given,) = [i for i in proto.graph.input if i.name not in initializers]
    check(proto, {given.name: random(*(d.dim_value for d in given.type.tensor_type.shape.dim))})
