from kcr_devcluster.cluster.scheduling.gangs import place
from tests.kit.scheduling import node_state, pod_info


def test_gang_is_placed_on_copies_of_the_nodes() -> None:
    nodes = {name: node_state(name, pod_info(f"x-{name}", cpu="4")) for name in ("a", "b")}
    trial = place([pod_info(str(number), cpu="3") for number in range(4)], 4, nodes, {}, {})
    assert sorted(node for _, node in trial.placed) == ["a", "a", "b", "b"]
    assert (trial.message, [len(state.pods) for state in nodes.values()]) == ("", [1, 1])


def test_gang_that_does_not_fit_names_the_reasons() -> None:
    nodes = {"a": node_state("a")}
    waiting = [pod_info(str(number), cpu="4") for number in range(4)]
    trial = place(waiting, 3, nodes, {}, {})
    assert (len(trial.placed), trial.message) == (2, "0/1 nodes are available: 1 Insufficient cpu.")


def test_pods_beyond_the_size_need_not_fit() -> None:
    nodes = {"a": node_state("a")}
    waiting = [pod_info("large", cpu="20"), pod_info("b", cpu="4"), pod_info("c", cpu="4")]
    trial = place(waiting, 2, nodes, {}, {})
    assert ([info.key.name for info, _ in trial.placed], trial.message) == (["b", "c"], "")
