"""File contents by blob id: from the cache, in GraphQL batches, as one tarball, or one by one. Never unverified.

A blob id is the hash of its content, so it may be cached for ever and no answer needs to be trusted.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.github.errors import NotFound, Refused
from bot.github.retry import Api
from bot.store import BLOB_MAX_BYTES, BLOB_TTL, TREE_TTL, Client, Keys

BATCH = 50
_GRAPHQL_MAX_BYTES = 256 * 1024  # GraphQL cuts the text of larger blobs
_TARBALL_FROM = 300
"""Missing blobs from which one tarball is cheaper than batches."""
_TARBALL_MAX_BYTES = 200 * 1024 * 1024
MAX_FILE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree: its blob id and size in bytes."""

    sha: str
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a commit. `is_cut`: GitHub lists 100,000 entries or 7 MB."""

    files: Mapping[str, Entry]
    is_cut: bool


def blob_id(content: bytes) -> str:
    """The id git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Contents:
    """Trees and blobs of one repository."""

    def __init__(self, api: Api, client: Client, keys: Keys, *, repo_id: int, full_name: str) -> None:
        self._api = api
        self._client = client
        self._keys = keys
        self._repo_id = repo_id
        self._full_name = full_name

    def tree(self, commit: str) -> Listing:
        """Every file of a commit; symlinks and submodules are none."""
        key = self._keys.tree(self._repo_id, commit)
        cached: Any = self._client.get(key)
        if cached:
            document = json.loads(zlib.decompress(cached))
        else:
            answer = self._api.get(f"/repos/{self._full_name}/git/trees/{commit}", {"recursive": "1"})
            files = {
                entry["path"]: [entry["sha"], int(entry.get("size") or 0)]
                for entry in answer["tree"]
                if entry["type"] == "blob" and entry["mode"] != "120000"
            }
            document = {"files": files, "cut": bool(answer.get("truncated"))}
            self._client.set(key, zlib.compress(json.dumps(document).encode()), ex=TREE_TTL)
        return Listing({path: Entry(sha, size) for path, (sha, size) in document["files"].items()}, document["cut"])

    def blobs(self, entries: Iterable[Entry], commit: str) -> dict[str, bytes]:
        """The bytes of each entry by blob id; what is too large or gone is left out. `commit` holds them (tarball)."""
        wanted = {entry.sha: entry for entry in entries if entry.size <= MAX_FILE_BYTES}
        found = self._cached(wanted)
        missing = [entry for sha, entry in wanted.items() if sha not in found]
        if len(missing) >= _TARBALL_FROM:
            found |= self._keep(self._tarball(commit, {entry.sha for entry in missing}))
            missing = [entry for entry in missing if entry.sha not in found]
        small = [entry.sha for entry in missing if entry.size <= _GRAPHQL_MAX_BYTES]
        for start in range(0, len(small), BATCH):
            found |= self._keep(self._batch(small[start : start + BATCH]))
        rest = [entry.sha for entry in missing if entry.sha not in found]
        return found | self._keep({sha: content for sha in rest if (content := self._one(sha)) is not None})

    def _cached(self, wanted: Mapping[str, Entry]) -> dict[str, bytes]:
        shas = list(wanted)
        if not shas:
            return {}
        values: Sequence[Any] = self._client.mget([self._keys.blob(self._repo_id, sha) for sha in shas])
        return {
            sha: value for sha, value in zip(shas, values, strict=True) if value is not None and blob_id(value) == sha
        }

    def _keep(self, blobs: Mapping[str, bytes]) -> dict[str, bytes]:
        """Verify, cache, return what is genuine."""
        genuine = {sha: content for sha, content in blobs.items() if blob_id(content) == sha}
        pipe = self._client.pipeline(transaction=False)
        for sha, content in genuine.items():
            if len(content) <= BLOB_MAX_BYTES:
                pipe.set(self._keys.blob(self._repo_id, sha), content, ex=BLOB_TTL)
        pipe.execute()
        return genuine

    def _batch(self, shas: Sequence[str]) -> dict[str, bytes]:
        """One query. `text` is null for binary blobs and not exact for other encodings: those fail the hash."""
        fields = " ".join(f'b{i}: object(oid: "{sha}") {{ ... on Blob {{ text }} }}' for i, sha in enumerate(shas))
        query = f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
        owner, name = self._full_name.split("/")
        try:
            repository = self._api.graphql(query, {"owner": owner, "name": name}).get("repository") or {}
        except Refused:
            return {}  # REST is the fallback
        texts = ((sha, (repository.get(f"b{i}") or {}).get("text")) for i, sha in enumerate(shas))
        return {sha: text.encode("utf-8", "surrogatepass") for sha, text in texts if isinstance(text, str)}

    def _one(self, sha: str) -> bytes | None:
        try:
            answer = self._api.get(f"/repos/{self._full_name}/git/blobs/{sha}")
        except NotFound:
            return None
        return base64.b64decode(answer["content"])

    def _tarball(self, commit: str, wanted: set[str]) -> dict[str, bytes]:
        """Read in memory; names in the archive are never used as paths."""
        try:
            packed = self._api.download(f"/repos/{self._full_name}/tarball/{commit}")
        except Refused:
            return {}
        found: dict[str, bytes] = {}
        total = 0
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            for member in archive:
                total += member.size
                if total > _TARBALL_MAX_BYTES:
                    break
                stream = archive.extractfile(member) if member.isfile() and member.size <= MAX_FILE_BYTES else None
                if stream is not None and blob_id(content := stream.read()) in wanted:
                    found[blob_id(content)] = content
        return found
