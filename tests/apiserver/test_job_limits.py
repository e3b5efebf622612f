"""The limits of a Job's parts that the catalogue has no row for (batch-api §§7.3 to 7.6).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go.
"""

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import indexed, refused

# 65,536 bytes: five, then six for each number but the last.
LONGEST = ",".join(str(number) for number in range(9_999, 20_922))


@pytest.mark.parametrize(
    ("manifest", "faults"),
    [
        pytest.param(
            indexed(completions=30_000, successPolicy={"rules": [{"succeededIndexes": LONGEST}]}), [],
            id="longest-text-of-indexes",
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededIndexes": f"{'0' * 4300}1"}]}), [], id="zeros-in-front"
        ),
        pytest.param(
            indexed(completions=20_000, successPolicy={"rules": [
                {"succeededIndexes": ",".join(str(n) for n in range(20_000))},
            ]}),
            ["spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes"],
            id="success-indexes",
        ),
    ],
)  # fmt: skip
def test_limit_holds_at_its_border(manifest: Manifest, faults: list[str]) -> None:
    assert refused(manifest) == faults
