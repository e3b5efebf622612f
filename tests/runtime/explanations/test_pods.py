"""What `kcr explain` prints of Jobs, pods and Deployments in trouble, whole; in virtual time."""

from typing import Any

import pytest

from kcr.api.apps import Deployment
from kcr.api.batch import CronJob, Job
from kcr.api.core import Node, Pod
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from tests.kit.explanations import explained_object, text
from tests.kit.harness import manifest
from tests.kit.workloads import deployment

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(controllers=["job", "cronjob"])]

QUOTA = unstructured("v1", "ResourceQuota", plural="resourcequotas")
NO_COMMAND = 'image "docker.io/library/nope:1" has no default command here, for images are not pulled'
NOT_FOUND = 'exec: "x": executable file not found in $PATH'


def runs(cluster: EmbeddedCluster, *results: RunResult) -> None:
    """Have each run of a container go as the results say, one after the other; the last holds for all that follow."""
    for node in cluster.nodes.values():
        node.on_run = lambda pod, container, attempt: results[min(attempt, len(results) - 1)]


async def create_pod(cluster: EmbeddedCluster, **spec: Any) -> None:
    given = {"containers": [{"name": "main", "image": "app:1"}], **spec}
    await cluster.client.create_manifest(Pod, {"metadata": {"name": "web"}, "spec": given}, "default")


async def test_image_without_a_command_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(128, reason="StartError", message=NO_COMMAND))
    await kcr_cluster.client.create_manifest(Job, manifest(), "default")
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "job/pi") == text("""
        job default/pi: waits 5s before it replaces a failed pod (backoff)
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 1 failed, 0 active (0 ready)
          next        in 5s: replaces what failed: 1 failure in a row
                      when 6 more pods have failed: the Job fails (backoffLimit)
          why         pod pi-x failed 5s ago: container c: StartError, exit code 128: image
                        "docker.io/library/nope:1" has no default command here, for images are not pulled
          remedy      its container cannot be started: delete it, and create it anew with a command that the
                        image has
          events      5s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)


async def test_arguments_that_no_image_runs_are_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(128, reason="StartError", message=NOT_FOUND))
    await create_pod(kcr_cluster)
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its container cannot start
          wanted      container main (app:1), restartPolicy Always
          present     Running, on node kcr-node-0, 0 of 1 container ready, 1 restart
          why         container main ended 5s ago with exit code 128, StartError: exec: "x": executable file
                        not found in $PATH; it waits (restarted once): CrashLoopBackOff: back-off 10s
                        restarting failed container=main
          remedy      create the pod anew with a command that the image has
          events      5s ago    Normal Pulled: Container image "app:1" already present on machine
                      5s ago    Normal Created: Created container: main (x2)
                      5s ago    Normal Started: Started container main (x2)
                      5s ago    Warning BackOff: Back-off restarting failed container main in pod web_defau…
    """)


async def test_quota_that_is_used_up_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    made = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await kcr_cluster.client.create_manifest(QUOTA, made, "default")
    await kcr_cluster.client.create_manifest(Deployment, deployment(replicas=2), "default")
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "deploy/web") == text("""
        deployment default/web: cannot create pods: a ResourceQuota is used up
          wanted      2 pods, generation 1
          present     0 pods, 0 ready
          next        its controller tries again by itself, each time after a longer wait
          why         3s ago: Error creating: pods "web-x-x" is forbidden: exceeded quota:
                        none, requested: pods=1, used: pods=0, limited: pods=0
          remedy      delete what uses it up, or raise it: kubectl -n default describe resourcequota none
          conditions  Progressing (NewReplicaSetCreated), 5s ago
                      ReplicaFailure (FailedCreate), 5s ago
          events      5s ago    Normal ScalingReplicaSet: Scaled up replica set web-x from 0 to 2
    """)


