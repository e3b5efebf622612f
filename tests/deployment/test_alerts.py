"""Alerts and dashboard ask for metrics that exist, and each alert has its runbook."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import promql_parser
import pytest

from tests.kit.charts import NEEDS_HELM, documented_metrics, manifests, of_kind
from tests.kit.documents import ROOT

RUNBOOKS = ROOT / "docs" / "runbooks"
# Without election there is one replica and another alert, with sharding there are others.
VALUES: Mapping[str, Mapping[str, Any]] = {
    "elected": {"metrics": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}},
    "sharded": {"sharding": {"shards": 8}, "metrics": {"prometheusRule": {"enabled": True}}},
    "alone": {"replicas": 1, "leaderElection": {"enabled": False}, "metrics": {"prometheusRule": {"enabled": True}}},
}
# What Prometheus adds to each series, and its own metric of a target.
OF_TARGET = {"namespace", "job", "pod", "instance"}

pytestmark = NEEDS_HELM


@cache
def rules() -> dict[str, dict[str, Any]]:
    """The alerts of the chart by name, under all ways to run it."""
    found = [one for values in VALUES.values() for one in of_kind(manifests(values), "PrometheusRule")]
    return {rule["alert"]: rule for one in found for rule in one["spec"]["groups"][0]["rules"]}


def queries() -> dict[str, str]:
    """All that Prometheus is asked for, by the alert or the title of the panel."""
    asked = {name: rule["expr"] for name, rule in rules().items()}
    (board,) = of_kind(manifests(VALUES["elected"]), "ConfigMap")
    for panel in json.loads(board["data"]["kcr.json"])["panels"]:
        asked |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return asked


def parts(query: str) -> Iterator[promql_parser.Expr]:
    """Yield every expression in a query, itself included."""
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(query), found.append)
    return iter(found)


def selectors(query: str) -> Iterator[promql_parser.VectorSelector]:
    for part in parts(query):
        if isinstance(part, promql_parser.VectorSelector):
            yield part


def unknown(query: str) -> set[str]:
    """What a query names that no series of kcr has: metrics, and labels of those that it names."""
    metrics = {**documented_metrics(), "up": set()}
    names = {selector.name or "" for selector in selectors(query)}
    own = set[str]().union(*(metrics.get(name, set()) for name in names))
    # Where a metric has a label of its target, Prometheus renames the metric's own.
    labels = OF_TARGET | own | {f"exported_{label}" for label in own & OF_TARGET}
    matched = {
        (selector.name or "", matcher.name) for selector in selectors(query) for matcher in selector.matchers.matchers
    }
    wrong = {f"{name}{{{label}}}" for name, label in matched if label not in metrics.get(name, set()) | OF_TARGET}
    grouped = {
        label
        for part in parts(query)
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
        for label in part.modifier.labels
    }
    return (names - metrics.keys()) | wrong | (grouped - labels)


def test_alerts_and_dashboard_use_metrics_and_labels_that_exist() -> None:
    asked = queries()
    assert len(asked) > 20
    assert {name: found for name, query in asked.items() if (found := unknown(query))} == {}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("sum by (name) (workqueue_depth)", set()),
        ("sum by (queue) (workqueue_depth)", {"queue"}),
        ("sum by (exported_namespace) (kcr_jobs)", set()),
        ("sum by (exported_namespace) (workqueue_depth)", {"exported_namespace"}),
        ('workqueue_depth{queue="job"}', {"workqueue_depth{queue}"}),
        ("rate(workqueue_depths[5m])", {"workqueue_depths"}),
        ("sum by (le) (rate(workqueue_queue_duration_seconds_bucket[5m]))", set()),
    ],
)
def test_misspelt_metric_or_label_is_found(query: str, found: set[str]) -> None:
    assert unknown(query) == found


def test_every_alert_has_its_runbook_and_none_is_left_over() -> None:
    found = rules()
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == found.keys()
    index = (RUNBOOKS / "README.md").read_text()
    for name, rule in found.items():
        page = (RUNBOOKS / f"{name}.md").read_text().splitlines()
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
        assert page[0] == f"# {name}"
        assert page[2].split(".")[0].lower() == rule["labels"]["severity"]
        assert f"| [{name}]({name}.md) |" in index


def test_labels_in_a_summary_are_those_of_its_alert() -> None:
    for name, rule in rules().items():
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = {
            label
            for part in parts(rule["expr"])
            if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
            for label in part.modifier.labels
        }
        assert shown <= kept, name


def test_runbooks_are_found_where_the_value_says() -> None:
    values = {"metrics": {"prometheusRule": {"enabled": True, "runbookURLBase": "https://wiki.example/kcr/"}}}
    (found,) = of_kind(manifests(values), "PrometheusRule")
    first = found["spec"]["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"] == "https://wiki.example/kcr/KcrHasNoLeader.md"
