"""Opens the socket of the home for a gateway that runs, however it is run."""

from gateway.http.terminal.local_server import LocalServer
from gateway.platforms.local.adapter import LocalAdapter
from gateway.service.gateway import Gateway


async def open_socket(gateway: Gateway) -> None:
    """Serve the terminals until the gateway ends; a gateway that cannot is stopped, with the reason."""
    (adapter,) = (adapter for adapter in gateway.adapters if isinstance(adapter, LocalAdapter))
    server = LocalServer(adapter)
    try:
        await server.open()
    except BaseException as problem:
        await gateway.stop(str(problem))
        raise
    gateway.doors.closers.append(server.close)
