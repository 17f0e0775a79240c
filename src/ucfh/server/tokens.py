"""Access tokens in a file, and sessions of the dashboard.

A token is 256 random bits, shown once at creation. The file contains its name, its role and its
SHA-256; only the owner of the file may read it. A role is "write" or "read" (read-only).

The dashboard does not keep a token: it gets a cookie with the token's hash and the end of the
session, signed with a key in the file. A session ends with its token, after hours, or at sign-out
from this process.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from ucfh._utils.files import check_keys, naming, parse_json, read_text, replacing
from ucfh.exceptions import InputError
from ucfh.tasks.file_lock import FileLock

READ, WRITE = "read", "write"
SESSION = 12 * 3600.0
"""Seconds for which a session lasts."""
BITS, SHOWN = 256, 16
"""Bits of a token and of the key; hexadecimal digits of the hash that identify a token."""
NONCE = 8
"""Random bytes of a session, so that cookies are unique."""
CHECK_EVERY = 1.0
"""Seconds between two checks of the file."""


class Token(NamedTuple):
    """A token as stored in the file; ``made``: seconds since 1970."""

    name: str
    role: str
    sha256: str
    made: float


class TokenFile:
    """The valid tokens of a file, which is reloaded when it changes.

    Args:
        path: of the file.
        create: whether a missing file counts as empty.

    Attributes:
        tokens: the valid tokens.

    """

    def __init__(self, path: str, create: bool = False) -> None:
        self.path, self.tokens = path, list[Token]()
        self._key, self._seen, self._next = secrets.token_bytes(BITS // 8), (0, 0, 0), 0.0
        self._ended: dict[str, float] = {}
        """Cookies of signed-out sessions, and when they expire."""
        if os.path.exists(path) or not create:
            self._read()

    def _read(self) -> None:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror}; make it with ucfh token create --file "
                f"{self.path}"
            ) from None
        if os.name == "posix" and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(
                f"{self.path} can be read or changed by others than its owner: run chmod 600 "
                f"{self.path}"
            )
        with naming(self.path):
            saved = check_keys(parse_json(read_text(self.path)), ("key", "tokens"))
            try:
                tokens = [Token(**x) for x in saved["tokens"]]
                key = bytes.fromhex(saved["key"])
                sound = len(key) == BITS // 8 and all(
                    x.role in (READ, WRITE) and len(bytes.fromhex(x.sha256)) == 32 for x in tokens
                )
            except (TypeError, ValueError):
                sound = False
            if not sound:
                raise InputError(
                    "it is not a file of tokens: make a new one with ucfh token create"
                )
        self.tokens, self._key = tokens, key
        self._seen = found.st_ctime_ns, found.st_ino, found.st_size

    def refresh(self) -> None:
        """Reload the file if it has changed; without a readable file there are no tokens."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + CHECK_EVERY
        try:
            found = os.stat(self.path)
            if (found.st_ctime_ns, found.st_ino, found.st_size) != self._seen:
                self._read()
        except (OSError, InputError):
            self.tokens, self._seen = [], (0, 0, 0)

    def broken(self) -> bool:
        """True if the file cannot be read now."""
        self.refresh()
        return self._seen == (0, 0, 0)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock and reload the file, and write the changed tokens."""
        lock = FileLock(f"{self.path}-lock")
        try:
            lock.acquire(self.path)
            if os.path.exists(self.path):
                self._read()
            yield
            self._write()
        finally:
            lock.close()

    def _write(self) -> None:
        kept = {"key": self._key.hex(), "tokens": [x._asdict() for x in self.tokens]}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with (
            replacing(self.path, force=True) as temporary,
            open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file,
        ):
            json.dump(kept, file, indent=1)
            file.flush()
            os.fsync(file.fileno())  # a revoked token does not come back after a power failure

    def add(self, role: str, name: str | None) -> tuple[Token, str]:
        """Create a token; returns its record and the token itself."""
        if name is not None and (not name.strip() or not name.isprintable()):
            raise InputError(f"--name {name!r} is blank or cannot be read: give a name")
        text = secrets.token_urlsafe(BITS // 8)
        with self._changing():
            taken = {x.name for x in self.tokens}
            if name in taken:
                raise InputError(
                    f"{self.path} has a token {name!r}: give another name, or revoke it"
                )
            name = name or next(x for x in _numbered("token") if x not in taken)
            token = Token(name, role, _hashed(text), time.time())
            self.tokens.append(token)
        return token, text

    def revoke(self, name: str) -> None:
        """Remove a token, which ends its sessions."""
        with self._changing():
            left = [x for x in self.tokens if x.name != name]
            if len(left) == len(self.tokens):
                known = ", ".join(x.name for x in self.tokens) or "none"
                raise InputError(f"{self.path} has no token {name!r} (known: {known})")
            self.tokens = left

    def find(self, text: str) -> Token | None:
        """Return the record of a token, in a time that does not depend on the stored hashes."""
        self.refresh()
        hashed, found = _hashed(text), None
        for token in self.tokens:
            if hmac.compare_digest(token.sha256, hashed):
                found = token
        return found

    def cookie(self, token: Token, until: float) -> str:
        """Return the cookie of a new session: hash of the token, end, nonce, signature."""
        said = f"{token.sha256[:SHOWN]}.{until:.0f}.{secrets.token_hex(NONCE)}"
        return f"{said}.{self._signed(said)}"

    def session(self, cookie: str) -> tuple[Token, float] | None:
        """Return the token and the end of a session, or None if it is not valid."""
        self.refresh()
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._signed(said).encode(), signature.encode()):
            return None
        which, until, *_ = said.split(".")
        token = next((x for x in self.tokens if x.sha256[:SHOWN] == which), None)
        if token is None or float(until) < time.time() or cookie in self._ended:
            return None
        return token, float(until)

    def end(self, cookie: str) -> None:
        """End a session: this process rejects its cookie from now on."""
        if (found := self.session(cookie)) is not None:
            now = time.time()
            self._ended = {x: until for x, until in self._ended.items() if until >= now}
            self._ended[cookie] = found[1]

    def _signed(self, said: str) -> str:
        return hmac.new(self._key, said.encode(), sha256).hexdigest()


def _hashed(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _numbered(word: str) -> Iterator[str]:
    k = 1
    while True:
        yield f"{word}-{k}"
        k += 1
