from kcr_devcluster.cluster.scheduling.cluster_state import ClusterState
from kcr_devcluster.cluster.scheduling.requests import ONE
from tests.kit.scheduling import node_state, pod_info


def state_of(*names: str) -> ClusterState:
    state = ClusterState()
    for name in names:
        node = node_state(name).node
        assert node is not None
        state.set_node(node)
    return state


def test_pod_placed_twice_is_counted_once() -> None:
    state = state_of("a", "b")
    state.place(pod_info(cpu="2"), "a")
    state.place(pod_info(cpu="3"), "b")
    assert [state.nodes[name].requested["cpu"] for name in ("a", "b")] == [0, 3 * ONE]


def test_removed_pods_leave_nothing_behind() -> None:
    state = state_of("a")
    empty = state.nodes["a"].copy()
    ports = [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]
    for info in (pod_info("x", cpu="2"), pod_info("y", containers=ports)):
        state.place(info, "a")
    for name in ("x", "y"):
        assert state.remove(pod_info(name).key) is not None
    assert state.remove(pod_info("x").key) is None
    left = state.nodes["a"]
    assert (left.pods, +left.requested, left.scored, left.ports) == (empty.pods, {}, empty.scored, empty.ports)


def test_pods_of_an_absent_node_count_when_it_comes_back() -> None:
    state = state_of("a")
    state.place(pod_info("x", cpu="2"), "a")
    state.remove_node("a")
    state.place(pod_info("y", cpu="3"), "a")
    state.place(pod_info("z", cpu="1"), "a")
    state.remove(pod_info("z").key)
    node = node_state("a").node
    assert node is not None
    state.set_node(node)
    assert state.nodes["a"].requested["cpu"] == 5 * ONE
