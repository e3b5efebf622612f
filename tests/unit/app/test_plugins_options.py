"""Every tunable comes from the environment (design: command line)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from kcr.api.bindaddress import BindAddress
from kcr.api.core import Pod
from kcr.app.plugins import Setup, attach, find_plugins, read_options
from kcr.cli.run import command
from kcr.controllers.job import controller as job
from kcr.controllers.job import ttl
from kcr.errors import ConfigError
from kcr.feature_gates import read_gates
from kcr.testing import FakeManager, VirtualClock

GATES = "GenericWorkload=true,WorkloadWithJob=true"
JOB: dict[str, tuple[str, str, object]] = {
    "KCR_WORKERS": ("7", "workers", 7),
    "KCR_TAKE_OVER": ("true", "take_over", True),
    "KCR_JOB_POD_FAILURE_BACKOFF": ("0.05", "job_pod_failure_backoff", 0.05),
    "KCR_MAX_JOB_POD_FAILURE_BACKOFF": ("2", "max_job_pod_failure_backoff", 2.0),
    "KCR_SYNC_JOB_BATCH_PERIOD": ("0", "sync_job_batch_period", 0.0),
    "KCR_MAX_UNCOUNTED_PODS": ("10", "max_uncounted_pods", 10),
    "KCR_MAX_POD_CREATE_DELETE_PER_SYNC": ("20", "max_pod_create_delete_per_sync", 20),
    "KCR_MAX_METRIC_NAMESPACES": ("0", "max_metric_namespaces", 0),
    "KCR_FAILURE_DIGEST": ("true", "failure_digest", True),
    "KCR_FEATURE_GATES": (GATES, "feature_gates", read_gates(GATES)),
}
RUN: dict[str, tuple[str, str, object]] = {
    "KCR_CONTROLLERS": ("job,ttl", "controllers", ("job", "ttl")),
    "KCR_KUBECONFIG": ("/some/where", "kubeconfig", "/some/where"),
    "KCR_CONTEXT": ("staging", "context", "staging"),
    "KCR_EXEC_PLUGINS": ("never", "exec_plugins", "never"),
    "KCR_NAMESPACE": ("mine", "namespace", "mine"),
    "KCR_NAMESPACE_SELECTOR": ("team=blue", "namespace_selector", "team=blue"),
    "KCR_TAKE_OVER": ("1", "take_over", True),
    "KCR_NO_CONTROLLERS": ("1", "no_controllers", True),
    "KCR_WORKERS": ("1", "workers", 1),
    "KCR_FEATURE_GATES": (GATES, "feature_gates", read_gates(GATES)),
    "KCR_DRY_RUN": ("server", "dry_run", "server"),
    "KCR_LEADER_ELECT": ("true", "leader_elect", True),
    "KCR_LEADER_ELECT_RESOURCE_NAME": ("mine", "leader_elect_resource_name", "mine"),
    "KCR_LEADER_ELECT_RESOURCE_NAMESPACE": ("kube-system", "leader_elect_resource_namespace", "kube-system"),
    "KCR_LEADER_ELECT_LEASE_DURATION": ("1m0s", "leader_elect_lease_duration", timedelta(minutes=1)),
    "KCR_LEADER_ELECT_RENEW_DEADLINE": ("40s", "leader_elect_renew_deadline", timedelta(seconds=40)),
    "KCR_LEADER_ELECT_RETRY_PERIOD": ("500ms", "leader_elect_retry_period", timedelta(seconds=0.5)),
    "KCR_SHARDS": ("8", "shards", 8),
    "KCR_EVENTS_API": ("auto", "events_api", "auto"),
    "KCR_KUBE_API_QPS": ("50.5", "kube_api_qps", 50.5),
    "KCR_KUBE_API_BURST": ("60", "kube_api_burst", 60),
    "KCR_METRICS_BIND_ADDRESS": (":8080", "metrics_bind_address", BindAddress("", 8080)),
    "KCR_METRICS_SECURE": ("true", "metrics_secure", True),
    "KCR_METRICS_CERT_PATH": ("/certs", "metrics_cert_path", "/certs"),
    "KCR_METRICS_CERT_NAME": ("a.crt", "metrics_cert_name", "a.crt"),
    "KCR_METRICS_CERT_KEY": ("a.key", "metrics_cert_key", "a.key"),
    "KCR_WEBHOOK_HOST": ("127.0.0.1", "webhook_host", "127.0.0.1"),
    "KCR_WEBHOOK_PORT": ("-1", "webhook_port", -1),
    "KCR_WEBHOOK_CERT_DIR": ("/certs", "webhook_cert_dir", "/certs"),
    "KCR_WEBHOOK_CERT_NAME": ("a.crt", "webhook_cert_name", "a.crt"),
    "KCR_WEBHOOK_KEY_NAME": ("a.key", "webhook_key_name", "a.key"),
    "KCR_WEBHOOK_CLIENT_CA_NAME": ("ca.crt", "webhook_client_ca_name", "ca.crt"),
    "KCR_WEBHOOK_SERVICE_NAME": ("web", "webhook_service_name", "web"),
    "KCR_WEBHOOK_SERVICE_NAMESPACE": ("team", "webhook_service_namespace", "team"),
    "KCR_WEBHOOK_SECRET_NAME": ("certs", "webhook_secret_name", "certs"),
    "KCR_WEBHOOK_SHUTDOWN_DELAY": ("10s", "webhook_shutdown_delay", timedelta(seconds=10)),
    "KCR_HEALTH_PROBE_BIND_ADDRESS": ("127.0.0.1:8081", "health_probe_bind_address", BindAddress("127.0.0.1", 8081)),
    "KCR_MAX_CONNECTIONS": ("500", "max_connections", 500),
    "KCR_READY_FILE": ("/some/ready", "ready_file", Path("/some/ready")),
    "KCR_LOG_FORMAT": ("json", "log_format", "json"),
    "KCR_LOG_LEVEL": ("debug", "log_level", "debug"),
}


@pytest.mark.parametrize("variable", JOB)
def test_variable_reaches_the_job_controller(variable: str) -> None:
    text, field, value = JOB[variable]
    given = read_options(job.Options, {variable: text}, {})
    assert getattr(given, field) == value != getattr(job.Options(), field)


def test_all_options_of_the_job_controller_are_in_the_table() -> None:
    assert {field for _, field, _ in JOB.values()} == set(job.Options.__struct_fields__)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        pytest.param("KCR_SYNC_JOB_BATCH_PERIOD", "-1", id="below-zero"),
        pytest.param("KCR_MAX_UNCOUNTED_PODS", "0", id="no-pod-at-all"),
        pytest.param("KCR_MAX_POD_CREATE_DELETE_PER_SYNC", "1.5", id="half-a-pod"),
        pytest.param("KCR_JOB_POD_FAILURE_BACKOFF", "nan", id="no-number"),
        pytest.param("KCR_MAX_JOB_POD_FAILURE_BACKOFF", "inf", id="for-ever"),
    ],
)
def test_value_that_makes_no_sense_is_named(variable: str, text: str) -> None:
    with pytest.raises(click.UsageError, match=f"{variable}: its value is not a (whole )?number (of|from)"):
        read_options(job.Options, {variable: text}, {})


@pytest.mark.parametrize("variable", RUN)
def test_variable_is_an_option_of_run(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, name, value = RUN[variable]
    monkeypatch.setenv(variable, text)
    assert command.make_context("run", []).params[name] == value


def test_all_options_of_run_are_in_the_table() -> None:
    assert {option.name for option in command.params} == {name for _, name, _ in RUN.values()}


@pytest.mark.kcr_virtual
async def test_command_line_and_environment_make_the_options_of_all(kcr_clock: VirtualClock) -> None:
    seen: dict[str, Any] = {}

    def job_setup(manager: FakeManager, options: job.Options) -> None:
        seen["job"] = options

    def ttl_setup(manager: FakeManager, options: ttl.Options) -> None:
        seen["ttl"] = options
        manager.store(Pod)

    environ = {"KCR_MAX_UNCOUNTED_PODS": "3", "KCR_WORKERS": "9"}
    plugins: dict[str, Setup] = {"job": job_setup, "ttl": ttl_setup}
    attach(plugins, FakeManager(clock=kcr_clock), environ, workers=1, take_over=True)
    assert seen["job"] == job.Options(workers=1, take_over=True, max_uncounted_pods=3)
    assert seen["ttl"] == ttl.Options(workers=1, take_over=True)


@pytest.mark.kcr_virtual
async def test_ttl_runs_beside_others_only_when_told_so(kcr_clock: VirtualClock) -> None:
    plugins = find_plugins(("job", "ttl"))
    with pytest.raises(ConfigError, match=r"'ttl' cannot share a cluster .* --take-over"):
        attach(plugins, FakeManager(clock=kcr_clock), {}, workers=None, take_over=False)
    attach(plugins, FakeManager(clock=kcr_clock), {}, workers=None, take_over=True)
