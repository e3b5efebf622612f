"""Parts of a store: each has a watch and a version of its own; under sharding they come and go with the slots."""
