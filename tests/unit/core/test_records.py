"""A record is a dataclass in every way that somebody can see; only its methods are written later."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import ClassVar, get_type_hints

import pytest

from safekept.core import records


def shapes(dataclass):
    """The same classes by one decorator or the other."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """Where."""

        name: str
        size: int = 3
        parts: tuple[str, ...] = ()
        notes: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="", repr=False)

    @dataclass(kw_only=True, slots=True)
    class Verb:
        id: str
        facts: dict[str, int] = field(default_factory=dict)

    @dataclass(kw_only=True, slots=True)
    class Longer(Verb):
        seconds: float = 0.0

    @dataclass
    class Checked:
        size: int

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError("less than nothing")

        def __repr__(self) -> str:
            return "its own words"

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    @dataclass(kw_only=True, slots=True)
    class Named(Verb):
        verb: ClassVar[str] = "named"
        id: str = "its own"

    return Point, Verb, Longer, Checked, Nothing, Named


OURS, THEIRS = shapes(records.dataclass), shapes(dataclasses.dataclass)
BOTH = pytest.mark.parametrize("kinds", [OURS, THEIRS], ids=["ours", "the standard library's"])
Point = records.dataclass(frozen=True, slots=True)(type("Point", (), {"__annotations__": {"x": "int"}}))
Point.__module__ = __name__


@pytest.mark.parametrize("number", range(len(OURS)))
def test_a_record_is_called_as_the_dataclass_is(number):
    ours, theirs = OURS[number], THEIRS[number]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert str(inspect.signature(ours.__init__)) == str(inspect.signature(theirs.__init__))
    assert ours.__init__.__qualname__ == theirs.__init__.__qualname__
    assert [one.name for one in fields(ours)] == [one.name for one in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)


@pytest.mark.parametrize("number", range(len(OURS)))
def test_its_types_are_those_that_were_written(number):
    ours, theirs = OURS[number], THEIRS[number]
    assert [(one.name, one.type) for one in fields(ours)] == [(one.name, one.type) for one in fields(theirs)]
    assert ours.__annotations__ == theirs.__annotations__
    assert get_type_hints(ours) == get_type_hints(theirs)


@BOTH
def test_values_defaults_and_words(kinds):
    point, verb, longer, checked, nothing, named = kinds
    one, two = point("a", 4), point("a", size=4, notes=["not compared"])
    assert (one.name, one.size, one.parts, one.notes) == ("a", 4, (), [])
    assert point("a").notes is not point("a").notes, "each has a list of its own"
    assert one == two and hash(one) == hash(two) and one != point("b", 4) and one != ("a", 4, (), "")
    assert repr(point("a", secret="s")).endswith("Point(name='a', size=3, parts=(), notes=[])")
    assert replace(one, size=9).size == 9 and asdict(one)["size"] == 4
    assert longer(id="1", seconds=2.0) == longer(id="1", seconds=2.0)
    assert longer(id="1") != verb(id="1"), "of one class only"
    assert nothing() == nothing() and len({nothing(), nothing()}) == 1
    assert repr(checked(1)) == "its own words"
    assert named().verb == "named" and named(id="2").id == "2" and named.__slots__ == ()
    with pytest.raises(ValueError, match="less than nothing"):
        checked(-1)
    match one:
        case point(name, size):
            assert (name, size) == ("a", 4)


@BOTH
def test_what_may_not_be_is_refused_in_the_same_words(kinds):
    point, verb, *_ = kinds
    one = point("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
        one.size = 5
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
        del one.size
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required .*: 'name'"):
        point()
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given"):
        verb("1")
    with pytest.raises(TypeError, match="unhashable"):
        hash(verb(id="1"))
    with pytest.raises(AttributeError):
        verb(id="1").other = 1  # slots


@BOTH
def test_one_that_holds_itself_can_be_shown(kinds):
    verb = kinds[1](id="1")
    verb.facts["self"] = verb
    assert repr(verb).endswith("Verb(id='1', facts={'self': ...})")


def test_a_frozen_record_goes_to_another_process_and_is_copied():
    one = Point(3)
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.copy(one) == one and copy.deepcopy(one) == one


def test_nothing_is_compiled_until_there_are_some_objects(monkeypatch):
    compiled = []
    real = builtins.exec
    monkeypatch.setattr(builtins, "exec", lambda text, *names: (compiled.append(text), real(text, *names)))
    kinds = shapes(records.dataclass)
    made = [kinds[0]("a", notes=["n"]) for _ in range(records._FEW)]
    assert compiled == []
    made += [kinds[0]("a", notes=["n"]) for _ in range(records._FEW)]
    assert len(compiled) == 1, "once for each class"
    assert len(set(made)) == 1 and repr(made[0]) == repr(made[-1]), "the same, however they were made"


CALLS = [
    ((), {}),
    (("a",), {}),
    (("a", 4, ("b",), ["c"], "d"), {}),
    (("a", 4, ("b",), ["c"], "d", "too many"), {}),
    (("a",), {"name": "twice"}),
    (("a",), {"other": "unknown"}),
    (("a", 4), {"secret": "s", "notes": []}),
    ((), {"size": 1}),
    ((), {"instance": 1, "self": 2}),
    ((), {"id": "1"}),
    ((), {"id": "1", "facts": {}, "seconds": 2.0}),
    (("1",), {}),
    ((3,), {}),
    ((-1,), {}),
]


@pytest.mark.parametrize("number", range(len(OURS)))
@pytest.mark.parametrize(("values", "named"), CALLS)
def test_the_first_objects_are_as_the_later_ones_and_refused_in_the_same_words(number, values, named):
    def outcome(kind):
        try:
            one = kind(*values, **named)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
        return {name: getattr(one, name) for name in (field.name for field in fields(one))}

    kind = shapes(records.dataclass)[number]
    for _ in range(records._FEW + 2):
        assert outcome(kind) == outcome(THEIRS[number])
