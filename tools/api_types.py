"""Write the complete types of built-in kinds, `kcr/api/full/`: `python -m tools.api_types`.

The source is the table of the embedded API server's schema (see `tools.schema`), and the writer that of
`kcr types generate`. One module for each group and version; the same table gives the same bytes.
"""

import sys
from pathlib import Path

from kcr_devcluster.builtin_types import KindFacts, builtin_kind, class_names, classes, types_of
from kcr_devcluster.codegen.render import module_text

FOLDER = Path(__file__).parents[1] / "kcr" / "api" / "full"

# The kinds, by apiVersion. What they are made of follows.
_KINDS = {
    "v1": "ConfigMap Event Namespace Node PersistentVolumeClaim Pod PodTemplate Secret Service ServiceAccount",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "coordination.k8s.io/v1": "Lease",
    "networking.k8s.io/v1": "Ingress NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
}
_PACKAGE = "kcr.api.full"


def modules() -> dict[str, str]:
    """Return the text of each module by its name, such as `core_v1`."""
    kinds = [builtin_kind(api_version, name) for api_version, names in _KINDS.items() for name in names.split()]
    homes: dict[str, list[str]] = {}
    for one in types_of(kinds):
        homes.setdefault(_module(one), []).append(one)
    return {name: _text(name, homes, kinds) for name in sorted(homes)}


def _module(type_name: str) -> str:
    """Return `core_v1` for `core.v1.Pod`."""
    return "_".join(type_name.split(".")[:2])


def _text(module: str, homes: dict[str, list[str]], kinds: list[KindFacts]) -> str:
    # The types of the module first: another's of the same name would be called by its group.
    others = [one for name, types in homes.items() if name != module for one in types]
    names = class_names([*homes[module], *others])
    own = classes(homes[module], kinds, names, lambda name, field: "")
    elsewhere = {names[one]: f"{_PACKAGE}.{_module(one)}" for one in others}
    title = f"Types of {module.replace('_', '/')}, whole."
    return module_text(title, own, "python -m tools.api_types", elsewhere)


def main() -> None:
    """Write the modules."""
    for name, text in modules().items():
        (FOLDER / f"{name}.py").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text.splitlines())} lines\n")


if __name__ == "__main__":
    main()
