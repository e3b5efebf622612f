"""An operator of Widgets written with lightkube: a watch, and a patch of the status."""

from lightkube import Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

FINALIZER = "example.com/widget"
Widget = create_namespaced_resource("example.com", "v1", "Widget", "widgets")


def main() -> None:
    client = Client(field_manager="painter")
    for _, widget in client.watch(Widget, namespace="default"):
        name, finalizers = widget.metadata.name, widget.metadata.finalizers or []
        if widget.metadata.deletionTimestamp:
            if FINALIZER in finalizers:
                print("buried", name, flush=True)
                client.patch(Widget, name, {"metadata": {"finalizers": None}}, patch_type=PatchType.MERGE)
            continue
        if FINALIZER not in finalizers:
            client.patch(Widget, name, {"metadata": {"finalizers": [FINALIZER]}}, patch_type=PatchType.MERGE)
        if (widget.status or {}).get("painted") != widget.spec["colour"]:
            status = {"status": {"painted": widget.spec["colour"]}}
            client.patch(Widget.Status, name, status, patch_type=PatchType.MERGE)


main()
