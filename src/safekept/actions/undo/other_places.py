"""Lines of the journal about other places, passed over by their bytes: taking them apart costs far more.

An operation is what its last readable line says. A begun line may name a place that the line which ended it
does not, as when a home was moved in between. So the operations of lines that were passed over are
remembered, and before an earlier line of one of them counts, its last one is taken apart after all.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Collection

from safekept.core.journal import VERSION, Journal, Record, parse_line

#: Ids that are remembered: the lines of one operation are never so far apart.
REMEMBERED = 10_000
#: How a line begins that `Journal.append` wrote; any other is taken apart.
_BEGINNING = re.compile(
    rb'\{"version": %d, "time": [0-9.]+, "operation": "([^"\\]+)", "verb": "([^"\\]+)", ' % VERSION
)


def spelled(word: str) -> tuple[bytes, ...]:
    """A word as a line of the journal has it."""
    return (json.dumps(word)[1:-1].encode(),) if word else ()


class OtherPlaces:
    """What was passed over on the way back through the journal, looking for `place`.

    Lines of the verbs `also` are never passed over: some of them count for every place.
    """

    def __init__(self, journal: Journal, place: str, also: Collection[str] = ()) -> None:
        self._journal = journal
        (self._place,) = spelled(place)
        self._also = frozenset(verb.encode() for verb in also)
        self._passed: OrderedDict[bytes, None] = OrderedDict()

    def passes(self, line: bytes) -> bool:
        """Whether this line says nothing of the place."""
        if self._place in line:
            return False
        begins = _BEGINNING.match(line)
        if begins is None or begins[2] in self._also:
            return False
        self._passed[begins[1]] = None
        if len(self._passed) > REMEMBERED:
            self._passed.popitem(last=False)
        return True

    def ended(self, record: Record) -> bool:
        """Whether its operation ended with a line that was passed over. OSError."""
        operation = spelled(record.operation)
        if not operation or operation[0] not in self._passed:
            return False
        for line in self._journal.lines_backwards(*operation):
            found = parse_line(line)
            if found is not None and found.operation == record.operation:
                return self._place not in line
        return False
