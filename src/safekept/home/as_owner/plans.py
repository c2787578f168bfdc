"""The plan of a landing on its way from the owner's child to root, who shows it and asks."""

from __future__ import annotations

from typing import Any

from safekept.core.entries import Kind
from safekept.core.owner import remark_from

from ..landing.items import Item
from ..landing.landing import Landed
from ..landing.plan import LandingPlan
from ..landing.record import Root
from ..landing.removals import Removals
from ..layout.layout import Layout

_LISTS = ("create", "replace", "same", "kept", "remove", "outside", "executable", "links", "mounts")
_NUMBERS = ("bytes", "needed", "free")
_COUNTS = ("created", "replaced", "removed", "same", "kept", "bytes")


def plan_out(plan: LandingPlan) -> dict[str, Any]:
    return {
        **{name: getattr(plan, name) for name in (*_LISTS, *_NUMBERS)},
        "home": plan.home,
        "only": list(plan.only),
        "held": [list(one) for one in plan.held],
        "roots": [[root.label, root.base, root.name] for root in plan.roots],
        "items": [
            [
                item.path,
                item.root,
                item.place,
                item.kind.value,
                item.mode,
                item.size,
                item.sidecar,
                item.left_out,
            ]
            for item in plan.items.values()
        ],
    }


def plan_in(said: Any, exact: bool, layout: Layout) -> LandingPlan:
    """The same for showing and asking; it is carried out by the child that made it."""
    plan = LandingPlan(str(said["home"]), exact, tuple(map(str, said["only"])), layout=layout)
    for name in _LISTS:
        setattr(plan, name, [str(one) for one in said[name]])
    for name in _NUMBERS:
        setattr(plan, name, int(said[name]))
    plan.held = [(str(path), str(holder)) for path, holder in said["held"]]
    plan.roots = [Root(*map(str, root)) for root in said["roots"]]
    plan.removals = Removals(files=list(plan.remove))
    for path, root, place, kind, mode, size, sidecar, left_out in said["items"]:
        item = Item(str(path), int(root), str(place), Kind(kind), int(mode), 0, int(size))
        item.sidecar, item.left_out = bool(sidecar), int(left_out)
        plan.items[item.path] = item
    return plan


def landed_in(said: Any) -> Landed:
    return Landed(
        operation=str(said["operation"]),
        home=str(said["home"]),
        seconds=float(said["seconds"]),
        replaced_in=str(said["replaced_in"]),
        undoes=str(said["undoes"]),
        remarks=[remark_from(one) for one in said["remarks"]],
        timings={str(name): float(one) for name, one in said["timings"].items()},
        **{name: int(said[name]) for name in _COUNTS},
    )
