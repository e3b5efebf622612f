"""`kcr explain job/NAME` of Jobs that have ended, are being deleted or do not exist."""

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.cli.objects.look import explain_absence
from tests.kit.explanations import explained, text
from tests.kit.scenario import Simulation, scenario

PI = Key("default", "pi")


@scenario(disturbed=False)
async def test_finished_job_names_how_it_failed(sim: Simulation) -> None:
    await sim.create(backoffLimit=0)
    await sim.until("A1")
    await sim.fail(*sim.active(), exit_code=3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: Failed 65s ago: BackoffLimitExceeded
          wanted      1 completion, 1 pod at once, backoffLimit 0
          present     0 succeeded, 1 failed
          next        stays until a user deletes it: it has no ttlSecondsAfterFinished
          why         Job has reached the specified backoff limit
                      pod pi-x failed 65s ago: container c: exit code 3
          remedy      see the output of its pods: kcr logs -n default job/pi
                      run it again, as a new Job: kcr rerun -n default job/pi
          conditions  FailureTarget (BackoffLimitExceeded), 65s ago
                      Failed (BackoffLimitExceeded), 65s ago
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_complete_job_names_when_it_is_removed(sim: Simulation) -> None:
    await sim.create(ttlSecondsAfterFinished=300)
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: Complete for 65s
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     1 succeeded, 0 failed
          next        in 3m55s: is deleted with its pods (ttlSecondsAfterFinished)
          why         CompletionsReached: Reached expected number of succeeded pods
          conditions  SuccessCriteriaMet (CompletionsReached), 65s ago
                      Complete (CompletionsReached), 65s ago
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
                      65s ago   Normal Completed: Job completed
    """)


@scenario(disturbed=False)
async def test_absent_job_is_told_from_a_deleted_one(sim: Simulation) -> None:
    assert await explained(sim, "none") == text("""
        job default/none: does not exist
          why         no event is about it: it never existed, or was deleted
          remedy      to look in all namespaces: kubectl get jobs -A --field-selector metadata.name=none
    """)
    await sim.create()
    await sim.until("A1")
    await sim.clock.advance(5)
    await sim.delete()
    await sim.clock.advance(60)
    assert await explained(sim) == text("""
        job default/pi: no longer exists
          why         it was deleted, by a user or with its owner
          remedy      to look in all namespaces: kubectl get jobs -A --field-selector metadata.name=pi
          events      65s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_ttl_that_is_over_asks_for_its_controller(sim: Simulation) -> None:
    await sim.create(ttlSecondsAfterFinished=30)
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.clock.advance(100)
    assert await explained(sim) == text("""
        job default/pi: Complete for 105s; it should have been deleted 75s ago (ttlSecondsAfterFinished)
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     1 succeeded, 0 failed
          next        a TTL controller would delete it with its pods (ttlSecondsAfterFinished)
          why         CompletionsReached: Reached expected number of succeeded pods
          remedy      see whether a TTL controller runs: kube-controller-manager, or kcr run --controllers
                        job,ttl
          conditions  SuccessCriteriaMet (CompletionsReached), 105s ago
                      Complete (CompletionsReached), 105s ago
          events      105s ago  Normal SuccessfulCreate: Created pod: pi-x
                      105s ago  Normal Completed: Job completed
    """)


@scenario(disturbed=False)
async def test_foreground_deletion_waits_for_the_pods(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.delete(propagation="Foreground")
    await sim.clock.advance(30)
    assert await explained(sim) == text("""
        job default/pi: is being deleted, asked for 30s ago: 1 pod of it to go first
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 1 active (0 ready)
          next        the garbage collector deletes its pods, and removes foregroundDeletion when they are
                        gone
          remedy      see whether a garbage collector runs: kube-controller-manager has one, kcr run has
                        none
          events      30s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_deletion_that_a_finalizer_holds_names_it(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.client.merge_patch(Job, PI, {"metadata": {"finalizers": ["example.com/archive"]}})
    await sim.delete()
    await sim.clock.advance(30)
    assert await explained(sim) == text("""
        job default/pi: is being deleted, asked for 30s ago: held by example.com/archive
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 1 active (0 ready)
          why         it stays until the finalizers are removed by those who set them: example.com/archive
          remedy      see the controllers that set them; or give up what they guard:
                        kubectl -n default patch job pi -p '{"metadata":{"finalizers":null}}'
          events      30s ago   Normal SuccessfulCreate: Created pod: pi-x
    """)


@scenario(disturbed=False)
async def test_pod_that_a_gone_job_left_is_named_with_its_finalizer(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    (left,) = sim.active()
    await sim.crash()
    await sim.delete()
    await sim.clock.advance(5)
    assert await explained(sim) == text("""
        job default/pi: no longer exists
          why         it was deleted, by a user or with its owner
                      pod pi-x of it stays for its finalizers: batch.kubernetes.io/job-tracking
          remedy      see whether a Job controller runs: it removes its finalizer from pods without a Job
                      or remove them by hand:
                        kubectl -n default patch pod pi-x -p '{"metadata":{"finalizers":null}}'
                      to look in all namespaces: kubectl get jobs -A --field-selector metadata.name=pi
          events      5s ago    Normal SuccessfulCreate: Created pod: pi-x
    """)
    await sim.client.merge_patch(Pod, left.key, {"metadata": {"finalizers": None}})


@scenario(disturbed=False)
async def test_missing_namespace_is_told_from_a_missing_job(sim: Simulation) -> None:
    found = await explain_absence(sim.client, Job, Key("nowhere", "pi"), (), sim.clock.now())
    assert found.headline == "does not exist, nor does the namespace nowhere"
    assert found.remedies == (
        "name another namespace with -n: kubectl get namespaces",
        "to look in all namespaces: kubectl get jobs -A --field-selector metadata.name=pi",
    )
