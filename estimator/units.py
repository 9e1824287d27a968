"""Bytes and GiB. Everything inside is bytes; GiB appears only where people read or write numbers."""

from __future__ import annotations

from typing import NewType

Bytes = NewType("Bytes", int)

GIB = 2**30
