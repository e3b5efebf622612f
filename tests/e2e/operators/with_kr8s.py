"""An operator of Widgets written with kr8s: a watch, and patches."""

import kr8s
from kr8s.objects import new_class

FINALIZER = "example.com/widget"
Widget = new_class(kind="Widget", version="example.com/v1", namespaced=True)


def main() -> None:
    for _, widget in kr8s.watch(Widget, namespace="default"):
        finalizers = widget.metadata.get("finalizers", [])
        if "deletionTimestamp" in widget.metadata:
            if FINALIZER in finalizers:
                print("buried", widget.name, flush=True)
                widget.patch({"metadata": {"finalizers": None}})
            continue
        if FINALIZER not in finalizers:
            widget.patch({"metadata": {"finalizers": [FINALIZER]}})
        if widget.raw.get("status", {}).get("painted") != widget.spec.colour:
            widget.patch({"status": {"painted": widget.spec.colour}}, subresource="status")


main()
