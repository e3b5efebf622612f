"""The first own controller, as a reader would run it."""

import pytest

from examples.configmap_copier import demo


@pytest.mark.kcr_virtual
async def test_demo_shows_copies_that_follow_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    await demo.main()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "copies:" in line]
    assert lines == [
        "copies: blue/colors (sky: blue), green/colors (sky: blue)",
        "copies: blue/colors (sky: grey), green/colors (sky: grey)",
        "copies: blue/colors (sky: grey), green/colors (sky: grey)",
        "copies: green/colors (sky: grey)",
        "copies: none",
    ]
