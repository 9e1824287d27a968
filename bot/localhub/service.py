"""A hub with everything around it: its deliveries, its faults, its recording."""

from __future__ import annotations

from pathlib import Path

from bot.localhub.faults import Faults
from bot.localhub.recorder import Recorder
from bot.localhub.registration import Codes
from bot.localhub.state import Hub
from bot.localhub.webhooks import Dispatcher


class Service:
    """One per server."""

    def __init__(self, data_dir: Path, root_url: str) -> None:
        self.hub = Hub(data_dir, root_url)
        self.dispatcher = Dispatcher(self.hub)
        self.faults = Faults()
        self.recorder = Recorder()
        self.codes = Codes()

    def close(self) -> None:
        """Stop sending."""
        self.dispatcher.close()
