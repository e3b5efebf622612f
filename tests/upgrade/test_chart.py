"""A release of the chart of 0.1.0 becomes one of the present chart, with its values."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.charts import NEEDS_HELM, documents, manifests, of_kind
from tools.chart import CHART
from tools.helm import find_helm

# Values that a user of 0.1.0 may have set.
SETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "all-controllers": {"controllers": ["job", "ttl", "cronjob"], "takeOver": True, "replicas": 3},
    "one-namespace": {"watchNamespace": "team", "rbac": {"create": False}, "fullnameOverride": "batch"},
    "monitored": {
        "metrics": {
            "secure": True, "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True},
        },
        "networkPolicy": {"enabled": True},
    },
}  # fmt: skip


def rendered_before(checkout: Path, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the chart of 0.1.0 makes of values."""
    command = [str(find_helm()), "template", "kcr", str(checkout / "charts" / "kcr"), "--namespace", "kcr-system"]
    done = subprocess.run(
        [*command, "--values", "-"], input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=True
    )
    return documents(done.stdout)


def narrower(old: Mapping[str, Any], new: Mapping[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The values that the old schema accepts and the new one may refuse."""
    for name, was in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield (*path, name)
        else:
            yield from narrower(was, new["properties"][name], *path, name)
    left = {name: rule for name, rule in old.items() if name not in ("properties", "description")}
    if left != {name: new[name] for name in left if name in new}:
        yield path


def test_schema_accepts_each_value_of_before(checkout: Path) -> None:
    old, new = (
        json.loads((chart / "values.schema.json").read_text()) for chart in (checkout / "charts" / "kcr", CHART)
    )
    assert not list(narrower(old, new))
    assert list(narrower(new, old)), "this comparison finds new values as well"


@NEEDS_HELM
def test_all_values_of_before_render_at_once(checkout: Path) -> None:
    assert manifests(yaml.safe_load((checkout / "charts" / "kcr" / "values.yaml").read_text()))


@NEEDS_HELM
@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_objects_of_before_are_changed_in_place(checkout: Path, values: Mapping[str, Any]) -> None:
    before, after = rendered_before(checkout, values), manifests(values)

    def names(found: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
        return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found}

    assert names(before) <= names(after)
    (old,), (new,) = of_kind(before, "Deployment"), of_kind(after, "Deployment")
    assert old["spec"]["selector"] == new["spec"]["selector"], "it is immutable"
    for binding in [one for one in before if one["kind"].endswith("Binding")]:
        (same,) = [
            one for one in of_kind(after, binding["kind"]) if one["metadata"]["name"] == binding["metadata"]["name"]
        ]
        assert same["roleRef"] == binding["roleRef"], "it is immutable"
