"""Numbers of any length in objects: no float and no int of Python refuses them with a traceback."""

from kcr_devcluster.apiserver.kinds.apps.sets import _template_generation
from kcr_devcluster.apiserver.quota.limit_ranges import _ratio_error
from kcr_devcluster.apiserver.registry.registry import _is_version
from kcr_devcluster.apiserver.schema.quantities import amount


def test_ratio_of_huge_amounts_is_refused() -> None:
    assert _ratio_error(amount("1"), amount("1e1900"), amount("2")).startswith("provided ratio is 1000")
    assert _ratio_error(amount("1"), amount("3"), amount("2")) == "provided ratio is 3.000000"
    assert _ratio_error(amount("1e1900"), amount("1e1900"), amount("2")) == ""


def test_template_generation_of_any_length_is_read() -> None:
    count = {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "9" * 5_000}}}
    assert _template_generation(count) == 1


def test_version_of_any_length_is_read() -> None:
    assert not _is_version("9" * 5_000)
    assert [_is_version(text) for text in ("", "0", "007", "12", "x")] == [False, False, True, True, False]
