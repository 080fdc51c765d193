"""Constants of a few bits are multiplied with, and looked up in, as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.op.nn.block_quantized import packed_codes
from vmkit.relay.transform import KeepBlockQuantized

RNG = np.random.default_rng(5)
DENSE, DEQUANTIZE = "nn.contrib_block_quantized_dense", "nn.contrib_block_dequantize"


class Table:
    """Random codes of a shape as an expression of floats, and what these are."""

    def __init__(self, shape: tuple[int, ...], once: tuple[int, ...], zeros: str = "", **attrs: int) -> None:
        bits = attrs.get("bits", 4)
        codes = RNG.integers(0, attrs.pop("most", 1 << bits), shape, "uint8")
        scales = RNG.random(once, "float32") + 0.5
        zero = RNG.integers(0, 1 << bits, once).astype(zeros or "uint8") if zeros else np.uint8([1 << (bits - 1)])
        constants = [packed_codes(codes, bits), scales, *([zero] if zeros else [])]
        self.expr = build(DEQUANTIZE, *map(relay.const, constants), **attrs)
        axis, block = attrs.get("axis", -1) % len(shape), attrs.get("block_size", 32)

        def of_elements(values: np.ndarray) -> np.ndarray:
            whole = values if values.shape[axis] == 1 else values.repeat(block, axis)
            return whole[tuple(slice(d) for d in shape)]

        zero = of_elements(zero) if zeros else zero
        self.floats = (codes.astype("float32") - zero.astype("float32")) * of_elements(scales)


def names(mod: tvm.IRModule) -> set[str]:
    return {n.op.name for n in post_order(mod["main"]) if isinstance(n, relay.Call) and isinstance(n.op, tvm.ir.Op)}


def kept(body: Any, *params: Any) -> set[str]:
    mod = tvm.IRModule({"main": relay.Function(list(params), body)})
    return names(KeepBlockQuantized()(relay.transform.InferType()(mod)))


WEIGHTS = {
    "blocks of a transposed matrix": (Table((40, 8), (3, 8), "uint8", axis=0, block_size=16), True),
    "blocks of rows": (Table((8, 40), (8, 3), axis=1, block_size=16), False),
    "an output": (Table((40, 8), (1, 8), "float32", axis=1, block_size=1), True),
    "outputs that share": (Table((8, 40), (2, 1), "uint8", axis=0, block_size=4), False),
    "one scale": (Table((40, 8), (1, 1), bits=2, axis=0, block_size=40), True),
    "bytes with codes of few bits": (Table((40, 8), (1, 8), axis=1, block_size=1, bits=8, most=16), True),
}
TABLES = {
    "blocks of rows": Table((5, 40), (5, 3), "uint8", block_size=16),
    "one for all rows": Table((5, 40), (1, 40), "uint8", axis=0, block_size=5),
    "one for each row": Table((5, 40), (5, 1), axis=1, block_size=40),
}
X, INDEX = relay.var("x", shape=(relay.Any(), 40)), relay.var("i", shape=(2, 2), dtype="int64")


def product(name: str) -> Any:
    table, is_turned = WEIGHTS[name]
    return relay.nn.dense(X, relay.transpose(table.expr, [1, 0]) if is_turned else table.expr)


def test_products_and_look_ups_agree_with_numpy() -> None:
    half = relay.nn.dense(relay.cast(X, "float16"), relay.cast(WEIGHTS["blocks of rows"][0].expr, "float16"))
    rows = [relay.take(table.expr, INDEX, axis=0) for table in TABLES.values()]
    body = relay.Tuple([*map(product, WEIGHTS), relay.cast(half, "float32"), *rows])
    assert not kept(body, X, INDEX) & {"nn.dense", "transpose"}
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([X, INDEX], body), "llvm"), "cpu")
    x, index = RNG.standard_normal((3, 40)).astype("float32"), np.array([[4, 0], [2, 4]])
    results = [each.numpy() for each in machine.run(x, index)]
    wanted = [x @ (table.floats if turned else table.floats.T) for table, turned in WEIGHTS.values()]
    for name, result, expected in zip(WEIGHTS, results, wanted, strict=False):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(results[len(WEIGHTS)], wanted[1], rtol=1e-2, atol=0.5)
    for (name, table), result in zip(TABLES.items(), results[-len(TABLES) :], strict=True):
        np.testing.assert_array_equal(result, table.floats[index], err_msg=name)


def test_what_no_kernel_reads_becomes_floats_while_compiling() -> None:
    by_input = Table((40, 8), (40, 1), axis=0, block_size=1)
    short = Table((8, 40), (8, 10), axis=1, block_size=4)
    columns = relay.take(TABLES["blocks of rows"].expr, INDEX, axis=1)
    odd = [relay.nn.dense(X, relay.transpose(by_input.expr, [1, 0])), relay.nn.dense(X, short.expr), columns]
    assert kept(relay.Tuple(odd), X, INDEX) == {"nn.dense", "take", "transpose", DEQUANTIZE}
    mod = tvm.IRModule({"main": relay.Function([X, INDEX], relay.Tuple(odd))})
    for level in (0, 1, 3):
        with vmkit.PassContext(opt_level=level):
            assert DEQUANTIZE not in names(vmkit.VMCompiler().optimize(mod, "llvm")[0])


def test_what_does_not_fit_is_refused() -> None:
    codes, scales = relay.const(np.zeros((4, 8), "uint8")), relay.const(np.ones((4, 2), "float32"))
    for attrs, message in (
        ({"bits": 3}, "bits is 3 and block_size 32"),
        ({"block_size": 4}, r"scales must be float32 of shape \(4, 4\), or 1 on any axis"),
        ({"block_size": 8, "axis": 2}, "data must be uint8 with an axis 2"),
    ):
        with pytest.raises(TypeCheckError, match=message):
            mod = tvm.IRModule({"main": relay.Function([], build(DEQUANTIZE, codes, scales, **attrs))})
            relay.transform.InferType()(mod)
