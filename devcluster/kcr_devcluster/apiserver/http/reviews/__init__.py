"""Reviews: requests that are answered and not stored, such as whether a user may do something."""
