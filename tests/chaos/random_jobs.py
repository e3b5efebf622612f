"""Jobs, tunables and the fates of pods, drawn from a seed."""

from collections.abc import Callable
from random import Random
from typing import Any

from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import manifest

CODES = (1, 2, 3)
DISRUPTED = "DisruptionTarget"


def random_job(random: Random) -> dict[str, Any]:
    """A small Job of any shape the server lets in."""
    mode = random.choice(("plain", "plain", "queue", "indexed", "indexed", "indexed"))
    spec: dict[str, Any] = {
        "parallelism": random.randint(1, 4),
        "restartPolicy": random.choice(("Never", "Never", "OnFailure")),
    }
    if random.random() < 0.8:
        spec["podReplacementPolicy"] = random.choice(("TerminatingOrFailed", "Failed"))
    if mode != "queue":
        spec["completions"] = random.randint(1, 6)
    if mode == "indexed":
        spec |= _indexed(random, spec["completions"])
    # Containers that are restarted in place for ever end by the limit of the whole Job only.
    if "backoffLimitPerIndex" not in spec or spec["restartPolicy"] == "OnFailure" or random.random() < 0.3:
        spec["backoffLimit"] = random.randint(0, 6)
    if random.random() < 0.4:
        spec |= _with_failure_policy(random, per_index="backoffLimitPerIndex" in spec)
    if random.random() < 0.2:
        spec["activeDeadlineSeconds"] = random.randint(5, 200)
    if random.random() < 0.1:
        spec["suspend"] = True
    job = manifest(**spec)
    return _with_own_selector(job) if random.random() < 0.2 else job


def random_annotations(random: Random) -> dict[str, str]:
    """The annotations of every fourth Job: none, or some of those that kcr reads, not all of them readable."""
    if random.random() < 0.75:
        return {}
    choices = {
        "start-deadline": ("1s", "5s image, other", "1m", "never"),
        "backoff": ("0s..1s", "2s..15s", "10s"),
        "failed-pods-history": ("0", "1", "2", "all"),
    }
    return {f"kcr.dev/{name}": random.choice(texts) for name, texts in choices.items() if random.random() < 0.6}


def _indexed(random: Random, completions: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"completionMode": "Indexed"}
    if random.random() < 0.6:
        spec["backoffLimitPerIndex"] = random.randint(0, 2)
        if random.random() < 0.5:
            spec["maxFailedIndexes"] = random.randint(0, min(2, completions))
    if random.random() < 0.25:
        spec["successPolicy"] = {"rules": [_success_rule(random, completions) for _ in range(random.randint(1, 2))]}
    if random.random() < 0.3:
        # Elastic: both may be changed together.
        spec["parallelism"] = completions
    return spec


def _success_rule(random: Random, completions: int) -> dict[str, Any]:
    indexes = sorted(random.sample(range(completions), random.randint(1, completions)))
    text, count = ",".join(map(str, indexes)), random.randint(1, len(indexes))
    return random.choice(
        (
            {"succeededIndexes": text},
            {"succeededCount": count},
            {"succeededIndexes": text, "succeededCount": count},
        )
    )


def _with_failure_policy(random: Random, *, per_index: bool) -> dict[str, Any]:
    actions = ("FailJob", "Ignore", "Count", *(("FailIndex", "FailIndex") if per_index else ()))
    rules = [_failure_rule(random, random.choice(actions)) for _ in range(random.randint(1, 3))]
    spec: dict[str, Any] = {
        "podFailurePolicy": {"rules": rules},
        "podReplacementPolicy": "Failed",
        "restartPolicy": "Never",
    }
    if any(rule["action"] == "Ignore" for rule in rules):
        # What is ignored for ever would go on for ever.
        spec["activeDeadlineSeconds"] = random.randint(30, 200)
    return spec


def _failure_rule(random: Random, action: str) -> dict[str, Any]:
    if random.random() < 0.3:
        return {"action": action, "onPodConditions": [{"type": DISRUPTED, "status": "True"}]}
    codes = sorted(random.sample((-1, *CODES, 143), random.randint(1, 2)))
    return {"action": action, "onExitCodes": {"operator": random.choice(("In", "In", "NotIn")), "values": codes}}


def _with_own_selector(job: dict[str, Any]) -> dict[str, Any]:
    """The same Job with a selector that fits the pods of its namesakes as well."""
    labels = {"app": "random"}
    spec = {**job["spec"], "manualSelector": True, "selector": {"matchLabels": labels}}
    spec["template"] = {**spec["template"], "metadata": {"labels": labels}}
    return {**job, "spec": spec}


def random_options(random: Random) -> dict[str, Any]:
    return {
        "job_pod_failure_backoff": random.choice((0.0, 1.0, 10.0)),
        "max_job_pod_failure_backoff": 20.0,
        "sync_job_batch_period": random.choice((0.0, 1.0)),
        "max_uncounted_pods": random.choice((1, 2, 500)),
        "max_pod_create_delete_per_sync": random.choice((1, 2, 500)),
    }


def random_outcomes(seed: int) -> Callable[[Any, str, int], RunResult]:
    """Each run of a container has a fate of its own, the same whenever it is asked for."""
    mood = Random(seed)
    fails, codes = mood.choice((0.0, 0.1, 0.5, 1.0)), mood.choice((CODES, CODES[:1]))

    def outcome(pod: Any, container: str, attempt: int) -> RunResult:
        dice = Random(f"{seed} {pod.metadata.name} {attempt}")
        return RunResult(
            exit_code=dice.choice(codes) if dice.random() < fails else 0,
            run_for=dice.choice((0.0, dice.random() * 15, dice.random() * 15, dice.random() * 60)),
            start_delay=dice.choice((0.0, 0.0, 2.0)),
            term_exit_code=dice.choice((0, 143)),
            ignore_sigterm=dice.random() < 0.4,
        )

    return outcome
