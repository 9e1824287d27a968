"""The webhook secrets of a running receiver, read again now and then and when a signature fits none of them.

Secrets in files are replaced in place by people and by Kubernetes; nobody has to restart anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from bot.errors import InputError
from bot.settings import Secret

_log = logging.getLogger("preflight.webhook")
_FRESH = 10.0
"""Seconds after which a secret that was taken away no longer opens the door."""
_PAUSE = 1.0
"""Between two looks because of a signature that fits none: wrong ones must not make us read files all the time."""


class WebhookSecrets:
    """`read` gives the secrets of the environment and its files; without it those given hold for ever."""

    def __init__(
        self,
        secrets: Sequence[Secret],
        read: Callable[[], Sequence[Secret]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = tuple(secrets)
        self._read = read
        self._clock = clock
        self._looked = clock()
        self._lock = threading.Lock()

    def current(self) -> tuple[Secret, ...]:
        """The current secret and, while rotating, the previous one."""
        self._look(_FRESH)
        return self._secrets

    def after_a_miss(self) -> tuple[Secret, ...]:
        """Those that became known since; none where nothing changed or it was looked a moment ago."""
        before = {secret.reveal() for secret in self._secrets}
        self._look(_PAUSE)
        return tuple(secret for secret in self._secrets if secret.reveal() not in before)

    def _look(self, age: float) -> None:
        with self._lock:
            if self._read is None or self._clock() < self._looked + age:
                return
            self._looked = self._clock()
            try:
                self._secrets = tuple(self._read())
            except InputError as error:  # half-written, or gone: the ones we have go on
                _log.warning("webhook secrets not read again: %s", error)
