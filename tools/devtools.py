"""A headless Chromium, driven over its DevTools protocol: opens pages, reads and clicks on them, takes screenshots."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from kcr.testing import eventually
from tools.browser import Chromium

FLAGS = ("--headless=shell", "--no-sandbox", "--no-zygote", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         "--force-color-profile=srgb", "--remote-debugging-port=0")  # fmt: skip
START_SECONDS, WAIT_SECONDS = 20.0, 10.0


class Tab:
    """A page that is open.

    Attributes:
        complaints: What the page wrote to the console as warning or error, and its uncaught exceptions.
        requested: The addresses that it has asked for.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._calls = 0
        self.complaints: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **parameters: object) -> Any:
        """Call a method of the protocol, and return its result.

        Raises:
            RuntimeError: The browser refused it.
        """
        self._calls += 1
        number = self._calls
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") != number:
                self._note(message)
                continue
            if "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            return message["result"]

    def _note(self, message: Mapping[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("warning", "error"):
                self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled" if parameters["type"] in ("warning", "error", "assert"):
                self.complaints.append(str(parameters["args"]))

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript.

        Raises:
            RuntimeError: It throws.
        """
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']['exception']['description']}")
        return answer["result"].get("value")

    async def text(self, selector: str = "body") -> str:
        """Return the text that the first element of a CSS selector shows; empty without one."""
        return str(await self.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''"))

    async def wait_for(self, text: str, selector: str = "body", *, seconds: float = WAIT_SECONDS) -> None:
        """Wait until an element shows a text.

        Raises:
            AssertionError: It did not within `seconds`.
        """

        async def shows() -> bool:
            shown = await self.text(selector)
            assert text in shown, f"{selector} does not show {text!r}, but: {shown[:2000]}"
            return True

        await eventually(shows, seconds=seconds)

    async def click(self, selector: str, text: str = "") -> None:
        """Click on the first element of a CSS selector that shows a text.

        Raises:
            RuntimeError: There is none.
        """
        await self.evaluate(
            f"[...document.querySelectorAll({selector!r})].find((each) => each.textContent.includes({text!r})).click()"
        )

    async def press(self, key: str) -> None:
        """Press and release a key, such as `Escape` or `p`."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def screenshot(self) -> bytes:
        """Return what the window shows, as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])


class Browser:
    """A browser that runs."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    @asynccontextmanager
    async def open(
        self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False, scale: float = 1
    ) -> AsyncIterator[Tab]:
        """Open a page, and close it at the end.

        Args:
            url: Its address.
            width: Of the window, in CSS pixels.
            height: Of the window, in CSS pixels.
            dark: Whether the user prefers dark colours.
            scale: Device pixels for each CSS pixel.
        """
        async with self._session.put(f"{self._address}/json/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        async with self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            tab = Tab(socket)
            for domain in ("Page", "Runtime", "Log", "Network"):
                await tab.call(f"{domain}.enable")
            window = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
            await tab.call("Emulation.setDeviceMetricsOverride", **window)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            await tab.call("Emulation.setEmulatedMedia", features=[scheme])
            await tab.call("Page.navigate", url=url)
            yield tab
            await tab.call("Page.close")


@asynccontextmanager
async def browsing(chromium: Chromium) -> AsyncIterator[Browser]:
    """Run a browser with a profile of its own, and end it.

    Raises:
        AssertionError: It did not start.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            chromium.path, *FLAGS, f"--user-data-dir={profile}", "about:blank",
            env={**os.environ, **chromium.environment},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = await eventually(lambda: _port_of(Path(profile)), seconds=START_SECONDS)
            async with aiohttp.ClientSession(trust_env=False) as session:
                yield Browser(session, f"http://127.0.0.1:{port}")
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _port_of(profile: Path) -> str:
    """Return the port that the browser has written into its profile; empty before that."""
    try:
        return (profile / "DevToolsActivePort").read_text().partition("\n")[0]
    except FileNotFoundError:
        return ""
