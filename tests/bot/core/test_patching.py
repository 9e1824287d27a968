"""GitHub's patch of a file applied to its old text gives the new one, byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.patching import apply_patch

_lines = st.lists(
    st.sampled_from(["a", "b", "", "+c", "-d", "\\ e", "@@ f", "g\r", "h\u2028i", "\x0c", "ü"]), max_size=30
)


@settings(max_examples=40)
@given(old=_lines, new=_lines, has_end=st.tuples(st.booleans(), st.booleans()))
def test_it_undoes_what_git_diff_did(tmp_path_factory: pytest.TempPathFactory, old, new, has_end) -> None:  # type: ignore[no-untyped-def]
    before, after = (
        ("\n".join(lines) + ("\n" if end and lines else "")).encode()
        for lines, end in zip((old, new), has_end, strict=True)
    )
    if before != after:
        assert apply_patch(before, _git_diff(tmp_path_factory.mktemp("diff"), before, after)) == after


def _git_diff(where: Path, before: bytes, after: bytes) -> str:
    """As GitHub lists it: from the first hunk on, without the last line end."""
    (where / "a").write_bytes(before)
    (where / "b").write_bytes(after)
    command = ["git", "diff", "--no-index", "--no-color", "--text", "a", "b"]
    done = subprocess.run(command, cwd=where, capture_output=True, check=False)
    text = done.stdout.decode("utf-8", "surrogateescape")
    return text[text.index("@@ ") :].removesuffix("\n")


@pytest.mark.parametrize("patch", ["", "no hunk", "@@ -5,1 +5,1 @@\n-x\n+y", "@@ -1,9 +1,9 @@\n a\n b\n c\n d", "+a"])
def test_a_patch_of_another_file_is_none(patch: str) -> None:
    assert apply_patch(b"a\nb\n", patch) is None
