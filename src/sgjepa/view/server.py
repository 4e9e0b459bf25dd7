"""The server: one page for this machine's own browser. It binds to 127.0.0.1, serves the files it was made of and nothing
else, and answers only requests that name this machine, from pages that it served itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sgjepa.core.errors import InputError, MachineError
from sgjepa.view import html, question
from sgjepa.view.desk import Desk, failure
from sgjepa.view.scenes import Page

HOST, NAMES = "127.0.0.1", ("127.0.0.1", "localhost")
_LOST = 1008  # the WebSocket's code for a policy that was violated
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
Scope = MutableMapping[str, Any]


def bind(port: int) -> socket.socket:
    """A socket of this machine; port 0 takes a free one. Held from here on, so that nobody else gets it."""
    if not 0 <= port <= 65_535:
        raise InputError(f"--port must lie between 0 and 65535, got {port}")
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen()  # who comes before the models are loaded waits, and is served
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise MachineError(f"port {port} is taken; choose another --port, or 0 for any that is free") from error
        raise
    return found


def app(page: Page) -> Starlette:
    """The whole server, without its socket."""
    desk, clients = Desk(page), count()
    text, policy = html.served()
    files = {"/": text, "/view.css": html.style()}
    files |= {f"/{name}.js": html.read(f"{name}.js") for name in (*html.MODULES, "live")}

    async def file(request: Request) -> Response:
        path = request.url.path
        kind = _TYPES[path.rpartition(".")[2] if path != "/" else "html"]
        return Response(files[path], media_type=kind)

    async def about(request: Request) -> Response:
        return JSONResponse(page.about())

    async def live(connection: WebSocket) -> None:
        if not _from_us(connection):
            await connection.close(_LOST)
            return
        await connection.accept()
        await _converse(connection, desk, page, next(clients))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(desk.close)

    routes = [*(Route(path, file) for path in files), Route("/about", about), WebSocketRoute("/live", live)]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES), www_redirect=False), Middleware(Headers, policy)]
    return Starlette(routes=routes, middleware=guards, lifespan=lifespan)


def serve(page: Page, listening: socket.socket) -> None:
    """Until somebody stops it."""
    settings = uvicorn.Config(
        app(page),
        log_level="error",
        ws="websockets-sansio",
        ws_per_message_deflate=False,  # pictures go to this machine: packing them only takes time
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listening])


class Headers:
    """What every answer says: the page's policy, and that a browser takes a file for what it is called."""

    def __init__(self, inner: Callable[..., Awaitable[None]], policy: str):
        self._inner, self._policy = inner, policy

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        said = {
            "content-security-policy": self._policy + "; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }

        async def with_headers(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((key.encode(), value.encode()) for key, value in said.items())]
            await send(message)

        await self._inner(scope, receive, with_headers)


def _from_us(connection: WebSocket) -> bool:
    """Browsers let any page open a socket to any machine, but say whose page it is. Other programs say nothing."""
    origin = connection.headers.get("origin")
    return origin is None or origin == f"http://{connection.headers.get('host')}"


async def _converse(connection: WebSocket, desk: Desk, page: Page, client: int) -> None:
    """Questions come in, answers go out, until the page is closed."""
    loop, outbox = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def send(content: bytes) -> None:
        loop.call_soon_threadsafe(outbox.put_nowait, content)

    async def deliver() -> None:
        while True:
            await connection.send_bytes(await outbox.get())

    delivering = asyncio.create_task(deliver())
    try:
        while True:
            heard = await connection.receive()
            if heard["type"] == "websocket.disconnect":
                break
            text = heard.get("text")
            try:
                if text is None:
                    raise InputError("a question must be text")
                asked = question.read(text, page.choices)
            except InputError as error:
                send(failure(str(error), question.number_in(text or "")).to_bytes())
                continue
            desk.ask(client, asked, send)
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        desk.leave(client)
        delivering.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await delivering
