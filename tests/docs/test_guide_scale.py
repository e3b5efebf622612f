"""The code of the guide to scale: what it passes exists."""

import inspect

import yaml

import kcr
from tests.kit.documents import ROOT, blocks

GUIDE = ROOT / "docs" / "guide" / "scale.md"


def test_call_of_run_has_its_arguments() -> None:
    (call,) = [block.text for block in blocks(GUIDE) if block.language == "python"]
    calls: list[inspect.BoundArguments] = []

    class Kcr:
        Sharding = kcr.Sharding

        @staticmethod
        def run(*arguments: object, **options: object) -> None:
            calls.append(inspect.signature(kcr.run).bind(*arguments, **options))

    exec(call, {"kcr": Kcr, "setup": lambda manager: None})
    assert [one.arguments["sharding"].shards for one in calls] == [8]


def test_values_of_the_chart_exist() -> None:
    (commands,) = [block.text for block in blocks(GUIDE) if block.language == "console"]
    values = yaml.safe_load((ROOT / "charts/kcr/values.yaml").read_text(encoding="utf-8"))
    named = [word.partition("=")[0] for word in commands.split() if "=" in word]
    assert named == ["sharding.shards", "replicas"]
    for name in named:
        found = values
        for part in name.split("."):
            found = found[part]
    assert "kcr shards --name kcr" in commands
