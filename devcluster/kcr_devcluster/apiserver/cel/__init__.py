"""The Common Expression Language as kube-apiserver has it: types, functions, costs and values."""
