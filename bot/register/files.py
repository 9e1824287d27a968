"""The app's secrets as files that nobody else can read: all of them or none, and never over others."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.errors import InputError
from bot.pages.settings import can_be_public

ENV_FILE = "preflight.env"
_KEY, _SECRET, _CLIENT = "private-key.pem", "webhook-secret", "client-secret"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the secrets go. `is_forced`: what is there is moved aside first."""

    path: Path
    is_forced: bool = False

    def check(self) -> None:
        """Raises `InputError` now, before there are secrets that could be lost."""
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise InputError(f"{self.path}: not a directory")
        if self.path.is_dir() and any(self.path.iterdir()) and not self.is_forced:
            raise InputError(f"{self.path}: is there already and not empty; --force moves it aside")
        parent = self.path.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"{parent}: cannot be written to")

    def write(self, app: Mapping[str, Any], api_url: str, public_url: str) -> list[Path]:
        """Write the answer of the conversion; the files, of mode 0600 in a folder of mode 0700."""
        target = self.path.absolute()
        texts = {_KEY: str(app["pem"]), _SECRET: str(app["webhook_secret"])}
        if app.get("client_secret"):
            texts[_CLIENT] = str(app["client_secret"])
        texts[ENV_FILE] = _environment(app, api_url, public_url, target, _CLIENT in texts)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))  # mode 0700
        try:
            for name, text in texts.items():
                _write(work / name, text)
            if target.is_dir() and any(target.iterdir()):
                if not self.is_forced:  # appeared while somebody was at the browser
                    raise InputError(f"{target}: is there by now; the secrets are in {work}")
                target.rename(target.with_name(f"{target.name}.old-{int(time.time())}"))
            work.rename(target)  # onto nothing, or onto an empty folder
        except InputError:
            raise
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return [target / name for name in texts]


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
        file.flush()
        os.fsync(file.fileno())


def _environment(app: Mapping[str, Any], api_url: str, public_url: str, folder: Path, has_client: bool) -> str:
    """Settings for a shell (`set -a; . FILE`), systemd (`EnvironmentFile=`), compose (`env_file`): no secret in it."""
    lines = [
        "# Written by `preflight register`. REDIS_URL is yours to add.",
        f"PREFLIGHT_APP_ID={int(app['id'])}",
        f"PREFLIGHT_PRIVATE_KEY_FILE={folder / _KEY}",
        f"PREFLIGHT_WEBHOOK_SECRET_FILE={folder / _SECRET}",
        f"GITHUB_API_URL={api_url}",
        f"PREFLIGHT_PUBLIC_URL={public_url}"
        if can_be_public(public_url)
        else "# PREFLIGHT_PUBLIC_URL=https://…  reports hold code: pages need https",
    ]
    if has_client:
        lines += [f"PREFLIGHT_CLIENT_ID={app.get('client_id', '')}", f"PREFLIGHT_CLIENT_SECRET_FILE={folder / _CLIENT}"]
    return "\n".join(lines)
