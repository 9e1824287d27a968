"""The names of our queues and of the only functions a worker runs. Imported by the receiver: no job code here."""

from __future__ import annotations

FAST = "preflight-fast"
"""Early check runs, reactions, commands: seconds, never behind an analysis."""
REVIEW = "preflight-review"

OPEN_REVIEW = "bot.queue.jobs.open_review"
REVIEW_PULL = "bot.queue.jobs.review_pull"
CLOSE_PULL = "bot.queue.jobs.close_pull"
RUN_COMMAND = "bot.queue.jobs.run_command"
ANSWER_COMMAND = "bot.queue.jobs.answer_command"
RERUN = "bot.queue.jobs.rerun"
MERGE_GROUP = "bot.queue.jobs.merge_group"
PRESS_BUTTON = "bot.queue.jobs.press_button"
DROP_TOKENS = "bot.queue.jobs.drop_tokens"
GATE_LOOK = "bot.queue.gate.look"
GATE_ADMIT = "bot.queue.gate.admit"

_OF_REVIEWS = frozenset(
    {OPEN_REVIEW, REVIEW_PULL, CLOSE_PULL, RUN_COMMAND, ANSWER_COMMAND, RERUN, PRESS_BUTTON, MERGE_GROUP}
)
ANALYSING = frozenset({REVIEW_PULL, ANSWER_COMMAND, PRESS_BUTTON})
"""What may run an analysis; of the buttons two do."""
JOBS = _OF_REVIEWS | {DROP_TOKENS, GATE_LOOK, GATE_ADMIT}
