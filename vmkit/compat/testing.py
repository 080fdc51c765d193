"""Helpers of ``tvm.testing`` that tests of scripts use and that are gone."""

from __future__ import annotations

import functools
import inspect
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import tvm
from tvm.runtime import Device

from vmkit.frontend.onnx import spans
from vmkit.relay import testing as relay_testing

from .check_grad import check_grad
from .pytest_stand_in import pytest_or_stand_in

__all__ = ["install_testing"]

if TYPE_CHECKING:
    import pytest
else:
    pytest = pytest_or_stand_in()

Test: TypeAlias = Callable[..., Any]


def install_testing(testing: ModuleType) -> None:
    """Add the helpers that a module lacks."""
    for name, helper in _HELPERS.items():
        if not hasattr(testing, name):
            setattr(testing, name, helper)
    module: Any = relay_testing
    module.check_grad, module.enabled_targets = check_grad, testing.enabled_targets


def parametrize_targets(*targets: str | tvm.target.Target | Test) -> Callable[..., Any]:
    """Run a test that takes ``target`` and ``dev`` for each target; those whose device is absent are left out."""
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets("llvm")(targets[0])

    def decorate(test: Test) -> Test:
        takes = inspect.signature(test).parameters
        present = [t for t in targets if _device(t).exist]
        # A test may take one of the two, or leave the target to its fixtures.
        names = [name for name in ("target", "dev") if name in takes] or ["target"]
        rows = [[{"target": t, "dev": _device(t)}[name] for name in names] for t in present]
        return pytest.mark.parametrize(names, rows, ids=[str(t) for t in present])(test)

    return decorate


def _device(target: str | tvm.target.Target | Test) -> Device:
    if callable(target):
        raise ValueError(f"{target} is no target; parametrize_targets takes targets, or one test alone")
    kind = tvm.target.Target(target).kind.name
    return tvm.device("cpu" if kind == "llvm" else kind)


def parameters(*value_sets: Sequence[Any], ids: Iterable[str] | None = None) -> tuple[Any, ...]:
    """Return fixtures that go through sets of values together, as ``tvm.testing.parameter`` does for one.

    The fixtures share a choice of the set, which is a fixture itself: pytest finds it by its name, so it is put into
    the class or module that called.
    """
    caller = sys._getframe(1).f_locals
    choice = f"set_of_parameters_{sum(name.startswith('set_of_parameters_') for name in caller)}"
    if "__qualname__" in caller:
        choice += f"_of_{caller['__qualname__'].replace('.', '_')}"

    @pytest.fixture(params=range(len(value_sets)), ids=None if ids is None else list(ids), name=choice)
    def chosen(*_: Any, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    caller[choice] = chosen
    return tuple(_field_of(value_sets, choice, position) for position in range(len(value_sets[0])))


def _field_of(value_sets: Sequence[Sequence[Any]], choice: str, position: int) -> Callable[..., Any]:
    def field(*_: Any, **chosen: Any) -> Any:
        return value_sets[chosen[choice]][position]

    kinds = inspect.Parameter
    own: Any = field
    own.__signature__ = inspect.Signature(
        [kinds("_", kinds.VAR_POSITIONAL), kinds(choice, kinds.KEYWORD_ONLY)],
    )
    return pytest.fixture(field)


def _requires(kind: str) -> Callable[..., Any]:
    return _skipped_without(tvm.device(kind).exist, f"there is no device {kind}")


def _skipped_without(found: bool, reason: str) -> Callable[..., Any]:
    def marks(support_required: str = "compile-and-run") -> list[pytest.MarkDecorator]:
        return [pytest.mark.skipif(not found, reason=reason)]

    def mark(*args: Any, support_required: str = "compile-and-run") -> Test | list[pytest.MarkDecorator]:
        if args and callable(args[0]):
            return functools.reduce(lambda test, one: one(test), marks(), args[0])
        return marks()

    # As Relay's, it is called to make marks, or asked for them.
    helper: Any = mark
    helper.marks = marks
    return mark


def requires_package(*packages: str) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


class enable_span_filling:
    """A ``with`` block in which converted models say of each node what of the model it came from."""

    fills = True

    def __enter__(self) -> None:
        self._before = spans.fill(self.fills)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spans.fill(self._before)


class disable_span_filling(enable_span_filling):
    """A ``with`` block in which nodes of converted models have no place."""

    fills = False


def _of_other_targets(*_: str) -> Callable[[Any], Any]:
    """Return a test unchanged: what it leaves out or expects to fail are targets that are not tested."""
    return lambda test: test


# Boards, simulators and libraries of TVM's own tests.
_ABSENT = (
    *("adreno_opencl_vulkan", "arm_dot", "cascadelake", "cmsisnn", "corstone300", "cublas", "cudagraph", "cudnn"),
    *("cutlass", "ethosn", "ethosu", "hexagon", "hexagon_toolchain", "matrixcore", "nvcc_version", "nvptx"),
    *("arm_fp16", "hip", "hipblas", "libtorch", "mps", "mrvl", "qaic", "aprofile_aem_fvp"),
    *("openclml", "riscv_spike", "rpc", "skylake_avx512", "tensorcore", "tensorrt", "vitis_ai"),
    *("x86_amx", "x86_avx512", "x86_vnni"),
)

_HELPERS: dict[str, Any] = {
    "disable_span_filling": disable_span_filling,
    "enable_span_filling": enable_span_filling,
    "exclude_targets": _of_other_targets,
    "known_failing_targets": _of_other_targets,
    "parameters": parameters,
    "parametrize_targets": parametrize_targets,
    "requires_cuda": _requires("cuda"),
    "requires_gpu": _requires("cuda"),
    "requires_llvm": _skipped_without(True, ""),
    "requires_micro": _skipped_without(True, ""),
    "requires_metal": _requires("metal"),
    "requires_package": requires_package,
    "requires_opencl": _requires("opencl"),
    "requires_rocm": _requires("rocm"),
    "requires_vulkan": _requires("vulkan"),
    "requires_x86": _skipped_without(platform.machine() in ("x86_64", "AMD64", "i686"), "this is no x86"),
    "uses_gpu": lambda *args: args[0] if args else [],
    **{f"requires_{name}": _skipped_without(False, f"there is no {name}") for name in _ABSENT},
}
