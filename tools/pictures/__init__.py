"""The pictures of the documents, made from what they show: `python -m tools.pictures`."""
