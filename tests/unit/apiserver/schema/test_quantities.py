import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.schema.quantities import amount, canonical, in_thousandths, whole

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
NUMBERS = st.decimals(-10_000, 10_000, places=3).map(lambda number: format(number, "f"))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param("1000m", "1", id="whole"),
        pytest.param("1.5", "1500m", id="fraction"),
        pytest.param("0.5", "500m", id="below-one"),
        pytest.param("1000", "1k", id="thousand"),
        pytest.param("1024", "1024", id="plain-stays-decimal"),
        pytest.param("1024Mi", "1Gi", id="binary-grows"),
        pytest.param("1.5Gi", "1536Mi", id="binary-without-fraction"),
        pytest.param("0.5Ki", "512", id="small-binary-is-decimal"),
        pytest.param("0", "0", id="zero"),
        pytest.param("0Gi", "0", id="binary-zero"),
        pytest.param("1e3", "1e3", id="exponent"),
        pytest.param("1E3", "1E3", id="capital-exponent-is-kept"),
        pytest.param("1000E0", "1e3", id="capital-exponent-with-zeros"),
        pytest.param("1e30", "1e30", id="beyond-64-bits"),
        pytest.param("1500E", "1500E", id="no-suffix-beyond-exa"),
        pytest.param("1000E", "1", id="upstream-forgets-the-suffix"),
        pytest.param("16Ei", "9223372036854775807", id="binary-is-bounded"),
        pytest.param("1E", "1E", id="exa"),
        pytest.param("100e-1", "10", id="exponent-goes"),
        pytest.param("0.0000000001", "1n", id="rounds-up"),
        pytest.param("-1500m", "-1500m", id="negative"),
        pytest.param("+2", "+2", id="plus-is-kept"),
        pytest.param("+2000", "2k", id="plus-with-zeros"),
        pytest.param(".5", "500m", id="no-leading-zero"),
        pytest.param("5.", "5.", id="trailing-point-is-kept"),
    ],
)
def test_quantity_has_one_form(text: str, form: str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize("text", ["", "abc", "1x", "1.2.3", "1 Gi", "0x10", "1_000", "1e3Ki", "1µ", " 1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        canonical(text)


@pytest.mark.parametrize("text", ["1K", "1ki", "1mi", "1i", "1e", "1E+", "1Ee3", "--1", "+-1"])
def test_suffix_that_is_unknown_is_refused(text: str) -> None:
    """Source: cel-and-bodies.md, B20."""
    with pytest.raises(ValueError, match=r"^unable to parse quantity's suffix$"):
        canonical(text)


@pytest.mark.parametrize("text", [".", "Ki", "e3", "+", "-."])
def test_quantity_without_digits_is_zero(text: str) -> None:
    assert canonical(text) == "0"


@given(NUMBERS, st.sampled_from(SUFFIXES))
def test_form_says_the_same_amount(number: str, suffix: str) -> None:
    form = canonical(number + suffix)
    # From a thousand E on the suffix is forgotten, as upstream does.
    assume(abs(amount(number + suffix)) < 1_000 * amount("1E"))
    assert amount(form) == amount(number + suffix)
    assert canonical(form) == form


@pytest.mark.parametrize("text", ["1Gi", "8Pi", "1e3", "-1", "9223372036854775807", "1e30"])
def test_whole_number_of_units_is_one(text: str) -> None:
    assert whole(text)


@pytest.mark.parametrize("text", ["1500m", "1n", "1e-3", "1Ei"])
def test_fraction_is_no_whole_number_nor_what_overflows_in_thousandths(text: str) -> None:
    """Source: cel-and-bodies.md, B19; apimachinery's Quantity.MilliValue, which wraps around."""
    assert not whole(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [("0.0005", "1m"), ("1500u", "2m"), ("-1500u", "-2m"), ("1m", "1m"), ("+1", "+1"), ("0.5Gi", "512Mi")],
)
def test_amounts_of_resources_are_whole_thousandths(text: str, form: str) -> None:
    assert in_thousandths(text) == form
