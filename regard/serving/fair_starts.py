"""The order in which requests begin: those of different addresses in turns, however many one of
them has sent.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.limits import address_group


class FairStarts:
    """A middleware that lets one request begin in each iteration of the event loop, and the others
    wait.

    The addresses that wait take turns: a client that sends hundreds of requests at once, on
    hundreds of connections, waits for itself, and the others wait for one of its requests at most.
    Who is alone does not wait.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._waiting = defaultdict[str, deque[asyncio.Future[None]]](deque)
        self._has_begun = False  # one, in this iteration

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._has_begun:
            address = address_group((scope.get("client") or ("", 0))[0])
            self._waiting[address].append(
                turn := asyncio.get_running_loop().create_future()
            )
            await turn
        else:
            self._begin()
        await self.app(scope, receive, send)

    def _begin(self) -> None:
        self._has_begun = True
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Begin the next waiting request; the addresses take turns."""
        self._has_begun = False
        while self._waiting and not self._has_begun:
            address = next(iter(self._waiting))
            requests = self._waiting.pop(address)
            turn = requests.popleft()
            if requests:
                self._waiting[address] = requests
            if not turn.done():  # it was not given up
                turn.set_result(None)
                self._begin()
