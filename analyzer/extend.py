"""What a rule of another package imports: names that stay while the engine behind them changes.

``docs/extending.md`` shows how a package adds rules and tables.
"""

from analyzer.engine.events import Backward, Clear, Event, Forward, Loop, Loss, Mode, Step, Store
from analyzer.engine.optim_events import Clip
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap
from analyzer.findings import Confidence, Severity
from analyzer.fixes.edits import InsertAfter, InsertBefore, InsertStatement, Replace, ReplaceText
from analyzer.rules.base import DraftFix, Report, Rule

__all__ = [
    "Backward",
    "Clear",
    "Clip",
    "Confidence",
    "DraftFix",
    "Event",
    "Forward",
    "Gap",
    "InsertAfter",
    "InsertBefore",
    "InsertStatement",
    "Loop",
    "Loss",
    "Mode",
    "Program",
    "Replace",
    "ReplaceText",
    "Report",
    "Rule",
    "Severity",
    "Step",
    "Store",
]
