"""What keeps one object from harming the others: pauses, and bounds on what its key may cost."""
