from kcr.apiserver.kinds.core import NamespaceStrategy, NodeStrategy
from kcr.apiserver.kinds.strategy import Manifest


def test_namespace_gets_label_finalizer_and_phase() -> None:
    # AS 15
    strategy, obj = NamespaceStrategy(), {"metadata": {"name": "n", "labels": {"a": "b"}}}
    strategy.default(obj)
    strategy.prepare_create(obj)
    assert obj == {
        "metadata": {"name": "n", "labels": {"a": "b", "kubernetes.io/metadata.name": "n"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def test_update_of_namespace_keeps_finalizers_and_status() -> None:
    old: Manifest = {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    new: Manifest = {"metadata": {}, "spec": {"finalizers": []}}
    NamespaceStrategy().prepare_update(new, old)
    assert new == old


def test_node_registers_with_its_status() -> None:
    obj: Manifest = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 2, "memory": "1024Mi"}}}
    strategy = NodeStrategy()
    strategy.default(obj)
    strategy.prepare_create(obj)
    amounts = {"cpu": "2", "memory": "1Gi"}
    assert obj["status"] == {"capacity": amounts, "allocatable": amounts}
