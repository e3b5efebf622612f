"""How long to wait before the server is asked again."""

from random import Random

_FIRST_SECONDS = 0.8
_LONGEST_SECONDS = 30.0
_FORGOTTEN_AFTER_SECONDS = 120.0


class Backoff:
    """Pauses that double up to 30 s, each lengthened by chance up to twofold, and start anew after two quiet minutes.

    Source: kubernetes/staging/src/k8s.io/client-go/tools/cache/reflector.go, NewReflectorWithOptions (RF-3).
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = _FIRST_SECONDS
        self._last = float("-inf")

    def pause(self, now: float) -> float:
        """Return the seconds to wait.

        Args:
            now: The loop's time.
        """
        if now - self._last >= _FORGOTTEN_AFTER_SECONDS:
            self._next = _FIRST_SECONDS
        self._last = now
        seconds = self._next * (1.0 + self._random.random())
        self._next = min(self._next * 2, _LONGEST_SECONDS)
        return seconds
