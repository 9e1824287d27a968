"""What can be said of `deploy/` without an engine: it fits its schemas, and it keeps our promises."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from bot.redis_server import find_server
from bot.settings import web_settings, worker_settings
from tests.bot.queue.stack import free_port
from tests.support import wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
START = ["/opt/preflight/bin/python", "-I", "-m", "preflight"]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def _data(name: str) -> Any:
    return json.loads(gzip.decompress((ROOT / "tests" / "data" / name).read_bytes()))


def _objects(path: Path) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


def _manifests() -> list[Path]:
    return sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")


def _all_objects() -> list[dict[str, Any]]:
    return [item for path in _manifests() for item in _objects(path)]


# --- the image --------------------------------------------------------------------------------------------------


def _dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line and not line.startswith("#")]


def test_the_image_runs_as_nobody_and_is_built_elsewhere() -> None:
    steps = _dockerfile()
    stages = [at for at, (word, _) in enumerate(steps) if word == "FROM"]
    final = steps[stages[-1] :]
    assert len(stages) == 2
    assert "RUN" not in {word for word, _ in final}, "no step of the last stage can install anything"
    assert dict(final)["USER"] == "10001:10001"
    assert json.loads(dict(final)["ENTRYPOINT"]) == START
    assert "--constraint constraints.txt" in " ".join(rest for word, rest in steps if word == "RUN")
    assert re.search(r"ARG PYTHON_IMAGE=python:3\.\d+-slim-\w+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)


def test_the_image_has_what_it_is_made_of_and_nothing_else() -> None:
    copied = [rest.split()[:-1] for word, rest in _dockerfile() if word == "COPY" and not rest.startswith("--from")]
    names = {name for part in copied for name in part}
    assert all((ROOT / name).exists() for name in names)
    allowed = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert names == allowed
    assert {"bot", "estimator", "analyzer", "preflight.py", "app.yml"} <= names


# --- compose ----------------------------------------------------------------------------------------------------


def test_compose_fits_the_specification() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    faults = [
        f"{list(error.path)}: {error.message[:200]}"
        for error in Draft202012Validator(_data("compose-spec.json.gz")).iter_errors(document)
    ]
    assert faults == []


def test_compose_gives_each_process_what_it_needs_and_no_more() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))["services"]
    secrets = {"PREFLIGHT_APP_ID": "1"}
    for name in ("web", "worker"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (
            True,
            ["ALL"],
            ["no-new-privileges:true"],
        )
        assert ":-10001}" in service["user"]
        for variable, place in service["environment"].items():
            if variable.endswith("_FILE"):
                assert Path(place).parent == Path("/run/secrets")
                assert Path(place).name in service["secrets"]
    values = {**secrets, **services["web"]["environment"]}
    stand_in = {key: value for key, value in values.items() if not key.endswith("_FILE")}
    assert web_settings(stand_in | {"PREFLIGHT_WEBHOOK_SECRET": "x" * 20}).redis_url == "redis://redis:6379/0"
    assert worker_settings(stand_in | {"PREFLIGHT_PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----"}).app_id == "1"
    assert "ports" not in services["redis"]
    assert services["redis"]["networks"] == ["back"]


def test_redis_starts_with_our_configuration_and_keeps_what_it_was_told(tmp_path: Path) -> None:
    port = free_port()
    command = [str(find_server()), str(DEPLOY / "redis.conf"), "--dir", str(tmp_path), "--port", str(port)]
    command += ["--bind", "127.0.0.1", "--loglevel", "warning"]

    def start() -> tuple[subprocess.Popen[bytes], redis.Redis]:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = redis.Redis(port=port)

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

        wait_for(answers, 20, "Redis answers")
        return process, client

    process, client = start()
    try:
        info: Any = client.info()
        assert (info["aof_enabled"], info["maxmemory_policy"]) == (1, "noeviction")
        client.set("kept", "yes")
        client.waitaof(1, 0, 5000)
        process.kill()
        process.wait(10)
        process, client = start()
        assert client.get("kept") == b"yes"
    finally:
        process.kill()
        process.wait(10)


# --- systemd ----------------------------------------------------------------------------------------------------


def _unit(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_ours_and_confines_it(path: Path) -> None:
    unit = _unit(path)
    assert unit["ExecStart"][0].split()[:4] == START
    wanted = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateTmp": "yes", "CapabilityBoundingSet": ""}
    assert {key: unit[key][0] for key in wanted} == wanted
    assert unit["User"] == ["preflight"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong(path: Path, tmp_path: Path) -> None:
    here = tmp_path / path.name
    here.write_text(path.read_text().replace(START[0], sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)], check=False, capture_output=True, text=True, timeout=60
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
    assert (done.returncode, said) == (0, []), done.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(here)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert rated.returncode == 0, rated.stdout[-400:]


# --- Kubernetes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", _manifests(), ids=lambda path: path.name)
def test_manifests_fit_kubernetes_own_schema(path: Path) -> None:
    schema = _data("kubernetes-1.34.json.gz")
    for item in _objects(path):
        name = f"{item['apiVersion']}/{item['kind']}"
        root = {"$ref": f"#/definitions/{schema['kinds'][name]}", "definitions": schema["definitions"]}
        faults = [
            f"{name} {list(error.path)}: {error.message[:200]}" for error in Draft7Validator(root).iter_errors(item)
        ]
        assert faults == []


def test_pods_keep_to_the_restricted_standard() -> None:
    pods = [item["spec"]["template"] for item in _all_objects() if "template" in item.get("spec", {})]
    assert len(pods) == 3
    for pod in pods:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_everything_that_is_named_is_there() -> None:
    objects = _all_objects()
    there = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for item in objects:
        spec = item.get("spec", {})
        if item["kind"] in {"Service", "PodDisruptionBudget"}:
            wanted = spec["selector"].get("matchLabels", spec["selector"])
            labels = [
                one["spec"]["template"]["metadata"]["labels"] for one in objects if "template" in one.get("spec", {})
            ]
            assert any(wanted.items() <= one.items() for one in labels), item["metadata"]["name"]
        if item["kind"] == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            assert (target["kind"], target["name"]) in there
        for pod in (spec.get("template"),):
            for volume in (pod or {}).get("spec", {}).get("volumes", []):
                if "secret" in volume:
                    assert ("Secret", volume["secret"]["secretName"]) in there
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    listed = {DEPLOY / "kubernetes" / name for name in kustomization["resources"]}
    assert all(path.is_file() for path in listed)
    assert not any("example" in path.name for path in listed), "an example of a Secret must not be applied"


def test_redis_is_configured_alike_everywhere() -> None:
    lines = (line.split() for line in (DEPLOY / "redis.conf").read_text().splitlines() if line and line[0] != "#")
    conf = {line[0]: " ".join(line[1:]) for line in lines}
    (redis_set,) = [item for item in _all_objects() if item["kind"] == "StatefulSet"]
    args = redis_set["spec"]["template"]["spec"]["containers"][0]["args"][1:]
    given = dict(zip((item.removeprefix("--") for item in args[::2]), args[1::2], strict=True))
    assert {key: value for key, value in given.items() if key != "dir"}.items() <= conf.items()
    assert {"appendonly", "maxmemory-policy"} <= given.keys()


def test_the_autoscaler_asks_for_a_metric_that_we_have() -> None:
    (scaler,) = [item for item in _all_objects() if item["kind"] == "HorizontalPodAutoscaler"]
    metric = scaler["spec"]["metrics"][0]["external"]["metric"]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "bot" / "telemetry").glob("*.py"))
    assert f'"{metric["name"]}"' in sources
