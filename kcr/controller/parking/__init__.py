"""Parked keys: they hold no worker and have no retry, until something that is known changes.

- **Read-your-writes** (`kcr.controller.parking.read_your_writes`): a key waits for its stores to show its own writes.
- **Waits** (`kcr.controller.parking.waits`): a reconciler raises `kcr.WaitFor`, and the key waits for an object.
- **The limit of retries** (`kcr.controller.parking.retries`): a key has failed too often in a row, and waits for a
  change of its object or for a user's request.
"""
