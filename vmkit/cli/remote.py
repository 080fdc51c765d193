"""Devices of other machines: where they are, and a program on one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import OptionError

if TYPE_CHECKING:
    from vmkit.executable.executable import Executable
    from vmkit.runtime.remote import RemoteMachine

__all__ = ["add_tracker", "machine_there", "tracker_of"]

_SESSION = 1000  # seconds that a device is asked for


def add_tracker(parser: argparse.ArgumentParser) -> None:
    """Add ``--rpc-tracker`` and ``--rpc-key``; :func:`tracker_of` reads them."""
    parser.add_argument(
        "--rpc-tracker", "--tracker", metavar="HOST:PORT", help="an RPC tracker that lends devices (port: 9090)"
    )
    parser.add_argument("--rpc-key", "--key", help="which of its devices")


def tracker_of(arguments: argparse.Namespace) -> tuple[str, int, str] | None:
    """Return host, port and key of the tracker that is given, or None; OptionError for one without the other."""
    from .tvmc.tracker import tracker_host_port_from_cli

    host, port = tracker_host_port_from_cli(arguments.rpc_tracker)
    if (host is None) != (arguments.rpc_key is None):
        raise OptionError("--rpc-tracker and --rpc-key go together: where the tracker is, and which of its devices")
    return None if host is None or port is None else (host, port, arguments.rpc_key)


def machine_there(executable: Executable, kind: str, where: tuple[str, int, str | None]) -> tuple[RemoteMachine, Any]:
    """Return a machine that runs a program on another one, and the device that it runs on.

    Parameters
    ----------
    executable : Executable
        The program, which is sent there.
    kind : str
        Of the device, such as ``"cpu"``.
    where : tuple of str, int, str
        Host and port of a tracker and the key of its devices; or of an RPC server, and None.

    Raises
    ------
    OptionError
        If there is no such tracker or server, or it lends no such device.
    """
    from tvm import rpc

    from vmkit.runtime.remote import RemoteMachine, send
    from vmkit.tuning.places import require_devices

    host, port, key = where
    if key is not None:
        require_devices((host, port, key))
    try:
        session = (
            rpc.connect(host, port, session_timeout=_SESSION)
            if key is None
            else rpc.connect_tracker(host, port).request(key, session_timeout=_SESSION)
        )
    except Exception as error:  # what TVM raises says nothing of where it was
        raise OptionError(f"--rpc-tracker {host}:{port}: {error}") from error
    device = session.device(kind)
    return RemoteMachine(send(executable, session), device), device
