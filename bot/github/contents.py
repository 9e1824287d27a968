"""File contents by blob id: from the cache, in GraphQL batches, as one tarball, or one by one. Never unverified.

A blob id is the hash of its content, so it may be cached for ever and no answer needs to be trusted.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import tarfile
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bot.errors import Unavailable
from bot.github.errors import Forbidden, NotFound, Refused, TooSlow
from bot.github.retry import Api
from bot.store import BLOB_MAX_BYTES, BLOB_TTL, TREE_TTL, Client, Keys

_log = logging.getLogger("preflight.github")
BATCH = 200
BATCH_BYTES = 4 << 20
"""Of one GraphQL query: blobs, and their bytes."""
_GRAPHQL_MAX_BYTES = 256 * 1024  # GraphQL cuts the text of larger blobs
_TARBALL_FROM = 300
"""Missing blobs from which one tarball is cheaper than batches."""
_TARBALL_FROM_SINGLE = 12
"""Blobs that no batch gave (large, or not UTF-8) from which a tarball is cheaper than one request for each."""
_MAX_ALONE = 3
"""Queries for one blob that GitHub does not get done with, from which it is the queries and not the blobs."""
MAX_SINGLE = 600
"""Blobs that one reading asks for one by one; more of them would use up the installation's requests of an hour."""
READ_SECONDS = 240.0
"""Of one job, for contents: GitHub may take 20 s for each blob and answer all the same. What came is kept, and the job
is put off, so that the next attempt asks for the rest alone."""
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
        self._num_alone = 0
        """Blobs that no query gave although it asked for nothing else."""
        self._waited = 0.0
        """Seconds, for contents."""

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
            self._keep_document(key, document)
        return Listing({path: Entry(sha, size) for path, (sha, size) in document["files"].items()}, document["cut"])

    def keep_tree(self, commit: str, listing: Listing) -> None:
        """A listing that was found without asking for it."""
        files = {path: [entry.sha, entry.size] for path, entry in listing.files.items()}
        self._keep_document(self._keys.tree(self._repo_id, commit), {"files": files, "cut": listing.is_cut})

    def _keep_document(self, key: str, document: Mapping[str, Any]) -> None:
        self._client.set(key, zlib.compress(json.dumps(document).encode()), ex=TREE_TTL)

    def kept(self, shas: Iterable[str]) -> dict[str, bytes]:
        """Of these blobs those in the cache."""
        return self._cached(dict.fromkeys(shas, Entry("", 0)))

    def keep(self, blobs: Mapping[str, bytes]) -> None:
        """Contents that were found without asking for them; what is not genuine is not kept."""
        self._keep(blobs)

    def blobs(self, entries: Iterable[Entry], commit: str) -> dict[str, bytes]:
        """The bytes of each entry by blob id; what is too large or gone is left out. `commit` holds them (tarball).

        Raises `Unavailable` where neither batches nor a tarball gave them and too many are left to ask for singly, and
        where GitHub takes longer than `READ_SECONDS`; what came by then is kept.
        """
        wanted = {entry.sha: entry for entry in entries if entry.size <= MAX_FILE_BYTES}
        found = self._cached(wanted)
        missing = [entry for sha, entry in wanted.items() if sha not in found]
        has_asked_for_all = len(missing) >= _TARBALL_FROM
        if has_asked_for_all:
            found |= self._keep(self._tarball(commit, {entry.sha for entry in missing}))
        for batch in _batches([entry for entry in missing if entry.sha not in found]):
            found |= self._in_parts(batch)
        rest = {entry.sha for entry in missing} - found.keys()
        if len(rest) >= _TARBALL_FROM_SINGLE and not has_asked_for_all:
            found |= self._keep(self._tarball(commit, rest))
        singly = sorted(rest - found.keys())
        if len(singly) > MAX_SINGLE:
            raise Unavailable(f"GitHub gives {len(singly)} files neither in batches nor as an archive")
        for sha in singly:
            content = self._one(sha)
            found |= {} if content is None else self._keep({sha: content})
        return found

    def files_at(self, commit: str, paths: Collection[str]) -> dict[str, bytes]:
        """A few small files of a commit by path, in one query; those that are there."""
        fields = " ".join(
            f"f{i}: object(expression: {json.dumps(f'{commit}:{path}')}) {{ ... on Blob {{ oid text }} }}"
            for i, path in enumerate(paths)
        )
        objects = self._query(fields)
        if not objects:
            listed = {path: entry for path, entry in self.tree(commit).files.items() if path in paths}
            blobs = self.blobs(listed.values(), commit)
            return {path: blobs[entry.sha] for path, entry in listed.items() if entry.sha in blobs}
        entries = {path: objects.get(f"f{i}") or {} for i, path in enumerate(paths)}
        found: dict[str, bytes] = {}
        for path, entry in entries.items():
            text, sha = entry.get("text"), entry.get("oid")
            content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None
            if sha and (content is None or blob_id(content) != sha):
                content = self._one(str(sha))
            if content is not None:
                found[path] = content
        return found

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

    def _in_parts(self, shas: Sequence[str]) -> dict[str, bytes]:
        """Of one query; where GitHub does not get done with it, of two with half of it each. What they give is kept at
        once, so that a later attempt asks for the rest alone. Where GitHub is down, the first blob that is asked for by
        itself says so; where only queries fail, the others are left to what does not need them."""
        if self._num_alone >= _MAX_ALONE:
            return {}
        try:
            return self._keep(self._batch(shas))
        except TooSlow:
            if len(shas) == 1:
                self._num_alone += 1
                content = self._one(shas[0])
                return {} if content is None else self._keep({shas[0]: content})
        half = len(shas) // 2
        return self._in_parts(shas[:half]) | self._in_parts(shas[half:])

    def _batch(self, shas: Sequence[str]) -> dict[str, bytes]:
        """One query. `text` is null for binary blobs and not exact for other encodings: those fail the hash."""
        fields = " ".join(f'b{i}: object(oid: "{sha}") {{ ... on Blob {{ text }} }}' for i, sha in enumerate(shas))
        repository = self._query(fields)
        texts = ((sha, (repository.get(f"b{i}") or {}).get("text")) for i, sha in enumerate(shas))
        return {sha: text.encode("utf-8", "surrogatepass") for sha, text in texts if isinstance(text, str)}

    def _query(self, fields: str) -> Mapping[str, Any]:
        """Objects of the repository by alias; nothing where GraphQL refuses: REST is the fallback."""
        query = f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
        owner, name = self._full_name.split("/")
        try:
            with self._waiting():
                return self._api.graphql(query, {"owner": owner, "name": name}).get("repository") or {}
        except Refused:
            return {}

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """A request for contents, if there is time left for one."""
        if self._waited >= READ_SECONDS:
            raise Unavailable(f"GitHub took longer than {READ_SECONDS:.0f} s to give a part of the repository's files")
        start = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - start

    def _one(self, sha: str) -> bytes | None:
        try:
            with self._waiting():
                answer = self._api.get(f"/repos/{self._full_name}/git/blobs/{sha}")
        except (NotFound, Forbidden):  # 403: too large for this API
            return None
        return base64.b64decode(answer["content"])

    def _tarball(self, commit: str, wanted: set[str]) -> dict[str, bytes]:
        """Read in memory; names in the archive are never used as paths."""
        try:
            with self._waiting():
                packed = self._api.download(f"/repos/{self._full_name}/tarball/{commit}", _TARBALL_MAX_BYTES)
        except Refused:
            return {}
        found: dict[str, bytes] = {}
        total = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
                for member in archive:
                    total += member.size
                    if total > _TARBALL_MAX_BYTES:
                        break
                    stream = archive.extractfile(member) if member.isfile() and member.size <= MAX_FILE_BYTES else None
                    if stream is not None and blob_id(content := stream.read()) in wanted:
                        found[blob_id(content)] = content
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            _log.warning("tarball of %s not read to its end: %s", commit, type(error).__name__)
        return found


def _batches(entries: Iterable[Entry]) -> list[list[str]]:
    """Blob ids by query, within `BATCH` and `BATCH_BYTES`; those that GraphQL would cut are in none."""
    batches: list[list[str]] = [[]]
    size = 0
    for entry in entries:
        if entry.size > _GRAPHQL_MAX_BYTES:
            continue
        if batches[-1] and (len(batches[-1]) >= BATCH or size + entry.size > BATCH_BYTES):
            batches.append([])
            size = 0
        batches[-1].append(entry.sha)
        size += entry.size
    return [batch for batch in batches if batch]
