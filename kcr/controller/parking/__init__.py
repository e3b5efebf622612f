"""Parked keys: they hold no worker and have no retry, until something that is known changes.

- **Waits** (`kcr.controller.parking.waits`): a reconciler raises `kcr.WaitFor`, and the key waits for an object.
"""
