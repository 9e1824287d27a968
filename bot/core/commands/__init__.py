"""Slash commands: a grammar (`grammar`) and one file per command, found by its name (`base` says what it holds)."""
