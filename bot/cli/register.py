"""Register the GitHub App: shows a form on loopback, lets GitHub create the app, and writes its secrets to files.

The app asks for the permissions and events of app.yml. The files (private key, webhook secret, and preflight.env with
the settings that name them) have mode 0600; no secret is printed, and nothing is overwritten without --force.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--webhook-url", required=True, metavar="URL", help="where GitHub sends webhooks: …/webhook")
    parser.add_argument("--name", help="the app's name, unique on all of GitHub (default: that of app.yml)")
    parser.add_argument("--org", default="", metavar="NAME", help="the organisation that owns the app (default: you)")
    parser.add_argument(
        "--github", default="https://github.com", metavar="URL", help="GitHub Enterprise Server (default: %(default)s)"
    )
    parser.add_argument("--output", default="preflight-app", metavar="DIR", help="for the files (default: %(default)s)")
    parser.add_argument("--manifest", metavar="FILE", help="another app.yml than this version's")
    parser.add_argument("--port", type=int, default=0, help="of the form on this machine (default: any free one)")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="(default: %(default).0f)")
    parser.add_argument("--no-browser", action="store_true", help="only print the form's address")
    parser.add_argument("--force", action="store_true", help="move existing files aside")


def run(args: argparse.Namespace) -> int:
    """Register; 2 where it did not happen."""
    from bot.manifest import home_of, load
    from bot.register.files import ENV_FILE, Folder
    from bot.register.flow import Flow, github_at

    github = github_at(args.github, args.org, os.environ.get("PREFLIGHT_CA_FILE") or True)
    manifest = load(Path(args.manifest) if args.manifest else None)
    if urlsplit(github.web_url).hostname != "github.com":
        manifest = manifest.without_merge_queues()
    folder = Folder(Path(args.output), args.force)
    folder.check()
    written: list[Path] = []

    def keep(app: Mapping[str, Any]) -> None:
        written.extend(folder.write(app, github.api_url, home_of(args.webhook_url)))

    def document(redirect_url: str) -> Mapping[str, Any]:
        return manifest.filled(name=args.name or manifest.name, webhook_url=args.webhook_url, redirect_url=redirect_url)

    flow = Flow(github, document, keep, args.port)
    print(f"Open {flow.url} in a browser on this machine to register the app.", flush=True)
    if not args.no_browser:
        _open(flow.url)
    app = flow.run(args.timeout)
    print(f"Registered {app['slug']} (app id {app['id']}). Written, readable by you alone:")
    for path in written:
        print(f"  {path}")
    print(f"Install it on your repositories: {app['html_url']}/installations/new")
    print(f"Then start it with the settings of {folder.path / ENV_FILE}; docs/install.md goes on from here.")
    return 0


def _open(url: str) -> None:
    import webbrowser

    try:
        webbrowser.open(url)
    except webbrowser.Error as error:
        print(f"no browser was opened: {error}", file=sys.stderr)
