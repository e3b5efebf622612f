"""The diagrams of the documents, by the names of their files in `docs/pictures`."""

from tools.pictures.drawing import Arrow, Box, Drawing, Line, Note

_FLOW = Drawing(
    "A watch fills the store of an informer; handlers put keys into the work queue; a worker calls reconcile, which "
    "writes to the API server",
    800, 230,
    [
        Box(20, 40, 130, 64, "API server"),
        Box(232, 40, 130, 64, "informer", ["store (cache)"]),
        Box(444, 40, 130, 64, "work queue", ["each key once"]),
        Box(650, 40, 130, 64, "reconcile", ["your code"], "yours"),
        Arrow("M150 72H228", "watch", 189, 62),
        Arrow("M362 72H440", "handlers", 401, 62),
        Arrow("M574 72H646", "worker", 610, 62),
        Arrow("M680 104C665 146 372 150 314 109", "reads", 490, 157),
        Arrow("M730 104C720 214 140 214 90 109"),
        Note(410, 207, "create, patch, delete; each write returns as a watch event"),
    ],
)  # fmt: skip

_KEY = Drawing(
    "A key is queued, reconciled, and then idle, delayed, in backoff or parked; a change of its object queues it again",
    800, 316,
    [
        Arrow("M700 60C700 10 100 10 100 56", "the object changes", 400, 16),
        Box(30, 60, 140, 60, "queued", ["each key once"]),
        Box(330, 60, 140, 60, "reconcile", ["your code"], "yours"),
        Box(630, 60, 140, 60, "idle", ["nothing to do"], "plain"),
        Box(30, 190, 140, 60, "deferred", ["a store is behind"], "plain"),
        Box(270, 190, 130, 60, "delayed", ["until its time"], "plain"),
        Box(430, 190, 130, 60, "backoff", ["longer each time"], "plain"),
        Box(630, 190, 140, 60, "parked", ["until a change"], "plain"),
        Arrow("M170 90H326", "a worker takes it", 248, 80),
        Arrow("M470 90H626", "Result()", 548, 80),
        Arrow("M75 120V186"), Arrow("M125 190V124", "it has caught up", 185, 160),
        Arrow("M375 120L340 186", "requeue_after", 300, 160),
        Arrow("M425 120L490 186", "exception", 500, 148),
        Arrow("M560 220H626", "too many", 593, 212),
        Line("M700 250V282"), Line("M490 250V282"), Line("M335 250V282"),
        Arrow("M700 282H14V90H26", "its time has come, or the object changes", 250, 302),
    ],
)  # fmt: skip

_HAND_OVER = Drawing(
    "The holder ends its reconciles of a shard and releases the Lease; the next holder lists the shard, and reconciles "
    "once its caches are newer than the Lease",
    800, 250,
    [
        Line("M320 20V236"), Line("M505 20V236"), Line("M630 20V236"),
        Note(24, 62, "replica A", "start"), Note(24, 132, "Lease", "start"), Note(24, 202, "replica B", "start"),
        Box(120, 32, 200, 50, "reconciles", [], "yours"),
        Box(320, 32, 180, 50, "ends", ["reconciles, at most 5 s"]),
        Box(120, 102, 380, 50, "held by A", [], "plain"),
        Box(510, 102, 270, 50, "held by B", [], "plain"),
        Box(510, 172, 120, 50, "lists", ["fills caches"]),
        Box(630, 172, 150, 50, "reconciles", [], "yours"),
        Note(320, 17, "hand-over begins"), Note(505, 17, "Lease released"),
        Note(640, 246, "caches newer than the Lease"),
    ],
)  # fmt: skip

_OWNERS = Drawing(
    "A deletion only marks an object that has finalizers; after the cleanup its finalizer is removed, the object is "
    "gone, and the garbage collector deletes the objects that it owned",
    800, 240,
    [
        Box(20, 30, 150, 70, "Website shop", ["finalizer"]),
        Box(220, 30, 160, 70, "Website shop", ["deletionTimestamp"]),
        Box(430, 30, 145, 70, "your cleanup", ["outside the cluster"], "yours"),
        Box(655, 30, 125, 70, "gone", [], "plain"),
        Box(20, 155, 150, 60, "ConfigMap", ["ownerReference"]),
        Box(655, 155, 125, 60, "gone", [], "plain"),
        Arrow("M170 65H216", "delete", 194, 55),
        Arrow("M380 65H426", "watch", 403, 55),
        Arrow("M575 65H651", "finalizer", 612, 55), Note(612, 84, "removed"),
        Arrow("M95 155V104", "owned by", 130, 134),
        Arrow("M170 185H651", "stays as long as its owner; then the garbage collector deletes it", 405, 176),
        Arrow("M717 100V151", is_dashed=True),
    ],
)  # fmt: skip

_VIRTUAL_TIME = Drawing(
    "While all tasks wait, the clock jumps to the next timer: ten minutes of virtual time take milliseconds",
    800, 220,
    [
        Note(24, 55, "virtual time", "start"), Note(24, 175, "real time", "start"),
        Line("M130 50H780"), Line("M130 170H780"),
        Box(130, 30, 90, 40, "0 s", [], "plain"), Box(250, 30, 90, 40, "60 s", [], "plain"),
        Box(670, 30, 110, 40, "600 s", [], "plain"),
        Box(130, 145, 90, 50, "create", ["reconcile"], "yours"),
        Box(220, 145, 90, 50, "retry", ["reconcile"], "yours"),
        Box(310, 145, 90, 50, "deadline", ["reconcile"], "yours"),
        Arrow("M175 145V74"), Arrow("M265 145L290 74"), Arrow("M355 145L715 74"),
        Note(610, 128, "all tasks wait: the clock jumps"), Note(418, 162, "20 ms", "start"),
    ],
)  # fmt: skip

DIAGRAMS = {
    "data-flow": _FLOW,
    "key": _KEY,
    "hand-over": _HAND_OVER,
    "owners": _OWNERS,
    "virtual-time": _VIRTUAL_TIME,
}
