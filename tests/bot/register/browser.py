"""A person's part of the manifest flow: forms are sent as a browser sends them."""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

import requests


class Browser:
    """One page at a time."""

    def __init__(self) -> None:
        self.session = requests.Session()
        self.session.trust_env = False
        self.page = ""
        self.url = ""
        self.status = 0

    def open(self, url: str) -> str:
        """The page at `url`."""
        return self._take(self.session.get(url, timeout=30))

    def press(self, **typed: str) -> str:
        """Send the page's first form, with what was typed; redirects are followed."""
        form = re.search(r'<form method="post"(?: action="([^"]*)")?>(.*?)</form>', self.page, re.DOTALL)
        assert form, self.page
        fields = {
            name: html.unescape(value)
            for name, value in re.findall(r'<input (?:type="hidden" )?name="([^"]+)" value="([^"]*)"', form[2])
        }
        target = urljoin(self.url, html.unescape(form[1] or ""))
        return self._take(self.session.post(target, data=fields | typed, timeout=60))

    def _take(self, answer: requests.Response) -> str:
        self.page, self.url, self.status = answer.text, answer.url, answer.status_code
        return self.page
