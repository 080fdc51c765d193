"""Signatures of executables by Ed25519 keys, so that who wrote a file is known before anything in it is used.

The package ``cryptography``, of the extra ``signing``, computes them; this module is imported where a key is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import ExecutableError, OptionError

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
except ImportError as error:
    raise OptionError("signatures need the package cryptography: pip install 'vmkit[signing]'") from error

__all__ = ["require_signature", "signed"]

# What is signed is said with it, so that a signature of these bytes made for another purpose is none.
_PURPOSE = b"vmkit executable, manifest:\n"
_SIGNATURE = re.compile(rb" ed25519:([0-9a-f]{128})")
_EXPECTED = "of the package cryptography, of its 32 bytes, or of the text of a PEM file as bytes"
_PEM = b"-----BEGIN"


def signed(manifest: bytes, key: Ed25519PrivateKey | bytes) -> bytes:
    """Return what stands after the digest of a manifest in a file: its signature.

    Raises
    ------
    OptionError
        If the key is no private one.
    """
    return b" ed25519:" + _private(key).sign(_PURPOSE + manifest).hex().encode()


def require_signature(
    path: Path, manifest: bytes, signature: bytes, trusted: Sequence[Ed25519PublicKey | bytes]
) -> None:
    """Raise unless one of the trusted keys signed a manifest.

    Parameters
    ----------
    path : Path
        The file, for messages.
    manifest, signature : bytes
        The manifest, and what stands after its digest.
    trusted : sequence of Ed25519PublicKey or bytes
        The keys, of which any will do.

    Raises
    ------
    ExecutableError
        If there is no signature, or it is by none of the keys.
    OptionError
        If one is no public key.
    """
    if isinstance(trusted, bytes | str) or not isinstance(trusted, Sequence):
        raise OptionError(f"trusted_keys is a list of public keys, not a {type(trusted).__name__}")
    keys = [_public(key) for key in trusted]
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        raise ExecutableError(f"{path}: the file is not signed, and signatures by trusted keys are asked for")
    if not any(_is_by(key, bytes.fromhex(found[1].decode()), _PURPOSE + manifest) for key in keys):
        count = "the trusted key" if len(keys) == 1 else f"any of the {len(keys)} trusted keys"
        raise ExecutableError(f"{path}: the file is not signed by {count}")


def _is_by(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _private(given: object) -> Ed25519PrivateKey:
    key = given
    try:
        if isinstance(given, bytes):
            is_pem = given.lstrip().startswith(_PEM)
            key = load_pem_private_key(given, None) if is_pem else Ed25519PrivateKey.from_private_bytes(given)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OptionError(f"no private key can be read: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(f"expected a private key of Ed25519 {_EXPECTED}, not a {type(key).__name__}")
    return key


def _public(given: object) -> Ed25519PublicKey:
    key = given
    try:
        if isinstance(given, bytes):
            is_pem = given.lstrip().startswith(_PEM)
            key = load_pem_public_key(given) if is_pem else Ed25519PublicKey.from_public_bytes(given)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OptionError(f"no public key can be read: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise OptionError(f"expected a public key of Ed25519 {_EXPECTED}, not a {type(key).__name__}")
    return key
