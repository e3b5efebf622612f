"""The report of a rehearsal as a table, as JSON and as a page."""

from datetime import UTC, datetime

import msgspec

from kcr_devcluster.rehearsal.comparison import Condition, Difference
from kcr_devcluster.rehearsal.report import Rate, Report, as_html, as_json, as_text
from kcr_devcluster.rehearsal.snapshot_file import Head, SnapshotKind
from kcr_devcluster.rehearsal.versions import Outcome

HEAD = Head(
    kcr="0.2.0", kubernetes="v1.36.2", server="https://prod:6443", time=datetime(2026, 11, 30, 20, tzinfo=UTC),
    controllers=("shops:setup",), count=5003,
)  # fmt: skip
OLD = Outcome(
    protocol=1, kcr="0.1.0", python="3.11.7",
    requests=[("start", "patch", "shops", 60), ("after", "patch", "shops", 595), ("start", "watch", "shops", 9)],
)  # fmt: skip
NEW = Outcome(
    protocol=1, kcr="0.2.0", python="3.13.1", requests=[("after", "delete", "configmaps", 4)],
    failing={"shops": {"default/blue": "NotFoundError: none"}}, refused=[("patch", "shops", 422, 12)],
)  # fmt: skip
DELETED = [Difference("deletes", "configmaps", f"default/shop{number}-back") for number in range(5)]
CHANGED = [Difference("changes", "shops", "default/blue", "spec.color", '"<b>"', '"red"')]
CONDITIONS = [
    Condition("pods", "Ready", "True", "", 3, 3), Condition("pods", "Ready", "False", "", 1, 2),
    Condition("shops", "Ready", "True", "Up", 3, 3),
]  # fmt: skip


def report(*differences: Difference, seconds: float = 7200) -> Report:
    return Report(HEAD, seconds, ("old/.venv", "new/.venv"), (OLD, NEW), differences, CONDITIONS)


def test_table_names_versions_and_what_is_deleted_first() -> None:
    lines = list(as_text(report(*CHANGED, *DELETED)))
    assert lines[:3] == [
        "old: old/.venv, kcr 0.1.0, Python 3.11.7",
        "new: new/.venv, kcr 0.2.0, Python 3.13.1",
        "shops:setup: 2 h of virtual time from 2026-11-30T20:00:00Z, 5,003 objects of https://prod:6443",
    ]
    words = [" ".join(line.split()) for line in lines]
    names = "default/shop0-back, default/shop1-back, default/shop2-back and 2 more"
    deleted = words.index(f"deletes configmaps 5: {names} the old one keeps it")
    assert words[deleted + 1] == 'changes shops 1: default/blue spec.color: "<b>" → "red"'
    assert "shops default/blue - NotFoundError: none" in words
    assert "patch shops 422 0 12" in words
    assert "pods Ready=False - 1 2" in words
    assert "pods Ready=True - 3 3" not in words
    assert lines[-1] == "the new version deletes 5 and replaces 0 objects that the old one keeps"


def test_what_the_snapshot_lacks_is_told() -> None:
    kinds = (
        SnapshotKind("v1", "ConfigMap", "configmaps", namespaced=True, whole=True),
        SnapshotKind("v1", "Secret", "secrets", namespaced=True, whole=False),
    )
    head = msgspec.structs.replace(HEAD, kinds=kinds, left_out=("pods: forbidden",))
    lines = list(as_text(report()._replace(head=head)))
    assert "left out of the snapshot: pods: forbidden" in lines
    assert "hashes stand for the data of configmaps, which controllers may write anew: see --include-data" in lines
    shown = list(as_text(report()._replace(head=msgspec.structs.replace(head, data=("configmaps",)))))
    assert not [line for line in shown if line.startswith("hashes")]


def test_requests_of_the_first_minute_are_apart_from_those_of_an_hour() -> None:
    rates = report().rates
    assert rates == [
        Rate("delete", "configmaps", 0, 0, 0.0, 4 / (7140 / 3600)),
        Rate("patch", "shops", 60, 0, 300.0, 0.0),
        Rate("watch", "shops", 9, 0, 0.0, 0.0),
    ]
    # A run of less than a minute has no hour.
    assert {one.old_per_hour for one in report(seconds=30).rates} == {0.0}


def test_nothing_deleted_is_said_so() -> None:
    assert list(as_text(report()))[-1].startswith("the new version deletes and replaces nothing")
    assert report(*CHANGED).breaks == 0
    assert report(*CHANGED, Difference("replaces", "configmaps", "default/a")).breaks == 1


def test_json_has_every_object() -> None:
    found = msgspec.json.decode(msgspec.json.encode(as_json(report(*DELETED))))
    assert (found["version"], found["verdict"]) == (1, "breaks")
    assert [one["object"] for one in found["differences"]] == [f"default/shop{number}-back" for number in range(5)]
    assert found["versions"]["new"]["failing"] == {"shops": {"default/blue": "NotFoundError: none"}}
    assert found["requests"][1]["old_per_hour"] == 300.0
    assert found["refused"] == [{"verb": "patch", "resource": "shops", "code": 422, "old": 0, "new": 12}]


def test_page_escapes_what_comes_from_the_cluster_and_asks_for_nothing() -> None:
    page = as_html(report(*CHANGED, *DELETED))
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "<tr class=bad><td>deletes</td>" in page
    assert "http" not in page.replace("https://prod:6443", "")
    assert "<script" not in page
