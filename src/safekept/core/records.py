"""Records: dataclasses whose methods are written when they are first needed.

The standard library writes six methods of every class as text and compiles them when the class is made. A
command takes in two hundred classes and makes objects of a few, and two fifths of what `status` cost went
into methods that were never called. Here fields and slots are the standard library's own, so that `fields`,
`replace`, `asdict` and `match` know a record; `__init__` is compiled when there are some objects, and the
other methods are ordinary functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Factory:
    """Stands for a value that is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Factory()


#: So many objects of a class are made without its `__init__`: of most records a command makes one or two, and
#: that is sooner done than to compile it.
_FEW = 10


class _Later:
    """The `__init__` of a record of which there are few objects yet; then the real one takes its place."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls, self.frozen, self.objects = cls, frozen, 0
        self.fields: tuple[dataclasses.Field[Any], ...] = ()
        self.positional: list[str] = []

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self.objects += 1
        if instance is not None and self.objects <= _FEW:
            return partial(self._fill, instance)
        return self._made() if instance is None else self._made().__get__(instance, owner)

    def _made(self) -> Any:
        made = _init(self.cls, self.frozen)
        setattr(self.cls, "__init__", made)  # noqa: B010
        return made

    def _fill(self, instance: object, /, *values: object, **named: object) -> None:
        """What the real one would do. What it would refuse is left to it, so that its words are the same."""
        if not self.fields:
            self.positional = [one.name for one in dataclasses.fields(self.cls) if one.kw_only is not True]
            self.fields = dataclasses.fields(self.cls)
        if len(values) > len(self.positional):
            return self._refuse(instance, values, named)
        given = dict(zip(self.positional, values, strict=False))
        if given.keys() & named.keys():
            return self._refuse(instance, values, named)
        given |= named
        for one in self.fields:
            if one.name not in given:
                if one.default is not MISSING:
                    given[one.name] = one.default
                elif one.default_factory is not MISSING:
                    given[one.name] = one.default_factory()
                else:
                    return self._refuse(instance, values, named)
        if len(given) > len(self.fields):
            return self._refuse(instance, values, named)
        for one in self.fields:
            object.__setattr__(instance, one.name, given[one.name])
        if (after := getattr(instance, "__post_init__", None)) is not None:
            after()
        return None

    def _refuse(self, instance: object, values: tuple[object, ...], named: dict[str, object]) -> None:
        self._made()(instance, *values, **named)


def _record(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
    repr: bool = True,
) -> Any:
    """As `dataclasses.dataclass`, with the options that this house uses."""

    def made(cls: type) -> type:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is asked for, and that costs most
        types = vars(cls).get("__annotations__", {})
        if types:
            cls.__annotations__ = {name: _known_kind(text) for name, text in types.items()}
        bare: type = dataclasses.dataclass(
            cls, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
        )
        if types:
            bare.__annotations__ = types
            for one in dataclasses.fields(bare):
                one.type = types.get(one.name, one.type)
        for name, method in _methods(bare, frozen, repr).items():
            if name not in vars(bare):
                setattr(bare, name, method)
        return bare

    return made if cls is None else made(cls)


def _known_kind(text: object) -> object:
    """What stands for a type while fields are made: the standard library matches a text against three
    patterns, to see whether it is a field at all, and that was half of what a record cost."""
    special = not isinstance(text, str) or "Var" in text or "KW_ONLY" in text
    return text if special else object


def _methods(cls: type, frozen: bool, shown: bool) -> dict[str, object]:
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    values = _values(names)

    def same(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    found: dict[str, object] = {"__init__": _Later(cls, frozen), "__eq__": same, "__hash__": None}
    if shown:
        found["__repr__"] = _shown
    if frozen:
        found |= {"__hash__": lambda self: hash(values(self)), "__setattr__": _refuse, "__delattr__": _refuse}
        found |= {"__getstate__": _state, "__setstate__": _take_state}
    return found


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


@recursive_repr()
def _shown(self: Any) -> str:
    told = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _take_state(self: Any, state: list[object]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _init(cls: type, frozen: bool) -> Any:
    """Compile the `__init__` of a class from its fields."""
    known: dict[str, object] = {"_set": object.__setattr__, "_made": _MADE}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for one in dataclasses.fields(cls):
        parameter = value = one.name
        if one.default is not MISSING:
            known[f"_default_{one.name}"] = one.default
            parameter = f"{one.name}=_default_{one.name}"
        elif one.default_factory is not MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            parameter = f"{one.name}=_made"
            value = f"_make_{one.name}() if {one.name} is _made else {one.name}"
        parameters[one.kw_only is True].append(parameter)
        lines.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    head = f"def __init__(self, {', '.join([*parameters[False], *named])}):"
    exec("\n ".join([head, *(lines or ["pass"])]), known)  # noqa: S102 - the text is of our own field names
    made: Any = known["__init__"]
    made.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls)} | {"return": None}
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _record
