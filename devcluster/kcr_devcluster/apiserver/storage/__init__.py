"""Storage: versioned objects in memory, with a watch cache per kind, and optionally a journal on disk.

Guarantees to the registry, which reads and writes objects, and to watches:

- **One counter.** All kinds share one resourceVersion counter, as in etcd. Each commit has its own version.
- **Compare-and-swap.** Every transition is synchronous: a read, a decision and a commit without an await in between
  are atomic (optimistic concurrency).
- **Ordered, exactly-once events.** A watch cache calls its subscribers synchronously on every change, in order of
  resourceVersion, each change once.
- **Bounded history.** The last 10,000 changes are kept. A watch or a list at an older version gets 410 Expired, and
  its client relists.
- **Stored form.** Objects are encoded bytes beside their typed metadata; unchanged objects are never decoded again.
- **Durability.** With a journal (`journal`), each change is committed to SQLite before it is applied in memory. No
  response and no watch event contains a change that the file lacks. A commit survives `kill -9`; a power failure may
  cost the last ones, and the file stays intact.

`selectors` and `selection` evaluate label and field selectors for lists and watches.
"""
