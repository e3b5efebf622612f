"""Scopes: what a process works on for a while, and gives up in an orderly way.

Leadership, a shard, a namespace that may change and a member cluster are scopes. They share:

- **Phases** (`ScopePhase`): while a scope is opened its caches are filled and its keys wait; while it is active its
  keys are reconciled; while it drains no key is begun, except to settle a write without an answer; then it is closed.
- **A gate** per controller (`ScopeGate`), which decides about keys by the phase of their scope.
- **Settling** (`ScopeKeeper.drain`): a create whose answer has not come may still be executed, under a name that only
  this process knows. Its key is reconciled once more, which looks the write up or repeats it under the same name.
- **Release.** A scope with a write that is still unanswered at the end is not released: its Lease expires, after the
  server may have executed the write. So no other replica makes a child twice.

What differs is a small strategy each: which scope a key belongs to, how its caches are filled, and whether others wait
for it (`sharding`, `namespaces`, `clusters`, `leaderelection`).
"""
