"""``python -I -m bot.localhub --data DIR [--port N]``: prints its address, then serves until stopped."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bot.localhub.server import Server


def main() -> None:
    """Run one hub."""
    parser = argparse.ArgumentParser(prog="bot.localhub", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory for the git repositories")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    args = parser.parse_args()
    args.data.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    server = Server(args.data, args.port)
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
