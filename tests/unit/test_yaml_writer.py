"""What is written is read back as the same value, by all readers of YAML that manifests meet."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.equality import same_json
from kcr_devcluster.go_numbers import as_go_writes
from kcr_devcluster.yaml_json import load_yaml
from kcr_devcluster.yaml_writer import yaml_answer, yaml_documents, yaml_text

ROOT = Path(__file__).parents[2]
# Pieces of which texts are made that some reader takes for something else.
PIECES = (
    "y", "Y", "n", "N", "yes", "No", "ON", "off", "true", "False", "null", "~", "", "=", "<<", "-", "+", ".", "_", ":",
    "0", "1", "7", "8", "60", "12", "0x", "0X", "0o", "0O", "0b", "e", "E", "F", "inf", ".inf", "NaN", "2026-01-01",
    "T", "Z", " ", "#", "\n", "\t", "'", '"', "\\", "{", "[", "]", ",", "&", "*", "!", "|", ">", "%", "@", "`", "?",
    "---", "...", "é", "\u0085", "\u00a0", "\u2028", "\ufeff", "\x00", "\x1b", "\x7f", "😀", "\U0010ffff",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)
LONG = st.lists(st.sampled_from(("word", "a: b", "#", "y", "1e3", "-", "'", "\n", "  ")), min_size=20).map(" ".join)
NUMBERS = st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | NUMBERS | TEXTS | LONG,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


def as_go_numbers(value: Any) -> Any:
    """Return a value with numbers as the JSON of Go has them: 1.0 is 1."""
    if isinstance(value, dict):
        return {name: as_go_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_go_numbers(one) for one in value]
    beyond = type(value) is int and not -(2**63) <= value < 2**63
    return as_go_writes(float(value) if beyond else value)


@given(value=VALUES)
def test_what_is_written_is_read_back_by_every_reader(value: Any) -> None:
    text = yaml_text(value)
    assert same_json(yaml.safe_load(text), value)
    assert same_json(load_yaml(text), as_go_numbers(value))


# go-yaml writes the key of a merge plain, and reads it as one.
@given(value=VALUES.filter(lambda value: '"<<":' not in json.dumps(value)))
def test_answer_is_read_back_by_the_reader_of_kubernetes(value: Any) -> None:
    numbers = as_go_numbers(value)
    assert same_json(load_yaml(yaml_answer(numbers)), numbers)


@given(text=TEXTS)
def test_text_is_text_wherever_it_stands(text: str) -> None:
    value = {text: [text, {text: {"a": text, text: text}}], "list": [[text], [[text]]]}
    written = yaml_text(value)
    assert load_yaml(written) == value == yaml.safe_load(written)


@pytest.mark.parametrize(
    "text",
    [
        *("y", "Y", "n", "N", "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"),
        *("true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "~", "<<", "="),
        *("1e3", "1E3", "12e03", ".5e1", "+.5", "1e-7", "1.", ".5", "1._5", "08", "09", "+1", "1_000", "-_1", "0_8"),
        *("0o17", "0o644", "0O17", "0X1F", "0x1f", "0b1", "-0x1", "0x_1", "12:30", "08:30", "190:20:30", "20:30:40.5"),
        *(".inf", "-.Inf", "+.INF", ".nan", ".NaN", "2026-01-01", "2026-01-01T00:00:00Z"),
    ],
)
def test_text_that_a_reader_takes_for_something_else_is_quoted(text: str) -> None:
    """Source: cel-and-bodies.md, B1, B2 and B21."""
    assert yaml_text({"enum": [text], text: 1}) == f'enum:\n- "{text}"\n"{text}": 1\n'


@pytest.mark.parametrize(
    "text",
    ["website", "v1", "example.dev/v1", "100m", "1.2.3", "10.0.0.1", "10.0.0.0/8", "yep", "no-op", "0x", "e3", "é"],
)
def test_text_that_no_reader_misreads_stays_plain(text: str) -> None:
    assert yaml_text({"a": text}) == f"a: {text}\n"


def test_lines_of_a_text_are_written_as_they_are() -> None:
    assert yaml_text({"data": "a: b\n  c\n"}) == "data: |\n  a: b\n    c\n"


def test_value_that_occurs_twice_is_written_twice() -> None:
    rule = {"verbs": ["get"]}
    assert yaml_documents([[rule, rule], rule]) == ("- verbs:\n  - get\n- verbs:\n  - get\n---\nverbs:\n- get\n")


def test_no_module_writes_yaml_with_another_writer() -> None:
    written = re.compile(r"\byaml\.(?:safe_)?(?:dump|serialize|emit)(?:_all)?\(")
    code = [path for name in ("kcr", "controllers", "devcluster", "tools") for path in (ROOT / name).rglob("*.py")]
    # The library does not need the development cluster, and quotes what the writer of that one would.
    assert [str(path.relative_to(ROOT)) for path in code if written.search(path.read_text(encoding="utf-8"))] == [
        "kcr/cli/output.py"
    ]


def test_no_other_module_of_the_cluster_reads_yaml() -> None:
    """The library reads kubeconfigs by itself: it does not need the development cluster."""
    read = re.compile(r"\byaml\.(?:(?:safe|full|unsafe)_)?(?:load|compose|parse|scan)(?:_all)?\(")
    code = [path for name in ("devcluster", "tools") for path in (ROOT / name).rglob("*.py")]
    assert [path.stem for path in code if read.search(path.read_text(encoding="utf-8"))] == []
