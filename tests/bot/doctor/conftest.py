"""The stack of the queue's tests, for the doctor to look at."""

from tests.bot.queue.conftest import stack

__all__ = ["stack"]
