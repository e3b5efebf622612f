import pytest

from kcr.api.meta import ObjectMeta, OwnerReference
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.simulated import FOREVER, RunResult, annotated_outcome, default_outcome

INDEX = "batch.kubernetes.io/job-completion-index"


def annotated(**annotations: str) -> KubeletPod:
    said = {f"sim.kcr.dev/{name.replace('_', '-')}": text for name, text in annotations.items()} | {INDEX: "0"}
    return KubeletPod(metadata=ObjectMeta(annotations=said))


def owned_by(kind: str) -> KubeletPod:
    return KubeletPod(metadata=ObjectMeta(owner_references=(OwnerReference(kind=kind, controller=True),)))


def test_container_of_a_job_ends_well_at_once() -> None:
    assert default_outcome(owned_by("Job"), KubeletContainer(image="app")) == RunResult()


@pytest.mark.parametrize("pod", [KubeletPod(), owned_by("ReplicaSet")], ids=["bare", "replica-set"])
def test_other_containers_run_until_they_are_stopped(pod: KubeletPod) -> None:
    assert default_outcome(pod, KubeletContainer(image="app")).run_for == FOREVER


def test_shell_without_a_command_ends_at_once() -> None:
    assert default_outcome(KubeletPod(), KubeletContainer(image="busybox")).run_for == 0


def test_sidecar_of_a_job_runs_on() -> None:
    assert default_outcome(owned_by("Job"), KubeletContainer(image="app", restart_policy="Always")).run_for == FOREVER


def test_annotations_say_how_a_run_goes() -> None:
    pod = annotated(run_for="20s", exit_code="3", start_delay="1m", ignore_sigterm="true", message="bye", logs="hi")
    assert annotated_outcome(pod, "main", 0, RunResult()) == RunResult(
        exit_code=3, run_for=20, start_delay=60, ignore_sigterm=True, message="bye", logs="hi"
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m30s", 90), ("250ms", 0.25), ("5", 5), ("1.5", 1.5), ("forever", FOREVER)]
)
def test_run_time_is_a_go_duration_a_number_or_forever(text: str, seconds: float) -> None:
    assert annotated_outcome(annotated(run_for=text), "main", 0, RunResult()).run_for == seconds


@pytest.mark.parametrize("text", ["", "soon", "1 s", "-1", "-1s", "1s2", "nan"])
def test_run_time_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sim.kcr.dev/run-for: .* is not a duration"):
        annotated_outcome(annotated(run_for=text), "main", 0, RunResult())


def test_pod_without_annotations_keeps_the_default() -> None:
    otherwise = RunResult(run_for=7)
    assert annotated_outcome(KubeletPod(), "main", 0, otherwise) is otherwise


@pytest.mark.parametrize(("attempt", "code"), [(0, 1), (1, 2), (2, 0), (9, 0)])
def test_listed_exit_codes_are_used_up_one_per_run(attempt: int, code: int) -> None:
    assert annotated_outcome(annotated(exit_code="1,2,0"), "main", attempt, RunResult()).exit_code == code


def test_annotation_of_one_container_comes_before_the_general_one() -> None:
    said = {"sim.kcr.dev/exit-code": "1", "sim.kcr.dev/exit-code.side": "2"}
    pod = KubeletPod(metadata=ObjectMeta(annotations=said))
    assert annotated_outcome(pod, "side", 0, RunResult()).exit_code == 2
    assert annotated_outcome(pod, "main", 0, RunResult()).exit_code == 1


@pytest.mark.parametrize(("index", "code"), [("0", 1), ("1", 0), ("3", 42)])
def test_exit_codes_by_completion_index(index: str, code: int) -> None:
    said = {"sim.kcr.dev/by-index": "0=1,3=42", INDEX: index}
    pod = KubeletPod(metadata=ObjectMeta(annotations=said))
    assert annotated_outcome(pod, "main", 0, RunResult()).exit_code == code


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run_for", "soon"),
        ("exit_code", "one"),
        ("by_index", "0:1"),
        ("ignore_sigterm", "yes"),
        ("term_exit_code", "x"),
    ],
)
def test_annotation_that_makes_no_sense_is_named(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name.replace("_", "-")):
        annotated_outcome(annotated(**{name: text}), "main", 0, RunResult())
