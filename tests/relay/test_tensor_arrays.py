"""Tensor arrays give what lists of numpy arrays give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import InputError, ModelError, TypeCheckError, VMKitError
from vmkit.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps, get_tensor_array_shape
from vmkit.relay.prelude.by_name import define_by_name
from vmkit.values.conversion import ADT

ANY = relay.Any()
INT, VECTOR = relay.scalar_type("int32"), relay.TensorType([ANY], "int32")


def compiled(prelude: Prelude, params: list[relay.Var], results: Sequence[Any]) -> Callable[..., list[Any]]:
    """Return a Python function that computes all results; tensor arrays come as lists, and empty places as None."""
    prelude.mod["main"] = relay.Function(params, relay.Tuple(list(results)))
    machine = vmkit.VirtualMachine(vmkit.compile(prelude.mod, target="llvm"), vmkit.device("cpu"))
    _, cons, nil = prelude.get_type("List")

    def as_python(value: Any) -> Any:
        if not isinstance(value, ADT):
            return value.numpy()
        if value.tag not in (cons.tag, nil.tag):
            return value[0].numpy() if len(value) else None
        items = []
        while len(value):
            items.append(as_python(value[0]))
            value = value[1]
        return items

    return lambda *inputs: [as_python(value) for value in machine.run(*inputs)]


def assert_same(found: Any, expected: Any) -> None:
    """Assert that arrays, or lists of arrays and None, are the same in shape, data type and value."""
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            assert_same(f, e)
    elif expected is None:
        assert found is None
    else:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(found, expected)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_tensors_of_any_shape_are_unstacked_stacked_and_joined(dtype: str) -> None:
    p, ranks = Prelude(), (1, 3, 6)
    index = relay.var("index", VECTOR)
    tensors = [relay.var(f"tensor{rank}", relay.TensorType([ANY] * rank, dtype)) for rank in ranks]
    results = []
    for rank, tensor in zip(ranks, tensors, strict=True):
        array = p.get_global_var(f"tensor_array_unstack_tensor{rank}", dtype)(tensor)
        results += [array, p.get_global_var("tensor_array_stack", dtype)(array)]
        results.append(p.get_global_var("tensor_array_gather", dtype)(array, index))
        if rank > 1:
            results.append(p.get_global_var("tensor_array_concat", dtype)(array))
    run = compiled(p, [index, *tensors], results)
    for shape in ((1, 2, 1, 3, 2, 1), (3, 1, 2, 2, 1, 2)):
        values = [numbers(*shape[:rank], dtype=dtype) for rank in ranks]
        chosen = np.array([shape[0] - 1, 0, 0], "int32")
        expected: list[Any] = []
        for value in values:
            parts = [np.asarray(part) for part in value]
            expected += [parts, value, value[chosen], *([np.concatenate(parts)] if value.ndim > 1 else [])]
        assert_same(run(chosen, *values), expected)


def test_places_of_arrays_are_empty_read_and_written() -> None:
    p = Prelude()
    v, w = (relay.var(name, relay.scalar_type("float32")) for name in "vw")
    n, at = relay.var("n", INT), relay.var("at", INT)
    wide = relay.var("wide", shape=(ANY, 2))
    tensor0, tensor2 = p.get_tensor_ctor("tensor0", "float32"), p.get_ctor("tensor_float32_t", "tensor2", "float32")
    write, read = p.get_global_var("tensor_array_write", "float32"), p.get_var("tensor_array_read", "float32")
    empty = p.get_global_var("tensor_array", "float32")(n)
    written = write(write(empty, at, tensor0(v)), relay.const(0), tensor2(wide))
    run = compiled(p, [v, w, n, at, wide], [empty, written, read(written, at), write(written, at, tensor0(w))])
    five, six, wide_value = np.float32(5), np.float32(6), numbers(3, 2)
    for size, place in ((2, 1), (4, 3)):
        between = [None] * (place - 1)
        expected = [
            [None] * size,
            [wide_value, *between, np.asarray(five)],
            np.asarray(five),
            [wide_value, *between, np.asarray(six)],
        ]
        assert_same(run(five, six, np.int32(size), np.int32(place), wide_value), expected)


def test_arrays_of_any_shape_are_scattered_and_split() -> None:
    p = Prelude()
    tensor, replaced = relay.var("tensor", shape=(ANY, ANY)), relay.var("replaced", shape=(ANY, ANY))
    index, lengths = relay.var("index", VECTOR), relay.var("lengths", VECTOR)
    unstack = p.get_global_var("tensor_array_unstack_tensor2", "float32")
    scatter = p.get_global_var("tensor_array_scatter", "float32")
    split = p.get_global_var("tensor_array_split", "float32")
    empty = p.get_global_var("tensor_array", "float32")(relay.take(relay.shape_of(lengths), relay.const(0)))
    tensor2 = p.get_tensor_ctor("tensor2", "float32")
    results = [scatter(unstack(tensor), index, unstack(replaced)), split(empty, tensor2(tensor), lengths)]
    run = compiled(p, [tensor, replaced, index, lengths], results)
    value = numbers(5, 3)
    for places, parts in (([4, 0], [2, 3]), ([], [5]), ([1, 2, 1], [1, 0, 4])):
        other = -1 - numbers(len(places), 3)
        scattered = value.copy()
        scattered[places] = other
        expected = [list(scattered), np.split(value, np.cumsum(parts)[:-1])]
        assert_same(run(value, other, np.array(places, "int32"), np.array(parts, "int32")), expected)


def test_ranges_and_joins_work_at_every_rank() -> None:
    p, ranks = Prelude(), range(1, 7)
    lower, upper = relay.var("lower", INT), relay.var("upper", INT)
    take, joined, expanded = (
        p.get_global_var(name, "int32") for name in ("tensor_take", "tensor_concatenate", "tensor_expand_dims")
    )
    tensors = [relay.var(f"{name}{rank}", relay.TensorType([ANY] * rank, "int32")) for rank in ranks for name in "xy"]
    results = []
    for rank, x, y in zip(ranks, tensors[::2], tensors[1::2], strict=True):
        wrap = p.get_tensor_ctor(f"tensor{rank}", "int32")
        results += [take(wrap(x), lower, upper), joined(wrap(x), wrap(y))]
        results += [expanded(wrap(x))] if rank < 6 else []
    run = compiled(p, [lower, upper, *tensors], results)
    inputs, expected = [], []
    for rank in ranks:
        shape = (2, 1, 3, 1, 2)[: rank - 1]
        left, right = numbers(4, *shape, dtype="int32"), numbers(2, *shape, dtype="int32")
        inputs += [left, right]
        expected += [left[1:3], np.concatenate([left, right]), *([left[None]] if rank < 6 else [])]
    assert_same(run(np.int32(1), np.int32(3), *inputs), expected)


def test_joining_tensors_of_different_ranks_is_a_runtime_error() -> None:
    p = Prelude()
    x, y = relay.var("x", shape=(ANY,)), relay.var("y", shape=(ANY, ANY))
    wrapped = [p.get_tensor_ctor("tensor1", "float32")(x), p.get_tensor_ctor("tensor2", "float32")(y)]
    run = compiled(p, [x, y], [p.get_global_var("tensor_concatenate", "float32")(*wrapped)])
    with pytest.raises(VMKitError, match="match"):
        run(numbers(2), numbers(2, 2))


SHAPES: list[tuple[Any, ...]] = [(3,), (2, 3), (ANY, 3), (ANY, 2, ANY)]


def shape_text(shape: tuple[Any, ...]) -> str:
    return "x".join(str(d) for d in shape) or "scalar"


@pytest.mark.parametrize("shape", SHAPES, ids=shape_text)
def test_arrays_of_one_shape_are_unstacked_stacked_gathered_and_joined(shape: tuple[Any, ...]) -> None:
    p = Prelude()
    tensor, index = relay.var("tensor", shape=(4, *shape)), relay.var("index", VECTOR)
    arrays = StaticTensorArrayOps(p, "float32", shape)
    array = p.get_global_var_static("tensor_array_unstack", "float32", (4, *shape))(tensor)
    data = StaticTensorArrayOps(p, "float32", (ANY, *shape)).get_global_var("tensor_get_data")
    read = arrays.get_global_var("tensor_array_read")(array, relay.const(2))
    results = [
        array,
        data(arrays.get_global_var("tensor_array_stack")(array)),
        data(arrays.get_global_var("tensor_array_gather")(array, index)),
        arrays.get_global_var("tensor_get_data")(read),
        arrays.get_global_var("tensor_expand_dims")(read),
    ]
    run = compiled(p, [tensor, index], results)
    value = numbers(4, *(d if isinstance(d, int) else 2 for d in shape))
    chosen = np.array([3, 0, 3], "int32")
    assert_same(run(value, chosen), [list(value), value, value[chosen], value[2], value[2][None]])


def test_arrays_of_scalars_are_written_stacked_and_scattered() -> None:
    p = Prelude()
    tensor, index, more = relay.var("tensor", shape=(ANY,)), relay.var("index", VECTOR), relay.var("more", shape=(ANY,))
    arrays = StaticTensorArrayOps(p, "float32", ())
    unstack = p.get_global_var_static("tensor_array_unstack", "float32", (ANY,))
    written = arrays.get_global_var("tensor_array_write")(
        arrays.get_global_var("tensor_array")(relay.const(2)),
        relay.const(1),
        arrays.get_ctor("tensor_constructor")(relay.const(8.0)),
    )
    results = [
        arrays.get_global_var("tensor_array_stack")(unstack(tensor)),
        arrays.get_global_var("tensor_array_scatter")(unstack(tensor), index, unstack(more)),
        written,
    ]
    run = compiled(p, [tensor, index, more], results)
    value, other = numbers(4), np.array([-1, -2], "float32")
    scattered = value.copy()
    scattered[[2, 0]] = other
    expected = [value, [np.asarray(x) for x in scattered], [None, np.asarray(np.float32(8))]]
    assert_same(run(value, np.array([2, 0], "int32"), other), expected)


def test_arrays_of_one_shape_are_split_ranged_and_joined() -> None:
    p = Prelude()
    value, lengths = relay.var("value", shape=(5, 3)), relay.var("lengths", VECTOR)
    arrays, parts = StaticTensorArrayOps(p, "float32", (5, 3)), StaticTensorArrayOps(p, "float32", (ANY, 3))
    wrapped = arrays.get_ctor("tensor_constructor")(value)
    empty = parts.get_global_var("tensor_array")(relay.take(relay.shape_of(lengths), relay.const(0)))
    split = arrays.get_global_var("tensor_array_split")(empty, wrapped, lengths)
    results = [
        split,
        arrays.get_global_var("tensor_take")(wrapped, relay.const(1), relay.const(4)),
        arrays.get_global_var("tensor_concatenate")(wrapped, wrapped),
        parts.get_global_var("tensor_array_concat")(split),
    ]
    run = compiled(p, [value, lengths], results)
    x = numbers(5, 3)
    for sizes in ([2, 3], [1, 0, 4]):
        expected = [np.split(x, np.cumsum(sizes)[:-1]), x[1:4], np.concatenate([x, x]), x]
        assert_same(run(x, np.array(sizes, "int32")), expected)


def test_shapes_of_indices_values_and_lengths_may_be_told() -> None:
    p = Prelude()
    arrays, parts = StaticTensorArrayOps(p, "float32", (3,)), StaticTensorArrayOps(p, "float32", (ANY, 3))
    tensor, other = relay.var("tensor", shape=(4, 3)), relay.var("other", shape=(2, 3))
    index, lengths = relay.var("index", shape=(2,), dtype="int32"), relay.var("lengths", shape=(2,), dtype="int32")
    arrays.define_tensor_array_scatter((2,))
    scatter = p.get_global_var(arrays.get_name("tensor_array_scatter", {"indices": (2,)}))
    assert scatter.name_hint == "tensor_array_scatter_float32_3_indices_2"
    parts.get_global_var("tensor_array_split")
    parts.define_tensor_array_split((4, 3), (2,), force_update=True)
    unstack = {n: p.get_global_var_static("tensor_array_unstack", "float32", (n, 3)) for n in (2, 4)}
    wrapped = p.get_tensor_ctor_static("tensor_constructor", "float32", (4, 3))(tensor)
    results = [
        scatter(unstack[4](tensor), index, unstack[2](other)),
        parts.get_global_var("tensor_array_split")(
            parts.get_global_var("tensor_array")(relay.const(2)), wrapped, lengths
        ),
    ]
    run = compiled(p, [tensor, other, index, lengths], results)
    x, y = numbers(4, 3), -1 - numbers(2, 3)
    scattered = x.copy()
    scattered[[3, 1]] = y
    found = run(x, y, np.array([3, 1], "int32"), np.array([1, 3], "int32"))
    assert_same(found, [list(scattered), [x[:1], x[1:]]])


def test_an_array_of_one_element_is_stacked_without_joining() -> None:
    p = Prelude()
    x = relay.var("x", shape=(2, 3))
    arrays = StaticTensorArrayOps(p, "float32", (2, 3), batch_dim=1)
    array = arrays.get_global_var("tensor_array_write")(
        arrays.get_global_var("tensor_array")(relay.const(1)),
        relay.const(0),
        arrays.get_ctor("tensor_constructor")(x),
    )
    stack = arrays.get_global_var("tensor_array_stack")
    assert stack.name_hint == "tensor_array_stack_float32_batch1_2_3"
    run = compiled(p, [x], [stack(array)])
    assert str(p.mod[stack].ret_type) == "static_tensor_float32_1_2_3_t[]"
    assert_same(run(numbers(2, 3)), [numbers(2, 3)[None]])


def test_a_module_gets_what_it_uses_alone() -> None:
    p = Prelude()
    before = {gvar.name_hint for gvar in p.mod.functions}
    assert list(relay.type_definitions(p.mod)) == ["List", "Option", "Tree"]
    p.get_global_var("tensor_array_read", "float16")
    p.get_global_var("tensor_array_scatter", "float16")
    assert {gvar.name_hint for gvar in p.mod.functions} - before == {
        "tensor_array_read_float16",
        "tensor_array_write_float16",
        "tensor_array_scatter_float16",
        "tensor_array_scatter_helper_float16",
    }
    assert list(relay.type_definitions(p.mod))[3:] == ["tensor_float16_t"]


def test_all_functions_of_a_family_are_typed_when_registered() -> None:
    p = Prelude()
    TensorArrayOps(p, "float64").register()
    for shape in ((), (ANY,), (2, 3)):
        for batch_dim in (None, 1):
            StaticTensorArrayOps(p, "int8", shape, batch_dim).register()
    mod = relay.transform.InferType()(p.mod)
    tensor, array = "tensor_float64_t[]", "List[tensor_float64_t[]]"
    types = {gvar.name_hint: str(function.checked_type) for gvar, function in mod.functions.items()}
    assert {name: ty for name, ty in types.items() if name.endswith("_float64") and "unstack" not in name} == {
        "tensor_array_float64": f"fn (int32) -> {array}",
        "tensor_array_read_float64": f"fn ({array}, int32) -> {tensor}",
        "tensor_array_write_float64": f"fn ({array}, int32, {tensor}) -> {array}",
        "tensor_array_scatter_helper_float64": f"fn ({array}, int32, int32, Tensor[(?), int32], {array}) -> {array}",
        "tensor_array_scatter_float64": f"fn ({array}, Tensor[(?), int32], {array}) -> {array}",
        "ta_split_helper_float64": f"fn ({array}, {tensor}, int32, int32, int32, Tensor[(?), int32]) -> {array}",
        "tensor_array_split_float64": f"fn ({array}, {tensor}, Tensor[(?), int32]) -> {array}",
        "tensor_array_concat_float64": f"fn ({array}) -> {tensor}",
        "tensor_array_stack_float64": f"fn ({array}) -> {tensor}",
        "tensor_array_gather_helper_float64": (f"fn ({array}, {array}, int32, int32, Tensor[(?), int32]) -> {tensor}"),
        "tensor_array_gather_float64": f"fn ({array}, Tensor[(?), int32]) -> {tensor}",
        "tensor_take_float64": f"fn ({tensor}, int32, int32) -> {tensor}",
        "tensor_concatenate_float64": f"fn ({tensor}, {tensor}) -> {tensor}",
        "tensor_expand_dims_float64": f"fn ({tensor}) -> {tensor}",
    }
    assert types["tensor_get_data_int8_scalar"] == "fn (static_tensor_int8_scalar_t[]) -> int8"
    slices = "List[static_tensor_int8_3_t[]]"
    assert types["tensor_array_unstack_int8_batch1_2_3"] == f"fn (Tensor[(2, 3), int8]) -> {slices}"


@pytest.mark.parametrize("shape", [*SHAPES, ()], ids=shape_text)
def test_the_shape_of_an_array_is_found_in_its_type(shape: tuple[Any, ...]) -> None:
    p = Prelude()
    array = p.get_global_var_static("tensor_array", "float32", shape)(relay.var("n", INT))
    found = get_tensor_array_shape(array, "float32", p)
    assert [str(d) for d in found] == [str(d) for d in shape]
    assert "main" not in {gvar.name_hint for gvar in p.mod.functions}


def test_an_array_of_any_shape_has_none() -> None:
    p = Prelude()
    array = p.get_global_var("tensor_array", "float32")(relay.var("n", INT))
    assert get_tensor_array_shape(array, "float32", p) is None
    with pytest.raises(TypeCheckError, match=r"is a List of tensor_t, but the expression has type int32"):
        get_tensor_array_shape(relay.var("n", INT), "float32", p)


def test_what_there_is_not_is_told() -> None:
    p = Prelude()
    with pytest.raises(ModelError, match=r"tensor arrays have no function 'tensor_array_reed'.*tensor_array_read"):
        p.get_global_var("tensor_array_reed", "float32")
    with pytest.raises(ModelError, match=r"static_tensor_float32_scalar_t, of scalars, has no function 'tensor_take'"):
        p.get_global_var_static("tensor_take", "float32", ())
    with pytest.raises(ModelError, match=r"type tensor_float32_t has no constructor 'tensor7_float32'"):
        p.get_tensor_ctor("tensor7", "float32")
    with pytest.raises(InputError, match=r"a dimension of a tensor array's shape is an int or relay.Any\(\), not n"):
        p.get_type_static("tensor_t", "float32", (tvm.tirx.Var("n", "int64"),))


def test_what_the_prelude_had_from_the_start_is_made_by_its_name() -> None:
    mod = tvm.IRModule()
    assert not define_by_name(mod, "tensor_float32_t") and not relay.type_definitions(mod)
    Prelude(mod)
    for name in ("tensor_float31_t", "tensor_float32_x", "flip", "unknown_int32"):
        assert not define_by_name(mod, name)
    assert define_by_name(mod, "tensor_float32_t") and define_by_name(mod, "tensor_array_read_int64")
    assert list(relay.type_definitions(mod))[3:] == ["tensor_float32_t", "tensor_int64_t"]
    assert "tensor_array_read_int64" in {gvar.name_hint for gvar in mod.functions}
