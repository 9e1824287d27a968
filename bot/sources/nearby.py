"""What a person may have meant by a path that is not there."""

from __future__ import annotations

import difflib
from pathlib import Path

_STEMS = 0.5


def there_is(place: Path) -> str:
    """``; there is train.py``: the most similar name in the same folder; empty where none is similar.

    A suffix that both have makes nothing similar: ``nope.py`` is no slip for ``model.py``.
    """
    try:
        names = [item.name for item in place.absolute().parent.iterdir()][:5000]
    except OSError:
        return ""
    for name in difflib.get_close_matches(place.name, names, n=3, cutoff=0.6):
        if difflib.SequenceMatcher(None, place.stem, Path(name).stem).ratio() >= _STEMS:
            return f"; there is {name}"
    return ""
