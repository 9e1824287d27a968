"""Networks that play one role: alternatives at one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analyzer.engine.events import Forward
from analyzer.engine.values import ObjectId
from analyzer.records import replace


def _are_alternatives(found: list[Forward]) -> bool:
    """Whether the passes of a place are of one evaluation: a helper that is called with one network and then with
    another runs both."""
    return len({each.calls for each in found}) == 1


class Roles:
    """Networks of which one or another runs at one place (loaded or made, one of two classes) play one role there, and
    everywhere else. Each role is named by one of them."""

    def __init__(self, forwards: Mapping[object, list[Forward]]) -> None:
        self._named: dict[ObjectId, ObjectId] = {}
        for found in forwards.values():
            if not _are_alternatives(found):
                continue
            modules = sorted({self._find(each.module) for each in found if each.module is not None})
            for module in modules[1:]:
                self._named[module] = modules[0]

    def _find(self, module: ObjectId) -> ObjectId:
        while module in self._named:
            module = self._named[module]
        return module

    def of(self, modules: Iterable[ObjectId]) -> frozenset[ObjectId]:
        """The roles of some networks."""
        return frozenset(self._find(module) for module in modules)

    def is_one(self, found: list[Forward]) -> bool:
        """Whether what runs at a place is one network, or alternatives that have a graph alike."""
        if any(each.module is None for each in found):
            return len({each.module for each in found}) == 1
        return len({(each.has_graph, each.is_frozen, each.is_eval) for each in found}) == 1 and (
            _are_alternatives(found) or len({each.module for each in found}) == 1
        )

    def played(self, found: list[Forward]) -> list[Forward]:
        """The passes of one place, as those of one network."""
        if len({each.module for each in found}) == 1 and found[0].module not in self._named:
            return found
        module = found[0].module
        return [replace(found[0], module=self._find(module) if module is not None else None)]

    def are_shared(self, *found: Forward) -> bool:
        """Whether one of some passes may be that of another network."""
        return any(each.module in self._named.values() for each in found)
