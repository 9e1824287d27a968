"""Events that have to do with train and evaluation mode beyond the switches themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyzer.engine.events import Event
from analyzer.engine.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Event):
    """Something drops out whatever the mode, while a module runs. `how`: a function without ``training``, attention
    that is given a rate, a layer made on the spot. `owner` is what the method calls its module (``self``), if it is in
    one; `last_at` the node of the last argument, `rate_at` that of the rate."""

    callee: str
    how: Literal["function", "attention", "layer"]
    rate: Value | None
    rate_at: int | None
    last_at: int | None
    owner: str | None