async def test_cordoned_node_is_named_with_its_command(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    (name,) = kcr_cluster.nodes
    await kcr_cluster.client.merge_patch(Node, Key("", name), {"spec": {"unschedulable": True}})
    await kcr_cluster.client.create_manifest(Job, manifest(), "default")
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "job/pi") == text("""
        job default/pi: waits for 1 pod that cannot be scheduled: node kcr-node-0 is cordoned
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 1 active (0 ready)
          next        when it has succeeded: becomes Complete
          why         pod pi-x is not scheduled: Unschedulable: 0/1 nodes are available: 1 node(s) were
                        unschedulable. no new claims to deallocate, preemption: 0/1 nodes are available: 1
                        Preemption is not helpful for scheduling.
          remedy      let kcr-node-0 take pods again: kubectl uncordon kcr-node-0
          events      5s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)
    assert await explained_object(kcr_cluster.client, kcr_clock, f"node/{name}") == text("""
        node kcr-node-0: is cordoned: no new pod is scheduled on it
          present     0 pods bound to it that have not ended
          remedy      to let it take pods again: kubectl uncordon kcr-node-0
    """)


async def test_deleted_node_is_said_of_its_pods(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create_pod(kcr_cluster, nodeName="lost")
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its node lost is deleted
          wanted      container main (app:1), restartPolicy Always
          present     Pending, on node lost, 0 of 1 container ready
          why         it was bound to node lost, which is deleted: no kubelet runs or reports it
          remedy      the pod garbage collector of a cluster deletes the pod; where there is none:
                        kubectl -n default delete pod web --force --grace-period=0
    """)
    assert await explained_object(kcr_cluster.client, kcr_clock, "node/lost") == text("""
        node lost: is deleted, and 1 pod of it is left
          why         bound to it: default/web; no kubelet runs or reports them
          remedy      a cluster's pod garbage collector deletes them; where there is none:
                        kubectl -n default delete pod web --force --grace-period=0
                      to see those that exist: kubectl get nodes
    """)


async def test_silent_node_is_named_with_its_pods(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create_pod(kcr_cluster)
    await kcr_clock.advance(5)
    ((name, node),) = kcr_cluster.nodes.items()
    node.silence()
    await kcr_clock.advance(120)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its node kcr-node-0 is silent
          wanted      container main (app:1), restartPolicy Always
          present     Running, on node kcr-node-0, 1 of 1 container ready
          why         it is on node kcr-node-0, which has been silent for 70s: Kubelet stopped posting node
                        status.
          remedy      see why it is silent: kubectl describe node kcr-node-0
          events      2m5s ago  Normal Pulled: Successfully pulled image "app:1" in 0s (0s including waitin…
                      2m5s ago  Normal Created: Created container: main
                      2m5s ago  Normal Started: Started container main
                      70s ago   Warning NodeNotReady: Node is not ready
    """)
    assert await explained_object(kcr_cluster.client, kcr_clock, f"node/{name}") == text("""
        node kcr-node-0: has been silent for 70s
          present     1 pod bound to it that has not ended
          why         condition Ready is Unknown, 70s ago: NodeStatusUnknown: Kubelet stopped posting node
                        status.
                      it takes only pods that tolerate its taints:
                        node.kubernetes.io/unreachable:NoSchedule, node.kubernetes.io/unreachable:NoExecute
          remedy      see what its kubelet reports: kubectl describe node kcr-node-0
          events      70s ago   Normal NodeNotReady: Node kcr-node-0 status is now: NodeNotReady
    """)


async def test_crash_loop_says_how_the_last_run_ended(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(3, run_for=1))
    await create_pod(kcr_cluster)
    await kcr_clock.advance(20)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its container crashes again and again: exit code 3
          wanted      container main (app:1), restartPolicy Always
          present     Running, on node kcr-node-0, 0 of 1 container ready, 2 restarts
          why         container main ended 7s ago with exit code 3; it waits (restarted 2 times):
                        CrashLoopBackOff: back-off 20s restarting failed container=main
          remedy      see the output of its last run: kubectl -n default logs web -p
          events      8s ago    Normal Pulled: Container image "app:1" already present on machine (x2)
                      8s ago    Normal Created: Created container: main (x3)
                      8s ago    Normal Started: Started container main (x3)
                      7s ago    Warning BackOff: Back-off restarting failed container main in pod web_defau…
    """)


async def test_container_out_of_memory_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(137, reason="OOMKilled", run_for=1))
    await create_pod(kcr_cluster)
    await kcr_clock.advance(3)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its container runs out of memory
          wanted      container main (app:1), restartPolicy Always
          present     Running, on node kcr-node-0, 0 of 1 container ready, 1 restart
          why         container main ended 1s ago with exit code 137 (SIGKILL), OOMKilled; it waits
                        (restarted once): CrashLoopBackOff: back-off 10s restarting failed container=main
          remedy      create the pod anew with a higher memory limit (resources.limits.memory), unless the
                        program leaks
          events      2s ago    Normal Pulled: Container image "app:1" already present on machine
                      2s ago    Normal Created: Created container: main (x2)
                      2s ago    Normal Started: Started container main (x2)
                      1s ago    Warning BackOff: Back-off restarting failed container main in pod web_defau…
    """)


async def test_crash_is_told_while_the_next_run_lasts(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(3, run_for=1), RunResult(run_for=FOREVER))
    await create_pod(kcr_cluster)
    await kcr_clock.advance(30)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its container crashed: exit code 3
          wanted      container main (app:1), restartPolicy Always
          present     Running, on node kcr-node-0, 1 of 1 container ready, 1 restart
          why         container main ended 29s ago with exit code 3; it was restarted once
          remedy      see the output of its last run: kubectl -n default logs web -p
          events      30s ago   Normal Pulled: Successfully pulled image "app:1" in 0s (0s including waitin…
                      29s ago   Normal Pulled: Container image "app:1" already present on machine
                      29s ago   Normal Created: Created container: main (x2)
                      29s ago   Normal Started: Started container main (x2)
    """)


