"""Repositories, commits, trees, blobs and file contents."""

from __future__ import annotations

import base64
from urllib.parse import quote

from bot.localhub.clock import stamp
from bot.localhub.gitrepo import CommitInfo, TreeEntry
from bot.localhub.model import Json, Repository
from bot.localhub.patches import FileChange
from bot.localhub.payloads import people
from bot.localhub.urls import Urls

_LINKS = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}
_COUNTS = (*(f"{name}_count" for name in ("forks", "open_issues", "stargazers", "watchers")), "forks")
_COUNTS += ("open_issues", "watchers")
MAX_CONTENT_BYTES = 1024 * 1024  # above it the contents API leaves the content out (encoding "none")


def api_path(repo: Repository) -> str:
    """``/repos/owner/name``."""
    return f"/repos/{repo.full_name}"


def repository(urls: Urls, repo: Repository) -> Json:
    """A ``full-repository``, which is a ``repository`` too."""
    base = urls.api(api_path(repo))
    web = urls.web(f"/{repo.full_name}")
    moment = stamp(repo.created_at)
    return {
        "id": repo.id,
        "node_id": f"R_{repo.id}",
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.is_private,
        "visibility": "private" if repo.is_private else "public",
        "owner": people.account(urls, repo.owner),
        "html_url": web,
        "description": None,
        "fork": repo.parent is not None,
        "url": base,
        **{f"{name}_url": base + suffix for name, suffix in _LINKS.items()},
        "git_url": web.replace("http://", "git://") + ".git",
        "ssh_url": f"git@localhub:{repo.full_name}.git",
        "clone_url": f"{web}.git",
        "svn_url": web,
        "mirror_url": None,
        "homepage": None,
        "language": "Python",
        "license": None,
        "default_branch": repo.default_branch,
        **dict.fromkeys(("created_at", "updated_at", "pushed_at"), moment),
        **dict.fromkeys(("archived", "disabled", "has_pages", "has_wiki", "has_discussions", "is_template"), False),
        **dict.fromkeys(("has_issues", "has_projects", "has_downloads", "allow_forking"), True),
        "web_commit_signoff_required": False,
        "topics": [],
        "size": 1,
        **dict.fromkeys(_COUNTS, 0),
        "network_count": 0,
        "subscribers_count": 0,
    }


def commit(urls: Urls, repo: Repository, info: CommitInfo) -> Json:
    """A ``commit`` without its files."""
    api = urls.api(f"{api_path(repo)}/commits/{info.sha}")
    tree = {"sha": info.tree, "url": urls.api(f"{api_path(repo)}/git/trees/{info.tree}")}
    return {
        "sha": info.sha,
        "node_id": f"C_{info.sha}",
        "url": api,
        "html_url": urls.web(f"/{repo.full_name}/commit/{info.sha}"),
        "comments_url": f"{api}/comments",
        "author": None,
        "committer": None,
        "commit": {
            "url": urls.api(f"{api_path(repo)}/git/commits/{info.sha}"),
            "message": info.message,
            "tree": tree,
            "comment_count": 0,
            "author": {"name": info.author_name, "email": info.author_email, "date": info.author_date},
            "committer": {"name": info.committer_name, "email": info.committer_email, "date": info.committer_date},
        },
        "parents": [
            {
                "sha": sha,
                "url": urls.api(f"{api_path(repo)}/commits/{sha}"),
                "html_url": urls.web(f"/{repo.full_name}/commit/{sha}"),
            }
            for sha in info.parents
        ],
    }


def simple_commit(info: CommitInfo) -> Json:
    """A ``simple-commit``."""
    return {
        "id": info.sha,
        "tree_id": info.tree,
        "message": info.message,
        "timestamp": info.committer_date,
        "author": {"name": info.author_name, "email": info.author_email},
        "committer": {"name": info.committer_name, "email": info.committer_email},
    }


def file(urls: Urls, repo: Repository, head_sha: str, change: FileChange) -> Json:
    """A ``diff-entry``. `patch` and `previous_filename` are left out where GitHub leaves them out."""
    path = quote(change.path)
    entry: Json = {
        "sha": change.sha,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": urls.web(f"/{repo.full_name}/blob/{head_sha}/{path}"),
        "raw_url": urls.web(f"/{repo.full_name}/raw/{head_sha}/{path}"),
        "contents_url": urls.api(f"{api_path(repo)}/contents/{path}?ref={head_sha}"),
    }
    if change.patch is not None:
        entry["patch"] = change.patch
    if change.previous_path is not None:
        entry["previous_filename"] = change.previous_path
    return entry


def encoded(content: bytes) -> str:
    """Base64 as GitHub sends it: a line end after every 60 characters."""
    text = base64.b64encode(content).decode()
    return "".join(text[start : start + 60] + "\n" for start in range(0, len(text), 60))


def blob(urls: Urls, repo: Repository, sha: str, content: bytes) -> Json:
    """A ``blob``."""
    return {
        "sha": sha,
        "node_id": f"B_{sha}",
        "size": len(content),
        "url": urls.api(f"{api_path(repo)}/git/blobs/{sha}"),
        "content": encoded(content),
        "encoding": "base64",
    }


def tree_entry(urls: Urls, repo: Repository, entry: TreeEntry) -> Json:
    """One row of a ``git-tree``."""
    row: Json = {"path": entry.path, "mode": entry.mode, "type": entry.type, "sha": entry.sha}
    if entry.type != "commit":
        kind = "blobs" if entry.type == "blob" else "trees"
        row["url"] = urls.api(f"{api_path(repo)}/git/{kind}/{entry.sha}")
    if entry.size is not None:
        row["size"] = entry.size
    return row


def content(urls: Urls, repo: Repository, ref: str, path: str, entry: TreeEntry) -> Json:
    """What a ``content-file`` and a row of a ``content-directory`` share."""
    kinds = {"tree": ("dir", "trees"), "commit": ("submodule", "trees")}
    kind, family = kinds.get(entry.type, ("symlink" if entry.mode == "120000" else "file", "blobs"))
    shown = "tree" if kind == "dir" else "blob"
    links = {
        "self": urls.api(f"{api_path(repo)}/contents/{quote(path)}?ref={ref}"),
        "git": urls.api(f"{api_path(repo)}/git/{family}/{entry.sha}"),
        "html": urls.web(f"/{repo.full_name}/{shown}/{ref}/{quote(path)}"),
    }
    raw = urls.web(f"/{repo.full_name}/raw/{ref}/{quote(path)}") if kind == "file" else None
    return {
        "type": kind,
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": links["self"],
        "html_url": links["html"],
        "git_url": links["git"],
        "download_url": raw,
        "_links": links,
    }


def file_content(urls: Urls, repo: Repository, ref: str, path: str, entry: TreeEntry, data: bytes) -> Json:
    """A ``content-file`` (or ``content-symlink``)."""
    body = content(urls, repo, ref, path, entry)
    if body["type"] == "symlink":
        return body | {"target": data.decode("utf-8", "replace")}
    if len(data) > MAX_CONTENT_BYTES:
        return body | {"content": "", "encoding": "none"}
    return body | {"content": encoded(data), "encoding": "base64"}
