"""The checks of Pod Security, each with upstream's text, and the policies of labels.

Source: k8s.io/pod-security-admission v0.36, policy/check_*_test.go and api/helpers_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.pod_security.policies import Level, NamespacePolicy, policy_of, violations

BASELINE, RESTRICTED = "baseline", "restricted"
PREFIX = "pod-security.kubernetes.io/"
SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(*contexts: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that is restricted enough, with containers a, b … of these security contexts."""
    containers = [
        {"name": name, "securityContext": {**SAFE, **context}}
        for name, context in zip("abc", contexts or ({},), strict=False)
    ]
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} | spec.pop("context", {})
    return {"containers": containers, "securityContext": context, **spec}


def bare(**container: Any) -> dict[str, Any]:
    """A pod with one container that has these fields."""
    return pod() | {"containers": [{"name": "a", "securityContext": SAFE, **container}]}


def found(level: str, spec: dict[str, Any], version: str = "latest", **annotations: str) -> list[str]:
    """The violations as messages show them."""
    metadata = {"annotations": {key.replace("__", "/").replace("_", "."): text for key, text in annotations.items()}}
    return [str(one) for one in violations(Level(level, version), metadata, spec)]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(pod(), [], id="nothing"),
        pytest.param(
            pod(hostNetwork=True, hostPID=True, hostIPC=True),
            ["host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"], id="host-namespaces",
        ),
        pytest.param(
            pod(*({"capabilities": {"add": added}} for added in (["KILL"], ["B", "A"], ["A"]))),
            ['non-default capabilities (containers "b", "c" must not include "A", "B" in '
             "securityContext.capabilities.add)"], id="capabilities",
        ),
        pytest.param(
            pod(volumes=[{"name": "x", "hostPath": {"path": "/"}}, {"name": "y", "hostPath": {"path": "/"}}]),
            ['hostPath volumes (volumes "x", "y")'], id="host-path",
        ),
        pytest.param(
            bare(ports=[{"containerPort": 1, "hostPort": 20}, {"containerPort": 2}]),
            ['hostPort (container "a" uses hostPort 20)'], id="host-port",
        ),
        pytest.param(
            bare(livenessProbe={"httpGet": {"host": "b"}}, lifecycle={"preStop": {"tcpSocket": {"host": "a"}}}),
            ['probe or lifecycle host (container "a" uses probe or lifecycle hosts "a", "b")'], id="hosts",
        ),
        pytest.param(
            pod({"privileged": True}, {"privileged": False}, {"privileged": True}),
            ['privileged (containers "a", "c" must not set securityContext.privileged=true)'], id="privileged",
        ),
        pytest.param(
            pod({"procMount": "Unmasked"}),
            ['procMount (container "a" must not set securityContext.procMount to "Unmasked")'], id="proc-mount",
        ),
        pytest.param(pod({"procMount": "Unmasked"}, hostUsers=False), [], id="proc-mount-of-own-users"),
        pytest.param(
            pod({"seLinuxOptions": {"type": "x", "user": "u"}}, context={"seLinuxOptions": {"role": "r"}}),
            ['seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may '
             "not be set; role may not be set)"], id="selinux",
        ),
        pytest.param(pod({"seLinuxOptions": {"type": "container_engine_t"}}), [], id="selinux-engine"),
        pytest.param(
            pod({"seccompProfile": {"type": "Unconfined"}}, context={"seccompProfile": {"type": "Unconfined"}}),
            ['seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")'],
            id="seccomp",
        ),
        pytest.param(
            pod(context={"sysctls": [{"name": "a"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "b"}]}),
            ["forbidden sysctls (a, b)"], id="sysctls",
        ),
        pytest.param(
            pod({"windowsOptions": {"hostProcess": True}}, context={"windowsOptions": {"hostProcess": True}}),
            ['hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)'],
            id="host-process",
        ),
        pytest.param(
            pod({"appArmorProfile": {"type": "Unconfined"}}),
            ['forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")'],
            id="app-armor",
        ),
    ],
)  # fmt: skip
def test_baseline_forbids(spec: dict[str, Any], wanted: list[str]) -> None:
    assert found(BASELINE, spec) == wanted
    assert found("privileged", spec) == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param(pod(), [], id="nothing"),
        pytest.param(
            {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
            ['allowPrivilegeEscalation != false (containers "i", "a" must set '
             "securityContext.allowPrivilegeEscalation=false)",
             'unrestricted capabilities (containers "i", "a" must set securityContext.capabilities.drop=["ALL"])',
             'runAsNonRoot != true (pod or containers "i", "a" must set securityContext.runAsNonRoot=true)',
             'seccompProfile (pod or containers "i", "a" must set securityContext.seccompProfile.type to '
             '"RuntimeDefault" or "Localhost")'], id="everything",
        ),
        pytest.param(
            pod({"capabilities": {"add": ["NET_BIND_SERVICE", "CHOWN"]}}),
            ['unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container '
             '"a" must not include "CHOWN" in securityContext.capabilities.add)'], id="capabilities",
        ),
        pytest.param(
            pod(volumes=[{"name": "x", "hostPath": {"path": "/"}}, {"name": "y", "emptyDir": {}},
                         {"name": "z", "nfs": {"path": "/"}}]),
            ['restricted volume types (volumes "x", "z" use restricted volume types "hostPath", "nfs")'], id="volumes",
        ),
        pytest.param(
            pod({"runAsNonRoot": False}, context={"runAsNonRoot": False}),
            ['runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)'], id="root",
        ),
        pytest.param(pod({"runAsNonRoot": False, "runAsUser": 0}, hostUsers=False), [], id="root-of-own-users"),
        pytest.param(
            pod({"runAsUser": 0}), ['runAsUser=0 (container "a" must not set runAsUser=0)'], id="user",
        ),
        pytest.param(
            {"os": {"name": "windows"}, "containers": [{"name": "a", "securityContext": {"runAsNonRoot": True}}]}, [],
            id="windows",
        ),
        pytest.param(
            pod({"procMount": "Unmasked"}, hostUsers=False),
            ['procMount (container "a" must not set securityContext.procMount to "Unmasked")'], id="proc-mount",
        ),
    ],
)  # fmt: skip
def test_restricted_forbids(spec: dict[str, Any], wanted: list[str]) -> None:
    assert found(RESTRICTED, spec) == wanted


