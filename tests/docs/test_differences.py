"""Every row of the table of upstream's defects is cited by a test of the controllers."""

import re
from pathlib import Path

from tests.kit.differences import known_differences

CONTROLLERS = Path(__file__).parents[1] / "controllers"
CITATION = re.compile(r"# .*Difference: ([a-z-]+)\.$", re.MULTILINE)


def test_every_known_difference_is_cited_by_a_test() -> None:
    cited = {name for path in CONTROLLERS.rglob("test_*.py") for name in CITATION.findall(path.read_text())}
    assert known_differences()
    assert cited == known_differences().keys()
