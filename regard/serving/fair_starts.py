"""Fair scheduling of requests: client addresses take turns, however many requests one has sent."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.limits import address_group


class FairStarts:
    """Middleware that starts one request in each iteration of the event loop, round-robin over
    client addresses.

    If a client sends hundreds of requests at once, each other client waits for at most one of them.
    A single request starts at once.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._waiting = defaultdict[str, deque[asyncio.Future[None]]](deque)
        self._has_begun = False  # whether a request has begun in this iteration

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._has_begun:
            host, _ = scope.get("client") or ("", 0)
            turn = asyncio.get_running_loop().create_future()
            self._waiting[address_group(host)].append(turn)
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
            if not turn.done():  # a cancelled request has given its turn up
                turn.set_result(None)
                self._begin()
