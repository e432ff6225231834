"""Ctrl-C and SIGTERM while work goes on: counted, so that nothing is lost to them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


class Terminated(KeyboardInterrupt):
    """SIGTERM: as a second Ctrl-C, with an exit status of its own."""


class Interrupts:
    """Counts Ctrl-C, where this is the main thread; `act` is called with each count. SIGTERM counts as two at once."""

    def __init__(self):
        self.count = 0
        self.terminated = False
        self.act: Callable[[int], None] = lambda count: None

    def __enter__(self):
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *problem):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stopped(self) -> KeyboardInterrupt:
        """What to raise where the count says to stop at once."""
        return Terminated() if self.terminated else KeyboardInterrupt()

    def _handle(self, number, frame):
        self.terminated |= number == signal.SIGTERM
        self.count = self.count + 1 if number == signal.SIGINT or self.count > 1 else 2
        if self.count > 2:  # something does not come to its end
            self.__exit__()
            raise self.stopped()
        self.act(self.count)
