"""``tvm.driver.tvmc.tracker``: where an RPC tracker is."""

from __future__ import annotations

from .exceptions import TVMCException

__all__ = ["DEFAULT_PORT", "tracker_host_port_from_cli"]

DEFAULT_PORT = 9090


def tracker_host_port_from_cli(rpc_tracker_str: str | None) -> tuple[str | None, int | None]:
    """Return host and port of ``HOST[:PORT]``; two Nones for no text.

    >>> tracker_host_port_from_cli("1.2.3.4"), tracker_host_port_from_cli("board:9191")
    (('1.2.3.4', 9090), ('board', 9191))
    """
    if not rpc_tracker_str:
        return None, None
    host, colon, port = rpc_tracker_str.rpartition(":")
    if not colon:
        return rpc_tracker_str, DEFAULT_PORT
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise TVMCException(
            f"--rpc-tracker {rpc_tracker_str!r}: expected HOST or HOST:PORT, with a port from 1 to 65535"
        )
    return host, int(port)
