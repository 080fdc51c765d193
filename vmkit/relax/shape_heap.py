"""Symbolic sizes become numbers in memory: the last thing that is done to Relax before bytecode is made of it.

TVM's pass for this takes time by the number of functions that compute sizes times the number of sizes. What runs is
the same, but for shapes that are made once and functions that are shared: the checks of parameters, casts and results,
by the functions of the virtual machine, and their texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import ir, relax, tirx

from .._tvm import retyped
from .._tvm.running import array_items
from .read_sizes import read_tensor
from .rewrite import retyped_call, with_functions
from .shape_checks import Check, Checks
from .size_functions import Asked, Computation, SizeFunctions
from .size_slots import PARTS, Slots, is_computed, is_constant, sizes_of, type_is_sure

__all__ = ["lower_shapes"]

_VOID = relax.TupleType([])

# What match_shape does with a size: compare it with a number, store it, nothing, compare it with what is stored.
_EQUALS, _STORES, _NOTHING, _EQUALS_STORED = range(4)
# Where make_shape takes a size from: the instruction, the heap.
_NUMBER, _STORED = range(2)


def lower_shapes(*, ask: bool = False) -> tvm.transform.Pass:
    """Return the pass by which functions keep their sizes on a heap and check types when they run.

    To be run when there is no dataflow any more, nor a function within another.

    Parameters
    ----------
    ask
        Whether functions that compute sizes make checks, which are errors of kernels then.
    """
    return tvm.transform.module_pass(lambda mod, _: _lowered(mod, ask), opt_level=0, name="VMShapeLower")


def _lowered(mod: tvm.IRModule, ask: bool) -> tvm.IRModule:
    functions = {gvar: f for gvar, f in mod.functions.items() if isinstance(f, relax.Function)}
    checks = {gvar: Checks(function.body) for gvar, function in functions.items()}
    slots = {gvar: Slots(gvar.name_hint, f, checks[gvar] if ask else None) for gvar, f in functions.items()}
    shared = SizeFunctions([gvar.name_hint for gvar in mod.get_global_vars()])
    computed = {gvar: _computations(each, shared) for gvar, each in slots.items()}
    made: dict[ir.GlobalVar, ir.BaseFunc] = {}
    for gvar, function in functions.items():
        body = _Lowering(function, slots[gvar], checks[gvar], shared, computed[gvar]).body()
        made[gvar] = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return with_functions(mod, {**made, **shared.made})


def _computations(slots: Slots, functions: SizeFunctions) -> dict[int, list[Computation]]:
    """Return what computes the sizes of a function, by the points at which that is done."""
    made = {}
    for point, sizes in slots.computed.items():
        asked = [Asked(check.given[0], check.asked[0], check.number) for check in slots.asked.get(point, ())]
        made[point] = functions.prepared(sizes, slots.read.get(point, ()), asked)
    return made


class _Match:
    """Sizes that a value must have, some of which it tells."""

    def __init__(self, value: relax.Expr, sizes: Sequence[ir.Expr], context: ir.StringImm) -> None:
        self.value = value
        self.sizes = sizes
        self.context = context


class _Lowering:
    """One function, from its begin to its end; `bindings` are those of the block that is being written."""

    def __init__(
        self,
        function: relax.Function,
        slots: Slots,
        checks: Checks,
        functions: SizeFunctions,
        computed: Mapping[int, Sequence[Computation]],
    ) -> None:
        self.function = function
        self.slots = slots
        self.functions = functions
        self.computed = computed
        self.stored: set[int] = set()
        self.bindings: list[relax.Binding] = []
        # A place of the heap is written once, before anything is made from it: equal sizes and shapes are made once.
        self.made: dict[tuple[int, int] | tuple[tuple[int, int], ...], relax.Var] = {}
        self.same: dict[ir.Var, relax.Expr] = {}
        self.checks = checks
        self.waiting: list[Check] = []
        self.heap = relax.Var("shape_heap", relax.TensorType(ndim=1, dtype="int64") if len(slots) else relax.AnyType())

    def body(self) -> relax.SeqExpr:
        """Return the function's body."""
        self.bindings.append(relax.VarBinding(self.heap, self._new_heap()))
        self._parameters()
        before = self._taken()
        rest = self._sequence(self.function.body)
        if not self.slots.is_result_sure:
            self._cast(self.function.ret_ty, rest.body, f"fn={self.slots.name}, loc=return", -1)
        after = self._taken()
        blocks = [relax.BindingBlock(before), *rest.blocks, *([relax.BindingBlock(after)] if after else [])]
        return retyped(relax.SeqExpr(blocks, rest.body), self.function.body.ty)

    def _new_heap(self) -> relax.Call:
        if not len(self.slots):
            return retyped(relax.Call(ir.Op.get("relax.null_value"), []), relax.AnyType())
        size, ty = relax.Tuple([tirx.IntImm("int64", len(self.slots))]), self.heap.ty
        args = [relax.ExternFunc("vm.builtin.alloc_shape_heap"), size]
        return retyped(relax.Call(ir.Op.get("relax.call_builtin_with_ctx"), args, None, [ty]), ty)

    def _taken(self) -> list[relax.Binding]:
        taken, self.bindings = self.bindings, []
        return taken

    # -- values

    def _sequence(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        outer, blocks = self._taken(), []
        for block in array_items(sequence.blocks):
            for binding in array_items(block.bindings):
                self._binding(binding)
            self._compare_waiting()
            blocks.append(type(block)(self._taken()))
        result = self._value(sequence.body)
        if self.bindings:
            blocks.append(relax.BindingBlock(self._taken()))
        self.bindings = outer
        return retyped(relax.SeqExpr(blocks, result), sequence.ty)

    def _branch(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        known, done = self.made, self.checks.done
        self.made, self.checks.done = dict(known), set(done)
        made = self._sequence(sequence)
        self.made, self.checks.done = known, done
        return made

    def _binding(self, binding: relax.Binding) -> None:
        variable, value = binding.var, binding.value
        if self.slots.is_asked(variable):
            return
        if variable in self.checks:
            check = self.checks[variable]
            if check is not None and variable in self.slots.points and check.key not in self.checks.done:
                self.checks.done.add(check.key)
                self.waiting.append(check)
            return
        self._compare_waiting()
        if type(binding) is relax.MatchCast and self.slots.points.get(variable) in self.slots.read:
            self._compute(self.slots.points[variable], read_tensor(value))
        elif type(binding) is relax.MatchCast:
            made = self._value(value)
            if isinstance(made, relax.Call):  # runs once, for the check and for what it gives
                given = relax.Var("given", made.ty)
                self.bindings.append(relax.VarBinding(given, made))
                made = given
            if variable in self.slots.points:
                self._cast(binding.ty, made, f"match_cast, ty={binding.ty}", self.slots.points[variable])
            if self.checks.is_read(variable):
                self.bindings.append(relax.MatchCast(variable, made, binding.ty))
        elif type(value) is relax.If:
            condition = self._value(value.cond)
            arms = [self._branch(arm) for arm in (value.true_branch, value.false_branch)]
            self.bindings.append(relax.VarBinding(variable, retyped(relax.If(condition, *arms), value.ty)))
        elif type(value) is relax.ShapeExpr:
            self._shape(value, variable)
        else:
            made = self._value(value)
            self.bindings.append(binding if made.same_as(value) else relax.VarBinding(variable, made))

    def _value(self, value: relax.Expr) -> relax.Expr:
        """Return a value in which variables stand for sizes, and shapes of them, that the heap has."""
        kind = type(value)
        if kind is relax.ShapeExpr:
            return self._shape(value, relax.Var("shape", relax.ShapeType(ndim=len(value.values))))
        if kind in PARTS:
            parts = PARTS[kind](value)
            made = [self._value(part) for part in parts]
            if all(new.same_as(old) for new, old in zip(made, parts, strict=True)):
                return value
            return retyped_call(value, made) if isinstance(value, relax.Call) else relax.Tuple(made)
        if isinstance(value, ir.Var) and value in self.slots.registers:
            return self.same.get(value, value)
        return self._number(value) if isinstance(value.ty, ir.PrimType) and not is_constant(value) else value

    def _number(self, size: ir.Expr) -> relax.Var:
        key = self._loaded(size)
        if key not in self.made:
            self.made[key] = relax.Var("size", size.ty)
            self._call("make_prim_value", [self.heap, *key], self.made[key])
        return self.made[key]

    def _shape(self, shape: relax.ShapeExpr, variable: relax.Var) -> relax.Expr:
        """Return a shape as a variable, which is the given one unless there is one for it; a constant as it is."""
        if not is_computed(shape):
            if variable in self.slots.registers:
                self.bindings.append(relax.VarBinding(variable, shape))
            return shape
        key = tuple(self._loaded(size) for size in array_items(shape.values))
        if key in self.made:
            self.same[variable] = self.made[key]
        else:
            self.made[key] = variable
            args: list[relax.Expr | int] = [self.heap, len(key), *(each for pair in key for each in pair)]
            self._call("make_shape", args, variable, relax.ShapeType(ndim=len(key)))
        return self.made[key]

    def _loaded(self, size: ir.Expr) -> tuple[int, int]:
        return (_NUMBER, int(size)) if isinstance(size, tirx.IntImm) else (_STORED, self.slots.place(size))

    def _call(
        self,
        name: str,
        args: Sequence[relax.Expr | int],
        variable: relax.Var | None = None,
        ty: relax.Type | None = None,
    ) -> None:
        """Write the call of a function of the virtual machine, whose value is `variable`."""
        variable = relax.Var("_", _VOID) if variable is None else variable
        self._emit(relax.ExternFunc(f"vm.builtin.{name}"), args, variable, ty or variable.ty, [ty or variable.ty])

    def _emit(
        self,
        function: relax.Expr,
        args: Sequence[relax.Expr | int],
        variable: relax.Var,
        ty: relax.Type,
        ty_args: Sequence[relax.Type] = (),
    ) -> None:
        numbers = [tirx.IntImm("int64", arg) if isinstance(arg, int) else arg for arg in args]
        call = retyped(relax.Call(function, numbers, None, list(ty_args)), ty)
        self.bindings.append(relax.VarBinding(variable, call))

    # -- checks

    def _parameters(self) -> None:
        """Write the checks of the parameters, which tell the first sizes."""
        matches: list[_Match] = []
        params = list(self.function.params)
        inputs = int((self.function.attrs or {}).get("num_input", len(params)))
        for at, param in enumerate(params):
            context = ir.StringImm(
                f"ErrorContext(fn={self.slots.name}, loc=param[{at}], param={param.name}, annotation={param.ty}) "
            )
            # What comes behind the inputs are weights, of which the shapes are known.
            if at >= inputs and all(isinstance(s, tirx.IntImm) for sizes in sizes_of(param.ty) for s in sizes):
                continue
            self._check(param.ty, param, context, matches, is_known=False)
            if isinstance(param.ty, ir.PrimType) and param in self.slots:
                matches.append(_Match(param, [param], context))
        self._match(matches, 0)

    def _cast(self, ty: relax.Type, value: relax.Expr, where: str, point: int) -> None:
        matches: list[_Match] = []
        self._check(ty, value, ir.StringImm(f"ErrorContext({where}) "), matches)
        self._match(matches, point)

    def _check(
        self, ty: relax.Type, value: relax.Expr, context: ir.StringImm, matches: list[_Match], is_known: bool = True
    ) -> None:
        """Write the check of a type but for sizes; those are added to `matches`.

        Parameters
        ----------
        is_known
            Whether what the value's own type says need not be checked.
        """
        if is_known and type_is_sure(ty, value, self.slots.shapes):
            return
        match ty:
            case relax.TensorType():
                general = relax.TensorType(ndim=ty.ndim, dtype=ty.dtype)
                if not (is_known and type_is_sure(general, value)):
                    self._call("check_tensor_info", [value, ty.ndim, _dtype(ty), context])
            case relax.ShapeType():
                if not (is_known and type_is_sure(relax.ShapeType(ndim=ty.ndim), value)):
                    self._call("check_shape_info", [value, ty.ndim, context])
            case ir.PrimType():
                self._call("check_prim_value_info", [value, _dtype(ty), context])
            case relax.FuncType():
                self._call("check_func_info", [value, context])
            case relax.TupleType():
                if not (is_known and isinstance(value.ty, relax.TupleType)):
                    self._call("check_tuple_info", [value, len(ty.fields), context])
                for at, field in enumerate(ty.fields):
                    self._check(field, self._field(value, at), context, matches, is_known)
                return
        matches += [_Match(value, list(sizes), context) for sizes in sizes_of(ty)]

    def _compare_waiting(self) -> None:
        """Write the comparison of all sizes that checks in a row compare, at once."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            given = self._value(relax.ShapeExpr([size for check in waiting for size in check.given]))
            asked = [size for check in waiting for size in check.asked]
            text = f"ErrorContext(match_cast, ty={relax.ShapeType(asked)}) "
            self._compare(_Match(given, asked, ir.StringImm(text)))

    def _field(self, whole: relax.Expr, at: int) -> relax.Expr:
        if isinstance(whole, relax.Tuple):
            return whole.fields[at]
        is_tuple = isinstance(whole.ty, relax.TupleType)
        field = relax.Var("field", whole.ty.fields[at] if is_tuple else relax.AnyType())
        if is_tuple:
            self.bindings.append(relax.VarBinding(field, relax.TupleGetItem(whole, at)))
        else:
            self._call("tuple_getitem", [whole, at], field)
        return field

    def _match(self, matches: Sequence[_Match], point: int) -> None:
        """Write what stores the symbols that values tell, computes other sizes of them, and compares the rest."""
        waiting = [match for match in matches if not self._compare(match)]
        self._compute(point)
        for match in waiting:
            self._compare(match)

    def _compute(self, point: int, tensor: relax.Expr | None = None) -> None:
        """Write what computes the sizes that can be at a point, some of which may be in a tensor."""
        for computation in self.computed.get(point, ()):
            function, places = self.functions.call(computation, self.slots.place, len(self.slots))
            read = [tensor] if computation.read and tensor is not None else []
            self._emit(function, [self.heap, *read, *places], relax.Var("_", _VOID), _VOID)
            self.stored.update(map(self.slots.place, (*computation.read, *computation.sizes)))
        self.checks.done.update(check.key for check in self.slots.asked.get(point, ()))

    def _compare(self, match: _Match) -> bool:
        """Write what compares sizes with those on the heap, and stores new symbols; say whether that was all."""
        pairs = [self._matched(size) for size in match.sizes]
        codes = [code for code, _ in pairs]
        if any(code != _NOTHING for code in codes):
            is_number = isinstance(match.value.ty, ir.PrimType)
            name = "match_prim_value" if is_number else "match_shape"
            count = [] if is_number else [len(pairs)]
            args = [match.value, self.heap, *count, *(each for pair in pairs for each in pair), match.context]
            self._call(name, args)
        return _NOTHING not in codes

    def _matched(self, size: ir.Expr) -> tuple[int, int]:
        if isinstance(size, tirx.IntImm):
            return _EQUALS, int(size)
        place = self.slots.place(size)
        if place in self.stored:
            return _EQUALS_STORED, place
        if not isinstance(size, ir.Var):
            return _NOTHING, 0
        self.stored.add(place)
        return _STORES, place


def _dtype(ty: relax.TensorType | ir.PrimType) -> ir.GenericConst:
    """Return the constant of a type's element type, which is void for any."""
    return ir.GenericConst(tvm.DataType("void" if ty.dtype is None else str(ty.dtype)), relax.AnyType())