async def test_image_that_cannot_be_pulled_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(image_error="ImagePullBackOff"))
    await create_pod(kcr_cluster)
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "pod/web") == text("""
        pod default/web: its image cannot be pulled
          wanted      container main (app:1), restartPolicy Always
          present     Pending, on node kcr-node-0, 0 of 1 container ready
          why         container main waits: ImagePullBackOff: image "app:1" cannot be pulled
          remedy      mend the registry or its secret, the node tries again by itself; or create the pod
                        anew with another image
          events      5s ago    Normal Scheduled: Successfully assigned default/web to kcr-node-0
                      5s ago    Warning Failed: Error: image "app:1" cannot be pulled
    """)


async def test_deployment_of_crashing_pods_leads_to_a_pod(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(4, run_for=1))
    await kcr_cluster.client.create_manifest(Deployment, deployment(replicas=2), "default")
    await kcr_clock.advance(20)
    assert await explained_object(kcr_cluster.client, kcr_clock, "deployment/web") == text("""
        deployment default/web: has 2 of 2 pods whose container crashes again and again: exit code 4
          wanted      2 pods, generation 1
          present     2 pods, 0 ready
          why         pod web-x-x: container web ended 7s ago with exit code 4; it waits
                        (restarted 2 times): CrashLoopBackOff: back-off 20s restarting failed container=web;
                        the same holds for 1 more pod
          remedy      see the output of its last run: kubectl -n default logs web-x-x -p
                      see the pod: kcr explain -n default pod/web-x-x
          conditions  Progressing (NewReplicaSetAvailable), 20s ago
          events      20s ago   Normal ScalingReplicaSet: Scaled up replica set web-x from 0 to 2
    """)


async def test_statefulset_without_a_controller_says_so(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    kind = unstructured("apps/v1", "StatefulSet", plural="statefulsets")
    await kcr_cluster.client.create_manifest(kind, deployment(replicas=2, serviceName="web"), "default")
    await kcr_clock.advance(20)
    assert await explained_object(kcr_cluster.client, kcr_clock, "sts/web") == text("""
        statefulset default/web: no controller has taken it up
          wanted      2 pods, generation 1
          present     0 pods, 0 ready
          why         it was created 20s ago, and its status has no observedGeneration
          remedy      see whether a controller of statefulsets runs: kube-controller-manager has one
                      kcr dev runs none of this kind: it is kept, and makes no pods
    """)


async def test_schedule_that_never_comes_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    template = {"spec": {"template": manifest()["spec"]["template"]}}
    made = {"metadata": {"name": "web"}, "spec": {"schedule": "0 0 31 2 *", "jobTemplate": template}}
    await kcr_cluster.client.create_manifest(CronJob, made, "default")
    await kcr_clock.advance(5)
    assert await explained_object(kcr_cluster.client, kcr_clock, "cronjob/web") == text("""
        cronjob default/web: never runs: no time fits its schedule
          wanted      schedule '0 0 31 2 *' (no timeZone: taken for UTC), concurrencyPolicy Allow
          present     0 running Jobs, no run so far
          why         InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two schedules
                        is less than 1 second
          remedy      correct spec.schedule to times that there are, such as 0 0 28 2 *
    """)
