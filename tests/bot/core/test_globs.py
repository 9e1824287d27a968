"""Globs of the configuration: what they match, and that no pattern takes long."""

from __future__ import annotations

import time

import pytest

from bot.core.globs import MAX_PATTERN, matches


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a/b.py", True),
        ("/b.py", "b.py", True),
        ("/b.py", "a/b.py", False),
        ("jobs/*.slurm", "jobs/x.slurm", True),
        ("jobs/*.slurm", "jobs/y/x.slurm", False),
        ("jobs/**/*.slurm", "jobs/y/z/x.slurm", True),
        ("jobs/**/*.slurm", "jobs/x.slurm", True),
        ("research/**", "research/a/b.py", True),
        ("research/**", "research", False),
        ("research/", "x/research/a.py", True),
        ("a/b", "a/b/c.py", True),
        ("a", "za/b", False),
        ("**", "x/y", True),
        ("**/b/**", "a/b/c.py", True),
        ("file?.py", "file1.py", True),
        ("file?.py", "file.py", False),
        ("[a-c].py", "b.py", True),
        ("[!a-c].py", "b.py", False),
        ("[x", "[x", True),
        ("a*b*c", "aXbYbZc", True),
        ("", "anything", False),
    ],
)
def test_a_glob_means_what_gitignore_means(pattern: str, path: str, fits: bool) -> None:
    assert matches(path, [pattern]) is fits


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 99 + "b", "a" * 4_000),
        ("**/a/" * 40 + "b", "/".join("a" * 1_000)),
        ("[a-" * 60, "a" * 4_000),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    started = time.process_time()
    matches(path, [pattern[:MAX_PATTERN]])
    assert time.process_time() - started < 2
