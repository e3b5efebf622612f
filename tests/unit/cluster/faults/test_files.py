"""Files of faults."""

from pathlib import Path

import pytest

from kcr.errors import ConfigError
from kcr_devcluster.cluster.faults import read_faults
from tests.kit.documents import ROOT


def test_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("seed: 3\nfaults:\n- {verb: create, resource: pods, nth: 1, loseReply: true}\n- {fail: 429}\n")
    first, second = (one.rule for one in read_faults(file).rules)
    assert (first.verb, first.resource, first.nth, first.lose_reply) == ("create", "pods", 1, True)
    assert second.fail == 429


def test_file_of_the_guide_is_read(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "dev-cluster.md").read_text(encoding="utf-8")
    (tmp_path / "faults.yaml").write_text(guide.partition("```yaml\n")[2].partition("```")[0])
    read_faults(tmp_path / "faults.yaml")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("[]", "a mapping with a list `faults`", id="list"),
        pytest.param("faults: []\nmore: 1", "a mapping with a list `faults`", id="another-field"),
        pytest.param("faults: []\nseed: x", "seed: a whole number is needed", id="seed"),
        pytest.param(
            "faults: [{fail: 409}, {verb: creat, fail: 409}]",
            "rule 2: Invalid enum value 'creat' - at `..verb`: get, list, ",
            id="verb",
        ),
        pytest.param("faults: [{fial: 409}]", "rule 1: Object contains unknown field `fial`", id="unknown"),
        pytest.param("faults: [{fail: 200}]", "rule 1: Invalid enum value 200 - at `..fail`: 403, 404", id="code"),
        pytest.param(
            "faults: [{verb: get}]", "rule 1: one fault is needed, of fail, delay, loseRequest", id="no-fault"
        ),
        pytest.param("faults: [{fail: 409, delay: 1}]", "there are 2", id="two-faults"),
        pytest.param("faults: [{cut: 1}]", "rule 1: cut is a fault of verb: watch", id="cut"),
        pytest.param(
            "faults: [{verb: create, older: 1}]", "older is a fault of verb: get or list or watch", id="older"
        ),
        pytest.param("faults: [{delay: 1, retryAfterSeconds: 1}]", "retryAfterSeconds belongs to fail", id="retry"),
        pytest.param("faults: [{fail: 1}, {}]", "rule 1: .*; rule 2: ", id="each"),
        pytest.param("faults: [", "faults.yaml: ", id="no-yaml"),
    ],
)
def test_wrong_rule_is_named(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "faults.yaml").write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_faults(tmp_path / "faults.yaml")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"none\.yaml: No such file or directory: name a file of rules, in YAML or JSON$"
    ):
        read_faults(tmp_path / "none.yaml")
