"""HTTP proxies between this process and an endpoint, as the variables HTTPS_PROXY and NO_PROXY name them.

The imports are deferred: only a process behind a proxy needs them.
"""

from __future__ import annotations

import socket
from urllib.parse import unquote, urlsplit


def find_proxy(endpoint: str) -> str | None:
    """Find the address of the proxy for an endpoint; None if the endpoint is reached directly.

    An endpoint without TLS is an emulator's, and is always reached directly. ValueError if the proxy itself demands TLS.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(endpoint)
    proxy = getproxies().get("https")
    if parts.scheme != "https" or not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, mark, rest = proxy.rpartition("://")
    if mark and scheme != "http":
        # The address may have a password, so it is not shown.
        raise ValueError(
            f"HTTPS_PROXY begins with {scheme}://: only proxies whose address begins with http:// are used"
        )
    return f"http://{rest}"


def open_tunnel(proxy: str, host: str, port: int, seconds: float) -> socket.socket:
    """Open a connection to a host through a proxy, by CONNECT; OSError with the proxy's reason if it refuses."""
    from base64 import b64encode
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(proxy)
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    tunnel = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=seconds)
    tunnel.set_tunnel(host, port, headers)
    try:
        tunnel.connect()
    except HTTPException as error:
        tunnel.close()
        raise OSError(f"the answer of the proxy cannot be read: {error!r}") from error
    connected: socket.socket = tunnel.sock
    return connected
