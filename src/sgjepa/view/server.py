"""The viewer's server: one page for this machine's own browser. It binds to 127.0.0.1, serves the files of its page and
nothing else, and answers only requests that name this machine, from pages that it served itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any

import uvicorn
from starlette import requests
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sgjepa.core.errors import InputError, MachineError
from sgjepa.view import html
from sgjepa.view.messages import error_message
from sgjepa.view.request import number_in, parse_request
from sgjepa.view.request_queue import RequestQueue
from sgjepa.view.viewer import Viewer

HOST, NAMES = "127.0.0.1", ("127.0.0.1", "localhost")
_POLICY_VIOLATED = 1008  # a WebSocket's code
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_MAX_UNREAD = 32  # messages to one client
Scope = MutableMapping[str, Any]


def bind(port: int) -> socket.socket:
    """Bind a listening socket on this machine; port 0 takes a free one."""
    if not 0 <= port <= 65_535:
        raise InputError(f"--port must lie between 0 and 65535, got {port}")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # a browser that comes before the models are loaded waits
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise MachineError(f"port {port} is taken; choose another --port, or 0 for any that is free") from error
        raise
    return listening


def app(viewer: Viewer) -> Starlette:
    """The server application, without its socket."""
    queue, clients = RequestQueue(viewer), count()
    text, policy = html.served_page()
    files = {"/": text, "/view.css": html.style()}
    files |= {f"/{name}.js": html.read(f"{name}.js") for name in (*html.MODULES, "live")}

    async def file(request: requests.Request) -> Response:
        path = request.url.path
        kind = _TYPES[path.rpartition(".")[2] if path != "/" else "html"]
        return Response(files[path], media_type=kind)

    async def about(_: requests.Request) -> Response:
        return JSONResponse(viewer.about())

    async def live(connection: WebSocket) -> None:
        if not _is_own_page(connection):
            await connection.close(_POLICY_VIOLATED)
            return
        await connection.accept()
        await _answer(connection, queue, viewer, next(clients))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(queue.close)

    routes = [*(Route(path, file) for path in files), Route("/about", about), WebSocketRoute("/live", live)]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES), www_redirect=False), Middleware(Headers, policy)]
    return Starlette(routes=routes, middleware=guards, lifespan=lifespan)


def serve(viewer: Viewer, listening: socket.socket) -> None:
    """Serve until the process is stopped."""
    settings = uvicorn.Config(
        app(viewer),
        log_level="error",
        ws="websockets-sansio",
        ws_per_message_deflate=False,  # frames go to this machine: compression only takes time
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listening])


class Headers:
    """Middleware that adds the page's content security policy, and what else keeps a browser strict, to every answer."""

    def __init__(self, inner: Callable[..., Awaitable[None]], policy: str):
        self._inner = inner
        headers = {
            "content-security-policy": policy + "; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }
        self._headers = [(key.encode(), value.encode()) for key, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Scope) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._inner(scope, receive, send_with_headers)


class Outbox:
    """Messages to one client that it has not read yet. The request queue's thread fills it, the server's loop empties it."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._loop, self._filled = asyncio.get_running_loop(), asyncio.Event()

    def is_full(self) -> bool:
        """Whether the client has to read first, which bounds the memory."""
        return len(self._messages) >= _MAX_UNREAD

    def put(self, content: bytes) -> None:
        """Add a message, from any thread."""
        self._messages.append(content)
        self._loop.call_soon_threadsafe(self._filled.set)

    async def deliver(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is there and what will come, until cancelled."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._messages:
                await send(self._messages[0])
                self._messages.popleft()


def _is_own_page(connection: WebSocket) -> bool:
    """Browsers let any page open a socket to any machine, but name the page's origin. Other programs name none."""
    origin = connection.headers.get("origin")
    return origin is None or origin == f"http://{connection.headers.get('host')}"


async def _answer(connection: WebSocket, queue: RequestQueue, viewer: Viewer, client: int) -> None:
    """Take requests and deliver their answers until the page is closed."""
    outbox = Outbox()
    delivering = asyncio.create_task(outbox.deliver(connection.send_bytes))
    try:
        while (event := await connection.receive())["type"] != "websocket.disconnect":
            text = event.get("text")
            try:
                if text is None:
                    raise InputError("a request must be text")
                request = parse_request(text, viewer.choices)
            except InputError as error:
                if not outbox.is_full():
                    outbox.put(error_message(str(error), number_in(text or "")).to_bytes())
                continue
            queue.ask(client, request, outbox.put, outbox.is_full)
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        queue.leave(client)
        delivering.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await delivering
