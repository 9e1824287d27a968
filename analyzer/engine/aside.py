"""Whether a file is kept aside, by its name: for reference (``archive/``, ``ddp_template.py``, ``train_old.py``), to
measure speed, to test.

What is said of such a file is true of its text. Nobody trains with it, or keeps what it trains. A name proves nothing,
so it only makes a note of an error or a warning.
"""

from __future__ import annotations

import re

from analyzer.engine.trace import Site, Trace, start
from analyzer.unit_tests import is_among_tests

_KEPT = re.compile(
    r"(?:^|[/_\-. ])(?:archived?|archives|deprecated|obsolete|backups?|bak|attic|graveyard|unused|trash|old)"
    r"(?=[/_\-. ])|(?:^|/)templates/|(?:^|[/_\-])(?:template|skeleton)\.(?:py|ipynb)$"
    r"|(?: copy(?: \d+)?| ?\(\d+\))\.(?:py|ipynb)$",
    re.IGNORECASE,
)
_MEASURES = re.compile(
    r"(?:^|[/_\-. ])(?:profil(?:er|ers|es|ing)|latency|throughput|speedtest|flops)(?=[/_\-. ])",
    re.IGNORECASE,
)


def why_aside(site: Site) -> Trace | None:
    """The step of evidence that says so."""
    if _KEPT.search(site.path):
        return start(site, "by its name, this file is kept for reference")
    if _MEASURES.search(site.path):
        return start(site, "by its name, this file measures: nobody keeps what it computes")
    if is_among_tests(site.path):
        return start(site, "by its name, this file is a test: nobody keeps what it trains")
    return None
