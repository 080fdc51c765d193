"""A dataclass of this package has no methods until one is needed, and is Python's own from then on."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from tests.places import TOP
from vmkit import _dataclasses
from vmkit._dataclasses import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """A class of the module, for pickle."""

    a: int
    b: tuple[int, ...] = ()


def is_complete(cls: type) -> bool:
    """Return whether a class has its methods."""
    return cls not in _dataclasses._incomplete


def both(define: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what a function defines with the decorator of the package, and with Python's."""
    return define(dataclass), define(dataclasses.dataclass)


def define_point(dataclass: Any) -> Any:
    @dataclass(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)
        origin: ClassVar[int] = 0
        shown: int = field(default=5, repr=False)

    return Point


@pytest.mark.parametrize(
    "question",
    [
        lambda cls: str(inspect.signature(cls)),
        lambda cls: repr(cls(1)),
        lambda cls: cls(1, names=["a"]) == cls(1),
        lambda cls: cls(1) == (1, 2),
        lambda cls: hash(cls(1)) == hash(cls(1, 2, ["b"])),
        lambda cls: [(f.name, f.type, f.repr, f.default) for f in dataclasses.fields(cls)],
        lambda cls: cls.__match_args__,
        lambda cls: (cls.__dataclass_params__.frozen, cls.__dataclass_params__.eq),
        lambda cls: dataclasses.asdict(dataclasses.replace(cls(1), y=3)),
        lambda cls: (cls(1).shown, cls.shown, hasattr(cls, "names"), cls.origin),
        lambda cls: dataclasses.is_dataclass(cls),
        lambda cls: (cls.__doc__, cls.__name__, cls.__init__.__qualname__),
    ],
)
def test_whatever_is_asked_first_the_answer_is_python_s(question: Callable[[Any], object]) -> None:
    own, python_s = both(define_point)
    assert not is_complete(own)
    assert question(own) == question(python_s)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (lambda cls: cls(), TypeError),
        (lambda cls: cls(1, z=2), TypeError),
        (lambda cls: setattr(cls(1), "x", 2), dataclasses.FrozenInstanceError),
        (lambda cls: setattr(cls(1), "other", 2), dataclasses.FrozenInstanceError),
        (lambda cls: delattr(cls(1), "x"), dataclasses.FrozenInstanceError),
    ],
)
def test_faults_are_python_s(fault: Callable[[Any], object], error: type[Exception]) -> None:
    said = []
    for cls in both(define_point):
        with pytest.raises(error) as caught:
            fault(cls)
        said.append(str(caught.value))
    assert said[0] == said[1]


def define_family(dataclass: Any) -> Any:
    @dataclass(frozen=True)
    class Base(ABC, Generic[T]):
        a: int
        b: int = 1
        seen: ClassVar[list[int]] = []

        def __post_init__(self) -> None:
            self.seen.append(self.a)

        @abstractmethod
        def total(self) -> int: ...

    @dataclass(frozen=True)
    class Derived(Base[int]):
        b: int = 7
        c: int = 3

        def total(self) -> int:
            return self.a + self.b + self.c

    class Plain(Derived):
        def __init__(self, a: int) -> None:
            super().__init__(a, c=100)

    @dataclass(frozen=True)
    class Own(Base[int]):
        d: int = 0

        def __init__(self, d: int) -> None:
            super().__init__(d + 1)
            object.__setattr__(self, "d", d)

        def __repr__(self) -> str:
            return "Own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.d == other.d

        def total(self) -> int:
            return self.d

    return Base, Derived, Plain, Own


def test_classes_derive_from_each_other_as_python_s_do() -> None:
    told = []
    for base, derived, plain, own in both(define_family):
        one = plain(1)
        one.free = 4  # a class that is not decorated takes other attributes
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'c'"):
            one.c = 4
        with pytest.raises(TypeError, match="abstract"):
            base(1)
        told.append(
            [
                *(
                    repr(one),
                    one.total(),
                    one.free,
                    derived(1, 2),
                    own(3),
                    own(3) == own(3),
                    hash(own(3)) == hash(own(4)),
                ),
                *(base.seen, derived(5) == derived(5), len({derived(5), derived(5)}), derived.__match_args__),
                *(
                    str(inspect.signature(derived)),
                    str(inspect.signature(plain)),
                    [f.name for f in dataclasses.fields(own)],
                ),
            ]
        )
    assert str(told[0]) == str(told[1])


def define_changing(dataclass: Any) -> Any:
    @dataclass
    class Changing:
        a: int
        b: int = 0

    @dataclass(eq=False)
    class Alone:
        a: int

    @dataclass(frozen=True, kw_only=True)
    class Named:
        a: int = 0
        b: int

    return Changing, Alone, Named


def test_options_are_python_s() -> None:
    for changing, alone, named in both(define_changing):
        one = changing(1)
        one.b = 5
        assert (one, changing.__hash__) == (changing(1, 5), None)
        assert alone(1) != alone(1)
        assert len({alone(1), alone(1)}) == 2
        assert named(b=1).a == 0
        with pytest.raises(TypeError, match="positional"):
            named(1)


def test_what_is_unpickled_before_any_is_made_is_whole() -> None:
    data = pickle.dumps(Kept(1, (2,)))
    # A process that only reads them makes none.
    fresh: Any = dataclass(frozen=True)(type("Kept", (), {"__annotations__": {"a": "int", "b": "tuple"}, "b": ()}))
    read = fresh.__new__(fresh)
    read.__dict__.update(vars(pickle.loads(data)))
    assert not is_complete(fresh)
    match read:
        case fresh(1, b):
            assert b == (2,)
        case _:
            pytest.fail("no match")
    assert (read, hash(read)) == (copy.copy(read), hash(fresh(1, (2,))))


def test_threads_that_make_the_first_together_get_the_same() -> None:
    for _ in range(50):
        cls = define_point(dataclass)
        start, made = threading.Barrier(4), []

        def make(cls: Any = cls, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append(cls(1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls(1)] * 4


def test_the_package_uses_no_other() -> None:
    elsewhere = [
        f"{path.relative_to(TOP)}:{node.lineno}"
        for path in sorted((TOP / "vmkit").rglob("*.py"))
        if path.name != "_dataclasses.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert elsewhere == []
