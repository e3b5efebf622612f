"""`examples/README.md` leads through all there is."""

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_every_manifest_is_listed_and_exists() -> None:
    listed = re.findall(r"[`/\w.-]+\.yaml", README)
    # The chart of `kcr init --webhook` is listed as a whole.
    found = (path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.yaml"))
    there = {str(path) for path in found if "chart" not in path.parts}
    assert {name.strip("`").removeprefix("examples/") for name in listed} == there


def test_every_program_it_names_exists() -> None:
    named = re.findall(r"examples/[\w/-]+\.(?:py|sh)", README)
    assert named
    for name in named:
        assert (EXAMPLES.parent / name).exists(), name


def test_every_job_it_names_is_in_a_manifest() -> None:
    manifests = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES.rglob("*.yaml"))
    named = re.findall(r"(?:jobs?/|job |job-name=|quota )([a-z][\w-]+)(?= -|`)", README)
    assert named
    for name in named:
        assert f"\n  name: {name}\n" in manifests, name
