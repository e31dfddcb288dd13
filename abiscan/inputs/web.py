"""Pages and parts of files from package indexes, over HTTP: credentials, retries, what was read before.

The client and its credentials (URL, netrc, keyring) are those of unearth. Pages are kept in a folder, so a run can be
repeated offline.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx2
from unearth import auth
from unearth.fetchers import PyPIClient

from abiscan.errors import InputError, UnreachableError
from abiscan.inputs import disk
from abiscan.inputs.kept import written_whole

_TRIES: Final = 3
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
_LONGEST_WAIT_SECONDS: Final = 20.0
_TIMEOUT_SECONDS: Final = 15.0  # as pip has it
_PATIENCE_SECONDS: Final = 60.0
_LEAST: Final = 64 << 10
"""A server that sends less than this in that time is given up."""

_LARGEST_PAGE: Final = 64 << 20
_REFUSED: Final = {401: "the index wants credentials", 403: "the index refuses access", 429: "too many requests"}


class Web:
    """Access to package indexes.

    ``bytes_read`` counts what was received, as it was sent.

    :param folder: where pages are kept
    :param index_urls: whose credentials are used
    :param offline: whether to use only what is kept
    """

    def __init__(
        self,
        folder: Path,
        *,
        index_urls: Iterable[str] = (),
        trusted_hosts: Iterable[str] = (),
        verify: str | None = None,
        proxy: str | None = None,
        offline: bool = False,
        pause: float = 1.0,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self._folder = folder
        self.offline = offline
        self.bytes_read = 0
        self._pause = pause
        self._patience = patience
        # Which is in a log otherwise, line by line: what matters is raised as an error.
        logging.getLogger("unearth").setLevel(logging.ERROR)
        self._client = PyPIClient(
            trusted_hosts=trusted_hosts,
            verify=_trusting(verify) if verify else True,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
            proxy=proxy,
        )
        # What unearth would run is in the current folder.
        auth.KEYRING_DISABLED |= shutil.which("keyring") != disk.which("keyring")
        self._client.auth = auth.MultiDomainBasicAuth(prompting=False, index_urls=index_urls)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_secure_origins(self) -> Iterable[tuple[str, str, str]]:
        """The origins that may be asked without TLS, for unearth."""
        return self._client.iter_secure_origins()

    def head(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """The headers of a page, for unearth."""
        with self.get_stream(url, headers=headers) as response:
            return response

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """A whole page, or the server's "not found"; offline, as it was when it was last read.

        :raises UnreachableError: it cannot be had
        """
        kept = self._folder / f"{hashlib.sha256(url.encode('utf-8', 'backslashreplace')).hexdigest()}.page"
        if self.offline:
            return _kept(kept, url)
        with self.get_stream(url, headers=headers) as response:
            parts, size = [], 0
            for part in self.received(response, url):
                parts.append(part)
                size += len(part)
                if size > _LARGEST_PAGE:
                    raise UnreachableError(
                        _shown(url), "is too large for a page of an index", "check the index settings"
                    )
        content = b"".join(parts)
        kind = response.headers.get("Content-Type", "")
        if not url.startswith("file:"):
            head = {"status": response.status_code, "url": str(response.url), "type": kind}
            with contextlib.suppress(OSError), written_whole(kept) as file:
                file.write_bytes(json.dumps(head).encode() + b"\n" + content)
        return _page(response.status_code, str(response.url), kind, content)

    @contextlib.contextmanager
    def get_stream(self, url: str, *, headers: Mapping[str, str] | None = None) -> Iterator[httpx2.Response]:
        """The response to one request, its body unread; a passing failure is tried again.

        :raises UnreachableError: there is no such URL, or the server cannot be reached, or refuses; not for 404 and 416
        """
        if self.offline:
            raise _offline(url)
        with contextlib.ExitStack() as stack:
            for left in reversed(range(_TRIES)):
                try:
                    response = stack.enter_context(self._client.stream("GET", url, headers=headers))
                except httpx2.InvalidURL as error:
                    problem = f"is not a URL: {error}"
                    raise UnreachableError(_shown(url), problem, "check the index settings") from error
                except httpx2.HTTPError as error:
                    if not left:
                        problem = f"cannot be reached: {error or type(error).__name__}"
                        raise UnreachableError(
                            _shown(url), problem, "check the network and the index settings"
                        ) from error
                    time.sleep(self._pause)
                    continue
                if response.status_code not in _PASSING or not left:
                    break
                time.sleep(_asked_to_wait(response, self._pause))
                stack.close()
            status = response.status_code
            if status >= 400 and status not in (404, 416):
                said = _REFUSED.get(status, response.reason_phrase)
                raise UnreachableError(_shown(url), f"the server answers {status}: {said}", "check the index settings")
            yield response

    def received(self, response: httpx2.Response, url: str) -> Iterator[bytes]:
        """The body of a response, counted.

        :raises UnreachableError: the connection breaks, or is too slow to be of use
        """
        began, at_begin, before = time.monotonic(), 0, 0
        try:
            for part in response.iter_bytes():
                here = response.num_bytes_downloaded
                self.bytes_read += here - before
                before = here
                yield part
                if (now := time.monotonic()) - began > self._patience:
                    if here - at_begin < _LEAST:
                        problem = f"the server sent {here - at_begin} bytes in {now - began:.0f} s, and was given up"
                        raise UnreachableError(_shown(url), problem, "run it again: it resumes where it stopped")
                    began, at_begin = now, here
        except httpx2.HTTPError as error:
            problem = f"the transfer broke off: {error or type(error).__name__}"
            raise UnreachableError(_shown(url), problem, "run it again: it resumes where it stopped") from error


def _trusting(certificates: str) -> ssl.SSLContext:
    """What trusts the certificates in a file or a folder."""
    try:
        if Path(certificates).is_dir():
            return ssl.create_default_context(capath=certificates)
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:  # and ssl.SSLError
        raise InputError(certificates, f"cannot be read: {error.strerror or error}", "check pip config list") from error


def _kept(file: Path, url: str) -> httpx2.Response:
    try:
        head, _, content = file.read_bytes().partition(b"\n")
        known = json.loads(head)
        return _page(known["status"], known["url"], known["type"], content)
    except (OSError, ValueError, KeyError, TypeError, httpx2.InvalidURL) as error:
        raise _offline(url) from error


def _page(status: int, url: str, kind: str, content: bytes) -> httpx2.Response:
    request = httpx2.Request("GET", url)
    return httpx2.Response(status, headers={"Content-Type": kind}, content=content, request=request)


def _offline(url: str) -> UnreachableError:
    return UnreachableError(
        _shown(url), "has not been read before, and may not be read now", "run it without --offline"
    )


def _shown(url: str) -> str:
    """A URL without credentials."""
    start, middle, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{start}{middle}{host.rpartition('@')[2]}{slash}{path}"


def _asked_to_wait(response: httpx2.Response, pause: float) -> float:
    """How long a server asks to wait (RFC 9110, ``Retry-After`` in seconds), within reason."""
    asked = response.headers.get("Retry-After", "")
    return min(float(asked), _LONGEST_WAIT_SECONDS) if asked.isdigit() else pause
