"""Programs that are written by simpler operators node by node compute what PyTorch does; others are left to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, machine_of, tensor, torch
from vmkit.frontend.torch.decompositions import decompositions
from vmkit.frontend.torch.operators import CONVERTERS
from vmkit.frontend.torch.simpler_nodes import with_simpler_nodes
from vmkit.frontend.torch.simpler_rules import RULES

nn, functional = torch.nn, torch.nn.functional
aten = torch.ops.aten
X = (2, 8, 6, 5)
OTHERS = ((1, 8, 7, 6), (3, 8, 4, 11))


def program_of(
    function: Callable[..., Any], *shapes: tuple[int, ...], axes: tuple[int, ...] = (0, 2, 3), **layers: Any
) -> Any:
    given = tuple(tensor(*shape) for shape in shapes)
    dynamic = tuple(dict.fromkeys((a for a in axes if a < len(shape)), AUTO) for shape in shapes)
    return torch.export.export(Of(function, **layers).eval(), given, dynamic_shapes=(dynamic,))


def simpler(program: Any) -> Any:
    return with_simpler_nodes(program, decompositions(CONVERTERS), CONVERTERS)


def norm() -> Any:
    made = nn.BatchNorm2d(8)
    for value in (made.weight, made.bias, made.running_mean, made.running_var):
        value.data = tensor(8).abs() + 0.1
    return made


def layer_norm() -> Any:
    made = nn.LayerNorm(8)
    made.weight.data, made.bias.data = tensor(8), tensor(8) * 2
    return made


def group_norm() -> Any:
    made = nn.GroupNorm(2, 8)
    made.weight.data, made.bias.data = tensor(8), tensor(8) * 2
    return made


def last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def attention(x: Any, mask: Any = None, **ways: Any) -> Any:
    heads = last(x)
    return functional.scaled_dot_product_attention(heads, heads * 0.5, heads + 1, mask, **ways)


def joined(*parts: Any) -> Any:
    return torch.cat(parts[::-1], 1)


CASES: dict[str, list[tuple[Callable[..., Any], dict[str, Any]]]] = {
    "conv1d.default": [(lambda x, c: c(torch.mean(x, 3)), {"c": nn.Conv1d(8, 6, 3, stride=2, padding=1, groups=2)})],
    "conv2d.default": [
        (lambda x, c: c(x), {"c": nn.Conv2d(8, 6, (3, 1), stride=(1, 2), padding=(2, 1), dilation=(2, 1))}),
        (lambda x, c: c(x), {"c": nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)}),
    ],
    "conv3d.default": [(lambda x, c: c(torch.unsqueeze(x, 1)), {"c": nn.Conv3d(1, 3, (3, 2, 1), padding=1)})],
    "batch_norm.default": [(lambda x, n: n(x), {"n": norm()})],
    "layer_norm.default": [(lambda x, n: n(last(x)), {"n": layer_norm()})],
    "linear.default": [
        (lambda x, a, b: b(functional.relu(a(last(x)))), {"a": nn.Linear(8, 9), "b": nn.Linear(9, 3, bias=False)}),
        (lambda x, one: one(torch.mean(x, (2, 3))), {"one": nn.Linear(8, 12)}),
    ],
    "sym_size.int": [(lambda x: torch.reshape(x, (x.shape[0], x.shape[2] * x.shape[3] * 8)), {})],
    "chunk.default": [(lambda x: joined(*torch.chunk(x, 2, 1)), {})],
    "split.Tensor": [(lambda x: joined(*torch.split(x, 3, 1)), {})],
    "contiguous.default": [(lambda x: last(x).contiguous() + 1, {})],
    "detach.default": [(lambda x: aten.detach.default(x) * 2, {})],
    "dropout.default": [(lambda x, d: d(x) * 2, {"d": nn.Dropout(0.5)}), (lambda x, d: d(x), {"d": nn.Dropout(0.5)})],
    "feature_dropout.default": [(lambda x, d: d(x) * 2, {"d": nn.Dropout2d(0.5)})],
    "flatten.using_ints": [(lambda x: torch.flatten(x, 2), {}), (lambda x: torch.flatten(x, 0, 1), {})],
    "reshape.default": [(lambda x: torch.reshape(x, (x.shape[0], 2, 4, -1)), {})],
    "squeeze.dim": [(lambda x: torch.squeeze(torch.mean(x, 2, keepdim=True), 2), {})],
    "unflatten.int": [(lambda x: torch.unflatten(x, 1, (2, 4)), {})],
    "hardtanh.default": [(lambda x: functional.hardtanh(x, -0.25, 0.5), {}), (lambda x: functional.hardtanh(x), {})],
    "relu6.default": [(lambda x: aten.relu6.default(x * 9), {})],
    "adaptive_avg_pool2d.default": [
        (lambda x: functional.adaptive_avg_pool2d(x, 1), {}),
        (lambda x: functional.adaptive_avg_pool2d(x, (2, 3)), {}),
    ],
    "max_pool2d.default": [
        (lambda x: functional.max_pool2d(x, 3, 2, 1), {}),
        (lambda x: functional.max_pool2d(x, 2), {}),
    ],
    "log_softmax.int": [(lambda x: functional.log_softmax(x, 1), {})],
    "softmax.int": [(lambda x: functional.softmax(x, -1), {})],
    "transpose.int": [(lambda x: torch.transpose(x, 1, -1), {})],
    "__and__.Tensor": [(lambda x: torch.where((x > -0.5) & (x < 0.5), x, x * 2), {})],
    "__or__.Tensor": [(lambda x: torch.where((x < -0.5) | (x > 0.5), x, x * 2), {})],
    "adaptive_avg_pool1d.default": [(lambda x: functional.adaptive_avg_pool1d(torch.mean(x, 3), 1), {})],
    "addcmul.default": [(lambda x: torch.addcmul(x, torch.mean(x, 1, keepdim=True), x), {})],
    "arange.default": [
        (lambda x: x + torch.arange(x.shape[3]), {}),
        (lambda x: x + torch.arange(x.shape[3], dtype=torch.float32), {}),
    ],
    "arange.start": [(lambda x: x + torch.arange(-1, x.shape[3] - 1), {})],
    "clamp_min.default": [(lambda x: torch.clamp_min(x, 0.25), {})],
    "expand_as.default": [(lambda x: torch.mean(x, 1, keepdim=True).expand_as(x) - x, {})],
    "group_norm.default": [
        (lambda x, n: n(x), {"n": group_norm()}),
        (lambda x: functional.group_norm(x, 4), {}),
    ],
    "masked_fill.Scalar": [
        (lambda x: x.masked_fill(torch.mean(x, 1, keepdim=True) > 0, -2), {}),
        (lambda x: torch.softmax(x.masked_fill(x > 0.5, -math.inf), 1), {}),
    ],
    "max.other": [(lambda x: torch.max(x, x * x), {})],
    "min.other": [(lambda x: torch.min(x, torch.mean(x, 1, keepdim=True)), {})],
    "new_full.default": [(lambda x: x * x.new_full((x.shape[2], 1), 2.5), {})],
    "new_ones.default": [(lambda x: x + x.new_ones((x.shape[2], 1)), {})],
    "new_zeros.default": [(lambda x: x + x.new_zeros((x.shape[2], 1), dtype=torch.float64), {})],
    "numpy_T.default": [(lambda x: torch.mean(x, (2, 3)).T, {})],
    "ones.default": [(lambda x: x + torch.ones(x.shape[2], 1), {})],
    "ones_like.default": [
        (lambda x: torch.ones_like(x) - x, {}),
        (lambda x: torch.ones_like(x, dtype=torch.int64), {}),
    ],
    "pad.default": [
        (lambda x: functional.pad(x, (1, 2, 0, 1)), {}),
        (lambda x: functional.pad(x, (1, 0), value=-1.5), {}),
    ],
    "reshape_as.default": [(lambda x: torch.flatten(x, 1).reshape_as(x) + x, {})],
    "roll.default": [(lambda x: torch.roll(torch.reshape(x, (x.shape[0], 2, 4, -1)), (1, -3), (1, 2)), {})],
    "rsub.Scalar": [(lambda x: 1.5 - x, {})],
    "stack.default": [(lambda x: torch.stack((x, x * 2), -1), {})],
    "to.device": [(lambda x: torch.arange(x.shape[3]).to(x) + x, {})],
    "to.dtype": [(lambda x: x.to(torch.float64) * 2, {}), (lambda x: (x * 9).to(torch.int32), {})],
    "to.dtype_layout": [(lambda x: aten.to.dtype_layout(x, dtype=torch.float64, layout=torch.strided) * 2, {})],
    "to.other": [(lambda x: aten.to.other(torch.arange(x.shape[3]), x) + x, {})],
    "type_as.default": [(lambda x: torch.arange(x.shape[3]).type_as(x) + x, {})],
    "unbind.int": [(lambda x: joined(*torch.unbind(torch.reshape(x, (x.shape[0], 4, 2, -1)), 2)), {})],
    "view_as.default": [(lambda x: torch.flatten(x, 1).view_as(x) + x, {})],
    "zeros.default": [(lambda x: x + torch.zeros(x.shape[2], 1), {})],
    "zeros_like.default": [(lambda x: torch.zeros_like(x) - x, {})],
    "scaled_dot_product_attention.default": [
        (attention, {}),
        (lambda x: attention(x, is_causal=True, scale=0.3), {}),
        (lambda x: attention(x, torch.mean(last(x), -1, keepdim=True) > 0), {}),
        (lambda x: attention(x, torch.mean(last(x), -1, keepdim=True)), {}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, cases in CASES.items() for at in range(len(cases))])
def test_each_operator_gives_what_pytorchs_gives(name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function, layers = CASES[name][at]
    program = program_of(function, X, **layers)
    assert name in {getattr(node.target, "__name__", "") for node in program.graph.nodes}
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    agree_at(Of(function, **layers).eval(), [(tensor(*shape),) for shape in (X, *OTHERS)], program=program)


def test_every_operator_has_a_test() -> None:
    assert set(CASES) == set(RULES)


def changed_and_read(x: Any) -> Any:
    y = x * 2
    z = y + 1
    functional.relu_(y)
    return y.add_(z), z


def changed_last(x: Any) -> Any:
    y = torch.flatten(x * 2, 1)
    y.mul_(3)
    return functional.hardtanh_(y, -1, 2) + y


@pytest.mark.parametrize("function", [changed_and_read, changed_last])
def test_what_is_changed_in_place_is_read_as_it_has_become(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(function, X)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    agree_at(function, [(tensor(*shape),) for shape in (X, *OTHERS)], program=program)


def read_by_another_name(x: Any) -> Any:
    y = x * 2
    view = torch.flatten(y, 1)
    y.add_(1)
    return view * 3


def changed_by_another_name(x: Any) -> Any:
    y = x * 2
    torch.flatten(y, 1).add_(1)
    return y


def changed_part(x: Any) -> Any:
    y = x * 2
    first, _ = torch.split(y, 4, 1)
    first.add_(1)
    return y


def of_two_types(x: Any) -> Any:
    return (x * 2).add_(torch.arange(5, device="cpu")[: x.shape[3]].sum())


LEFT: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "a view that is read": (read_by_another_name, {}),
    "a view that is changed": (changed_by_another_name, {}),
    "a part that is changed": (changed_part, {}),
    "a type that stays": (of_two_types, {}),
    "a size that is multiplied with": (lambda x: (x * 2).mul_(x.shape[2]), {}),
    "an operator without a rule": (lambda x: torch.cumsum(functional.logsigmoid(x), 1), {}),
    "statistics of the batch": (lambda x, n: n(x), {"n": nn.InstanceNorm2d(8)}),
    "padding by name": (lambda x, c: c(x), {"c": nn.Conv2d(8, 8, 3, padding="same")}),
    "what is a view of PyTorch's alone": (lambda x: x.mT + 1, {}),
    "branches": (lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)), {}),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_known_is_left_to_pytorch(name: str) -> None:
    function, layers = LEFT[name]
    program = program_of(function, X, axes=(0, 2), **layers)
    assert simpler(program) is None
    given = [(tensor(*shape),) for shape in (X, (3, 8, 4, 5))]
    agree_at(Of(function, **layers).eval(), given, program=program)


def test_results_keep_their_order_and_numbers_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any, c: Any) -> Any:
        return x.shape[2] * 2, c(x), torch.dropout(x, 0.5, False), x.shape[2]

    program = program_of(function, X, c=nn.Conv2d(8, 6, 1))
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    machine = machine_of(program)
    for shape in (X, *OTHERS):
        double, made, same, size = machine.run(tensor(*shape).numpy())
        assert (int(double.numpy()), int(size.numpy())) == (2 * shape[2], shape[2])
        np.testing.assert_array_equal(same.numpy(), tensor(*shape).numpy())
        assert made.numpy().shape == (shape[0], 6, *shape[2:])


def test_a_program_stays_as_it_is_and_no_input_is_changed() -> None:
    program = program_of(changed_and_read, X)
    before = str(program)
    made = simpler(program)
    assert made is not None and made.graph is not program.graph and str(program) == before
    assert not any(node.target._schema.is_mutable for node in made.graph.nodes if hasattr(node.target, "_schema"))
    assert simpler(program_of(lambda x: x.add_(1), X)) is None


def without_gradients(x: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        z = functional.relu(y) + x
        z.mul_(3)
        total, least = torch.mean(z, 1), torch.min(z, y)
    return total + torch.mean(y, 1), least.add_(y)


def in_float32(x: Any) -> Any:
    with torch.autocast("cpu", enabled=False):
        y = torch.mean(x, 1, keepdim=True) + x
        with torch.no_grad():
            y = y * x
    return y - x


@pytest.mark.parametrize("function", [without_gradients, in_float32])
def test_blocks_are_written_in_their_place(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(function, X)
    assert any("wrap_with" in str(node.target) for node in program.graph.nodes)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    agree_at(function, [(tensor(*shape),) for shape in (X, *OTHERS)], program=program)


def autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.matmul(x, x.transpose(2, 3)).float()


@pytest.mark.parametrize(
    "function", [autocast, lambda x: torch.roll(x, 1, 2), lambda x: torch.addcmul(x, x, x, value=2)]
)
def test_what_has_no_rule_is_left_to_pytorch(function: Callable[..., Any]) -> None:
    assert simpler(program_of(function, X)) is None


def written_within(x: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        y.add_(1)
    return y * 3


def test_what_a_block_writes_in_place_is_left_to_pytorch() -> None:
    assert simpler(program_of(written_within, X)) is None
    agree_at(written_within, [(tensor(*shape),) for shape in (X, *OTHERS)])
