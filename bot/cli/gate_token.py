"""Make a token for `GET /gate` or the admission webhook: the token is shown once, the file holds only its hash.

Add the printed entry to the file that PREFLIGHT_GATE_TOKENS_FILE names (--file does it). The web processes read the
file again when it changes. To rotate: add a new token, hand it out, delete the old entry.
"""

from __future__ import annotations

import argparse
import datetime
import os
import secrets
import sys
from pathlib import Path

from bot.errors import InputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("name", metavar="NAME", help="who has it, such as cluster-a")
    parser.add_argument("--installation", type=int, required=True, metavar="ID", help="of the app on your account")
    parser.add_argument("--repository", type=int, action="append", default=[], metavar="ID", help="only for this one")
    parser.add_argument("--days", type=int, metavar="N", help="until it expires (default: never)")
    parser.add_argument("--file", type=Path, metavar="FILE", help="append the entry to this file (mode 0600)")


def run(args: argparse.Namespace) -> int:
    """The token on stdout, alone; the entry on stderr or in the file."""
    from bot.web.gate_tokens import hashed, parse

    token = f"pfg_{secrets.token_urlsafe(32)}"
    lines = ["[[token]]", f'name = "{args.name}"', f"installation = {args.installation}", f'sha256 = "{hashed(token)}"']
    if args.repository:
        lines.append(f"repositories = {args.repository}")
    if args.days is not None:
        last = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=args.days)
        lines.append(f"expires = {last.isoformat()}")
    entry = "\n".join(lines) + "\n"
    parse(entry)  # a name or id that the server would refuse is said here
    if args.file is not None:
        _append(args.file, entry)
    else:
        sys.stderr.write(entry)
    print(token)
    return 0


def _append(path: Path, entry: str) -> None:
    from bot.web.gate_tokens import parse

    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        parse(before)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
            stream.write(f"\n{entry}" if before else entry)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
