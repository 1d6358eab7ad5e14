"""The page at the root of the server: one HTML answer that asks the endpoints under /v1, and nobody else."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.visualisation.server_page import render_server_page


def front_page() -> APIRouter:
    """Return the endpoint of the page. Browsers may keep the page, and ask each time whether it is still the same."""
    router, page = APIRouter(), render_server_page()
    content = page.html.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {
        "Content-Security-Policy": page.policy,
        "Cache-Control": "no-cache",
        "ETag": tag,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def front(request: Request) -> Response:
        """Send the page that translates."""
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="text/html; charset=utf-8")

    return router
