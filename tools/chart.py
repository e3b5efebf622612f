"""Make what the chart takes from the code, and `install.yaml` from the chart: `python -m tools.chart`.

`charts/kcr/files/rights.yaml` has the rights that each controller declares, as `kcr rbac generate` writes them.
`charts/install.yaml` is what helm renders with the default values, for those who have no helm.
"""

import asyncio
import re
import subprocess
from pathlib import Path

from kcr.app.plugins import find_plugins
from kcr.app.rbac import LEASE_RIGHTS, METRICS_RIGHTS, SHARDING_RIGHTS, declared_by
from kcr.controller import policy_rules
from kcr_devcluster.generators.roles import READING_RULES
from kcr_devcluster.yaml_writer import yaml_text
from tools.helm import find_helm

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "kcr"
RIGHTS = CHART / "files" / "rights.yaml"
INSTALL = ROOT / "charts" / "install.yaml"
CONTROLLERS = ("job", "ttl", "cronjob")
# The namespace of install.yaml. Its pods keep the strictest of the pod security standards.
NAMESPACE = """\
# Made by `python -m tools.chart` from charts/kcr.
apiVersion: v1
kind: Namespace
metadata:
  name: kcr-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""
_GATES = {"KCR_FEATURE_GATES": "GenericWorkload=true,WorkloadWithJob=true"}
# What only helm has a use for, and the empty lines, of which its versions write more or fewer.
_OF_HELM = re.compile(r"^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^# Source: .*\n|^\n", re.MULTILINE)


async def rights_by_controller() -> str:
    """Return the rules of each controller, of the workloads of Jobs, of Leases and of metrics, as YAML."""
    rights = {name: declared_by(find_plugins((name,)), {}).rights for name in CONTROLLERS}
    rights["job-with-workloads"] = declared_by(find_plugins(("job",)), _GATES).rights - rights["job"]
    rights["leader-election"] = LEASE_RIGHTS
    rights["sharding"] = SHARDING_RIGHTS
    rights["metrics-auth"] = METRICS_RIGHTS
    rules = {name: policy_rules(wanted) for name, wanted in rights.items()} | {"metrics-reader": READING_RULES}
    return "# Made by `python -m tools.chart`.\n" + yaml_text(rules)


def render(values: str = "{}\n", *, release: str = "kcr", namespace: str = "kcr-system", chart: Path = CHART) -> str:
    """Return the manifests of the chart.

    Args:
        values: Values beside the chart's own, as YAML.
        release: The name of the release.
        namespace: Its namespace.
        chart: Another chart.

    Raises:
        RuntimeError: Helm refuses the values or the chart, or there is no helm.
    """
    helm = find_helm()
    if helm is None:
        raise RuntimeError("there is no helm: run `python -m tools.helm`")
    command = [helm, "template", release, str(chart), "--namespace", namespace, "--values", "-"]
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def install_manifests() -> str:
    """Return `install.yaml`: the namespace, and the chart with its default values in it."""
    return NAMESPACE + _OF_HELM.sub("", render())


def main() -> None:
    """Write both files."""
    RIGHTS.write_text(asyncio.run(rights_by_controller()))
    INSTALL.write_text(install_manifests())


if __name__ == "__main__":
    main()