@pytest.mark.parametrize(
    ("level", "spec", "first"),
    [
        pytest.param(RESTRICTED, {**pod({"capabilities": {}})}, 22, id="capabilities"),
        pytest.param(RESTRICTED, pod({"runAsUser": 0}), 23, id="user"),
        pytest.param(RESTRICTED, pod({"allowPrivilegeEscalation": True}), 8, id="escalation"),
        pytest.param(BASELINE, bare(livenessProbe={"httpGet": {"host": "b"}}), 34, id="hosts"),
        pytest.param(BASELINE, pod(context={"seccompProfile": {"type": "Unconfined"}}), 19, id="seccomp"),
    ],
)
def test_check_applies_from_its_version_on(level: str, spec: dict[str, Any], first: int) -> None:
    assert found(level, spec, f"v1.{first - 1}") == []
    assert len(found(level, spec, f"v1.{first}")) == 1
    assert len(found(level, spec, "v1.99")) == 1


def test_old_versions_forbid_what_newer_ones_allow() -> None:
    engine, memory = (
        pod({"seLinuxOptions": {"type": "container_engine_t"}}),
        pod(context={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}),
    )
    assert [found(BASELINE, engine, "v1.30") != [], found(BASELINE, memory, "v1.31") != []] == [True, True]
    assert [found(BASELINE, engine, "v1.31"), found(BASELINE, memory, "v1.32")] == [[], []]
    lowat = pod(context={"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat"}]})
    assert [found(BASELINE, lowat, "v1.36") != [], found(BASELINE, lowat, "v1.37")] == [True, []]
    keys = {"seccomp_security_alpha_kubernetes_io__pod": "unconfined"}
    words = 'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    assert (found(BASELINE, pod(), "v1.18", **keys), found(BASELINE, pod(), "v1.19", **keys)) == ([words], [])


def test_annotation_of_app_armor_is_checked() -> None:
    key = "container_apparmor_security_beta_kubernetes_io__a"
    assert found(BASELINE, pod(), **{key: "localhost/x"}) == []
    (text,) = found(BASELINE, pod(), **{key: "bad"})
    shown = 'container.apparmor.security.beta.kubernetes.io/a="bad"'
    assert text == f'forbidden AppArmor profile (annotation must not set AppArmor profile type to "{shown}")'


def labels(**values: str) -> dict[str, str]:
    return {PREFIX + mode.replace("_", "-"): value for mode, value in values.items()}


NONE = Level()


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        pytest.param({"a": "b"}, NamespacePolicy(), id="none"),
        pytest.param(
            labels(enforce=BASELINE), NamespacePolicy(Level(BASELINE), NONE, Level(BASELINE)), id="warned-of-it"
        ),
        pytest.param(
            labels(enforce=BASELINE, enforce_version="v1.25", warn=RESTRICTED, audit=BASELINE),
            NamespacePolicy(Level(BASELINE, "v1.25"), Level(BASELINE), Level(RESTRICTED)), id="all",
        ),
        pytest.param(
            labels(enforce=BASELINE, warn="privileged"), NamespacePolicy(Level(BASELINE)), id="warned-about-nothing"
        ),
    ],
)  # fmt: skip
def test_labels_state_the_policy(given: dict[str, str], policy: NamespacePolicy) -> None:
    assert policy_of(given) == policy


def test_invalid_labels_enforce_the_most_and_are_errors() -> None:
    policy = policy_of(labels(enforce="high", enforce_version="1.25", warn="high", audit_version="v2.0"))
    assert (policy.enforce, policy.audit, policy.warn) == (Level(RESTRICTED), NONE, NONE)
    assert [f"{one.field}: {one.message}" for one in policy.errors] == [
        f'metadata.labels[{PREFIX}enforce]: Invalid value: "high": must be one of privileged, baseline, restricted',
        f'metadata.labels[{PREFIX}enforce-version]: Invalid value: "1.25": must be "latest" or "v1.x"',
        f'metadata.labels[{PREFIX}audit-version]: Invalid value: "v2.0": must be "latest" or "v1.x"',
        f'metadata.labels[{PREFIX}warn]: Invalid value: "high": must be one of privileged, baseline, restricted',
    ]
