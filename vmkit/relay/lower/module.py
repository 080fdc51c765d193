"""Lower a typed Relay module to Relax: every function to a Relax function, every operator to a kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir import GlobalVar, Op
from tvm.target import Target

from ..._dataclasses import dataclass
from ...errors import VMKitError
from ...target.device_types import device_type
from ..ir.adt import TypeData
from ..ir.definitions import type_definitions
from ..ir.expr import Call, Function, RelayExpr, Var
from ..ir.reference import RefCreate, RefRead, RefWrite
from ..ir.types import FuncType, GlobalTypeVar
from ..ir.visit import free_vars, post_order
from ..op.registry import entry
from .checks import RuntimeChecks
from .context import relax_type
from .external import External
from .function import Closure, FunctionLowering, ModuleLowering, relax_params
from .repeated_kernels import RepeatedKernels, Tell
from .text_numbering import text_numbering

__all__ = ["Lowered", "lower_module"]


@dataclass(frozen=True)
class Lowered:
    """The Relax form of a module.

    Attributes
    ----------
    module : tvm.IRModule
        Relax functions and TIR kernels.
    messages : dict
        The text of every run-time check, by its number.
    names : dict
        The name of each function in the executable, by its Relay name; they differ where that holds a dot.
    texts : list of str or None
        The strings among its constants; None if it has no tensor of strings at all.
    text_numbers : str or None
        How numbers may stand for texts: one of :data:`vmkit.values.text_tables.NUMBERINGS`.
    """

    module: tvm.IRModule
    messages: dict[str, str]
    names: dict[str, str]
    texts: list[str] | None = None
    text_numbers: str | None = None


def lower_module(
    mod: tvm.IRModule,
    target: Target | None = None,
    externals: Mapping[str, External] | None = None,
    checks: RuntimeChecks | None = None,
    tell: Tell | None = None,
) -> Lowered:
    """Return the Relax form of a module whose types have been inferred.

    Parameters
    ----------
    mod : tvm.IRModule
        The Relay module.
    target : tvm.target.Target, optional
        What it is compiled for. Values that the program places on another type of device are then refused; without,
        they are copied there.
    externals : mapping, optional
        The functions of other code generators by name, which are called and not lowered.
    checks : RuntimeChecks, optional
        Takes the checks at run time, whose numbers differ from those that it has.
    tell : callable, optional
        Is told each kernel that is written out, after its name, as soon as there is one.
    """
    device = None if target is None else device_type(target)
    lowering = _ModuleLowering(mod, device, externals or {}, RuntimeChecks() if checks is None else checks, tell)
    module = lowering.run()
    names = {relay.name_hint: lowered.name_hint for relay, lowered in lowering.lowered.items()}
    numbering = text_numbering(lowering.functions.values())
    texts = None if numbering is None else list(lowering.texts)
    return Lowered(module, lowering.checks.messages, names, texts, numbering)


class _ModuleLowering(ModuleLowering):
    """The functions of a module, declared first so that they can call each other."""

    def __init__(
        self,
        mod: tvm.IRModule,
        device: int | None,
        externals: Mapping[str, External],
        checks: RuntimeChecks,
        tell: Tell | None,
    ) -> None:
        self.device = device
        self.externals = externals
        self.builder = relax.BlockBuilder()
        self.kernels = RepeatedKernels(self.builder, tell)
        self.checks = checks
        self.texts = {}
        self.definitions = type_definitions(mod)
        functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        self.functions = {v: f for v, f in functions.items() if v.name_hint not in externals}
        # References make every function that may touch one depend on more than its arguments.
        self.is_pure = not any(_has_effects(f) for f in self.functions.values())
        self.declared = 0
        self.lowered: dict[GlobalVar, GlobalVar] = {}
        self.defined: dict[GlobalVar, relax.Function] = {}
        self.waiting: deque[tuple[GlobalVar, FunctionLowering]] = deque()

    def run(self) -> tvm.IRModule:
        for gvar, function in self.functions.items():
            self.lowered[gvar] = self.declare(gvar.name_hint, function)
        for gvar, function in self.functions.items():
            self.waiting.append((self.lowered[gvar], FunctionLowering(self, function, gvar.name_hint)))
        while self.waiting:
            gvar, lowering = self.waiting.popleft()
            try:
                lowered = lowering.run()
            except VMKitError as error:
                raise type(error)(f"in @{lowering.name}: {error}") from error
            self.defined[gvar] = lowered.with_attr("global_symbol", gvar.name_hint)
        # The builder only holds the place: it keeps functions by their structure, and loses some when they change.
        module = self.builder.get()
        return tvm.IRModule({**dict(module.functions.items()), **self.defined}, attrs=module.attrs)

    def declare(self, name: str, function: Function) -> GlobalVar:
        """Add a function of the right type with no body, for calls to refer to."""
        params = relax_params(function, {})
        ret_type = relax_type(function.checked_type.ret_type)
        empty = relax.Function.create_empty(params, ret_type, is_pure=self.is_pure)
        # The builder makes one of equal functions, and without the name two of the same type would be equal.
        self.declared += 1
        return self.builder.add_func(empty.with_attr("global_symbol", f"{name}/{self.declared}"), name)

    def definition(self, header: GlobalTypeVar) -> TypeData:
        return self.definitions[header.name_hint]

    def lift(self, function: Function, name: str, own: Var | None) -> Closure:
        captured = [v for v in free_vars(function) if own is None or not v.same_as(own)]
        # The VM appends what a closure holds to the arguments of its call.
        params = [*function.params, *captured]
        ty: FuncType = function.checked_type
        lifted = Function(params, function.body, function.ret_type, list(function.type_params))
        lifted.checked_type_ = FuncType([p.checked_type for p in params], ty.ret_type, list(ty.type_params))
        closure = Closure(self.declare(name, lifted), captured)
        itself = None if own is None else (own, closure)
        self.waiting.append((closure.gvar, FunctionLowering(self, lifted, name, itself)))
        return closure


def _has_effects(function: Function) -> bool:
    return any(
        isinstance(node, RefCreate | RefRead | RefWrite) or _changes_values(node) for node in post_order(function)
    )


def _changes_values(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and entry(node.op).has_effect
