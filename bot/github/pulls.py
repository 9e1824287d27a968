"""A pull request as we read it, the same value from REST and from GraphQL, where one query brings its talk too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REPOSITORY_FIELDS = "nameWithOwner defaultBranchRef { name }"
PULL_FIELDS = """number title state isDraft url changedFiles author { __typename login }
    baseRefName baseRefOid headRefName headRefOid headRepository { nameWithOwner }"""
"""Beside the two lists of `bot.github.talk`, whose ``totalCount`` is read as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullInfo:
    """As much of a pull request as we read.

    `num_files` is GitHub's count, also beyond what it lists; `num_comments` are those of the conversation,
    `num_review_comments` those on lines (from GraphQL: their threads). Where GitHub leaves a number of comments out
    there may be some.
    """

    number: int
    author: str
    title: str
    is_draft: bool
    is_open: bool
    base_ref: str
    base_sha: str
    head_sha: str
    num_files: int
    num_comments: int
    num_review_comments: int
    full_name: str
    web_url: str
    head_ref: str
    head_full_name: str | None
    """The repository of the branch; None when the fork is gone."""
    default_branch: str


def from_rest(document: Mapping[str, Any]) -> PullInfo:
    """``GET /pulls/{n}``."""
    base, head = document["base"], document["head"]
    full_name = str(base["repo"]["full_name"])
    return PullInfo(
        number=int(document["number"]),
        author=str((document.get("user") or {}).get("login", "ghost")),
        title=str(document["title"]),
        is_draft=bool(document.get("draft")),
        is_open=document["state"] == "open",
        base_ref=str(base["ref"]),
        base_sha=str(base["sha"]),
        head_sha=str(head["sha"]),
        num_files=int(document.get("changed_files", 0)),
        num_comments=int(document.get("comments", 1)),
        num_review_comments=int(document.get("review_comments", 1)),
        full_name=full_name,
        web_url=_root(str(document["html_url"]), full_name),
        head_ref=str(head["ref"]),
        head_full_name=str(head["repo"]["full_name"]) if head.get("repo") else None,
        default_branch=str(base["repo"].get("default_branch", "")),
    )


def from_graph(repository: Mapping[str, Any]) -> PullInfo:
    """A repository's `REPOSITORY_FIELDS` with its ``pullRequest``: `PULL_FIELDS` and the two lists."""
    pull = repository["pullRequest"]
    full_name = str(repository["nameWithOwner"])
    return PullInfo(
        number=int(pull["number"]),
        author=_login(pull.get("author")),
        title=str(pull["title"]),
        is_draft=bool(pull["isDraft"]),
        is_open=pull["state"] == "OPEN",
        base_ref=str(pull["baseRefName"]),
        base_sha=str(pull["baseRefOid"]),
        head_sha=str(pull["headRefOid"]),
        num_files=int(pull["changedFiles"]),
        num_comments=int(pull["comments"]["totalCount"]),
        num_review_comments=int(pull["reviewThreads"]["totalCount"]),
        full_name=full_name,
        web_url=_root(str(pull["url"]), full_name),
        head_ref=str(pull["headRefName"]),
        head_full_name=str(pull["headRepository"]["nameWithOwner"]) if pull.get("headRepository") else None,
        default_branch=str((repository.get("defaultBranchRef") or {}).get("name", "")),
    )


def _login(actor: Mapping[str, Any] | None) -> str:
    """As REST has it: a deleted account is ``ghost``, and an app has a suffix that GraphQL leaves out."""
    if actor is None:
        return "ghost"
    login = str(actor["login"])
    return f"{login.removesuffix('[bot]')}[bot]" if actor.get("__typename") == "Bot" else login


def _root(url: str, full_name: str) -> str:
    """``https://github.com/acme/training/pull/7`` -> ``https://github.com``."""
    return url.split(f"/{full_name}/")[0]
