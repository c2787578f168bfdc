"""Databases without the indexes that can be rebuilt."""

from typing import TYPE_CHECKING

from ...doors import doors

if TYPE_CHECKING:
    from .filling import Filling, fill, fillable
    from .lean import LeanFacts, NotRebuilt, read_facts, rebuild
    from .request import LeanRequest, Recipe, rebuild_statement

__getattr__ = doors(
    __name__,
    {
        "filling": "Filling fill fillable",
        "lean": "LeanFacts NotRebuilt read_facts rebuild",
        "request": "LeanRequest Recipe rebuild_statement",
    },
)
