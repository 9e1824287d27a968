"""The worker runs our job functions and nothing else, in a real rq worker on a real server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from rq import Callback, Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from bot.queue import gate, jobs, names
from bot.queue.worker import PreflightWorker
from bot.settings import WorkerTimes
from bot.store import Keys
from tests.support import WEBHOOK_SECRET, wait_for


@pytest.fixture
def worker(
    client: redis.Redis, redis_url: str, private_key: str, preflight: Callable[..., subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    return preflight(
        "worker",
        "--one",
        REDIS_URL=redis_url,
        PREFLIGHT_APP_ID="1",
        PREFLIGHT_PRIVATE_KEY=private_key,
        PREFLIGHT_WEBHOOK_SECRET=WEBHOOK_SECRET,
        GITHUB_API_URL="http://127.0.0.1:9",
    )


def _ends(job: Job) -> JobStatus | None:
    wait_for(lambda: job.get_status(refresh=True) in {JobStatus.FAILED, JobStatus.FINISHED}, 30, "the job ends")
    return job.get_status()


def test_a_foreign_function_is_refused(worker: subprocess.Popen[bytes], client: redis.Redis, tmp_path: Path) -> None:
    queue = Queue(names.REVIEW, connection=client, serializer=JSONSerializer)
    trace = tmp_path / "was-here"
    for function, arguments in (
        ("os.system", [f"touch {trace}"]),
        ("subprocess.check_call", [["touch", str(trace)]]),
        ("bot.queue.jobs.open_room", []),
    ):
        job = queue.enqueue_call(function, args=arguments)
        assert _ends(job) == JobStatus.FAILED
        result = job.latest_result()
        assert result is not None
        assert "ForbiddenJob" in str(result.exc_string)
    assert not trace.exists()


def test_callbacks_of_a_job_are_not_called(
    worker: subprocess.Popen[bytes], client: redis.Redis, tmp_path: Path
) -> None:
    queue = Queue(names.REVIEW, connection=client, serializer=JSONSerializer)
    callback = Callback("shutil.rmtree")  # rq would call it with (job, connection, …)
    ours = queue.enqueue_call(names.REVIEW_PULL, args=["no-such-review"], on_success=callback, on_failure=callback)
    assert _ends(ours) == JobStatus.FINISHED


def test_the_list_names_functions_that_exist() -> None:
    for name in names.JOBS:
        module, _, function = name.rpartition(".")
        assert module in {jobs.__name__, gate.__name__}  # modules of ours, imported by their name
        assert callable(getattr({jobs.__name__: jobs, gate.__name__: gate}[module], function))


def test_the_lock_of_a_cleaner_that_was_killed_goes_soon(client: redis.Redis) -> None:
    """Else a command whose worker died with it is answered a quarter of an hour later."""
    for queue in PreflightWorker(client, Keys(), WorkerTimes()).queues:
        assert queue.acquire_maintenance_lock()
        assert not queue.acquire_maintenance_lock()
        assert 0 < client.ttl(queue.registry_cleaning_key) <= 60
