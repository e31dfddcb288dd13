"""Get pages and parts of files from package indexes, over HTTP: credentials, retries, limits, what was read before.

The client and its credentials (URL, netrc, keyring) are those of unearth. Pages are kept in a folder, so a run can be
repeated offline.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from unearth import auth
from unearth.fetchers import PyPIClient

from abiscan.cache import cache_folder
from abiscan.errors import InputError, UnreachableError
from abiscan.inputs import observed_fs
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.packages import path_of_url

_TRIES: Final = 3
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
_LONGEST_WAIT_SECONDS: Final = 20.0
_TIMEOUT_SECONDS: Final = 15.0  # as pip has it
_PATIENCE_SECONDS: Final = 60.0
_TICK: Final = 0.05
_LEAST: Final = 512 << 10
"""A server that sends less than this in that time, headers included, is given up."""

_COMMAND_SECONDS: Final = 1_800.0
"""How long all servers together may let one command wait."""

LARGEST_PAGE: Final = 32 << 20
"""The largest known page of an index has a third of this."""

_DIGITS: Final = 16
_SCHEMES: Final = ("http", "https")
_ENCODINGS: Final = ("", "identity", "gzip", "deflate")  # those of which a block cannot become gigabytes
_REFUSED: Final = {401: "the index wants credentials", 403: "the index refuses access", 429: "too many requests"}
_SETTINGS: Final = "check the index settings"
_AGAIN: Final = "run it again: it resumes where it stopped"


class Web:
    """Access to package indexes.

    :ivar bytes_read: what was received, as it was sent
    :param folder: where pages are kept
    :param index_urls: whose credentials are used
    :param offline: whether to use only what is kept
    :param patience: after so many seconds without progress, a server is given up
    :param most_seconds: how long all requests may take together
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
        most_seconds: float = _COMMAND_SECONDS,
    ) -> None:
        self._folder = folder
        self.offline = offline
        self.bytes_read = 0
        self._pause = pause
        self._patience = patience
        self._most_seconds, self._waited = most_seconds, 0.0
        self._sockets: set[socket.socket] = set()
        self._watch: _Watch | None = None
        # Which is in a log otherwise, line by line: what matters is raised as an error.
        logging.getLogger("unearth").setLevel(logging.ERROR)
        self._client = PyPIClient(
            trusted_hosts=trusted_hosts,
            verify=_trust_certificates(verify) if verify else True,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
            proxy=proxy,
            event_hooks={"response": [_stay_on_the_web]},
        )
        # What unearth would run is in the current folder.
        auth.KEYRING_DISABLED |= shutil.which("keyring") != observed_fs.find_program("keyring")
        self._client.auth = auth.MultiDomainBasicAuth(prompting=False, index_urls=index_urls)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def iter_secure_origins(self) -> Iterable[tuple[str, str, str]]:
        """Return the origins that may be asked without TLS, for unearth."""
        return self._client.iter_secure_origins()

    def head(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Get the headers of a page, for unearth."""
        with self.get_stream(url, headers=headers) as response:
            return response

    def size(self, url: str, most_seconds: float) -> int | None:
        """Return the size of a file, as the server states it; None if it does not, or not in time."""
        if self.offline or not url.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES)):
            return None
        with self._watch_request(most_seconds):
            try:
                response = self._client.request("HEAD", url, extensions={"trace": self._note_socket})
            except (httpx2.HTTPError, httpx2.InvalidURL, UnreachableError):
                return None
        stated = response.headers.get("Content-Length", "")
        return int(stated) if response.is_success and stated.isdecimal() and len(stated) < _DIGITS else None

    def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, largest: int = LARGEST_PAGE
    ) -> httpx2.Response:
        """Get a whole page, or the server's "not found"; offline, as it was when it was last read.

        :param largest: the size beyond which it is given up
        :raises UnreachableError: it cannot be had
        """
        if url.startswith("file:"):
            return _page_on_disk(url, largest)
        path = self._folder / f"{hashlib.sha256(url.encode('utf-8', 'backslashreplace')).hexdigest()}.page"
        if self.offline:
            return _read_kept_page(path, url)
        with self.get_stream(url, headers={"Accept-Encoding": "gzip", **(headers or {})}) as response:
            encoding = response.headers.get("Content-Encoding", "").lower()
            if encoding not in _ENCODINGS:
                problem = f"the server sent it encoded with {encoding}, which was not asked for"
                raise UnreachableError(without_credentials(url), problem, _SETTINGS)
            parts, size = [], 0
            for part in self.receive_body(response, url):
                parts.append(part)
                size += len(part)
                if size > largest:
                    raise _too_large_error(url, largest)
        content = b"".join(parts)
        kind = response.headers.get("Content-Type", "")
        head = {"status": response.status_code, "url": str(response.url), "type": kind}
        # For --offline; a page that cannot be kept is no reason to fail.
        with contextlib.suppress(OSError):
            cache_folder.write_checked(path, json.dumps(head).encode() + b"\n" + content)
        return page_of(response.status_code, str(response.url), kind, content)

    @contextlib.contextmanager
    def get_stream(self, url: str, *, headers: Mapping[str, str] | None = None) -> Iterator[httpx2.Response]:
        """Yield the response to one request, its body unread; a passing failure is tried again.

        :raises UnreachableError: there is no such URL, or the server cannot be reached, or refuses; not for 404 and 416
        """
        if self.offline:
            raise _offline_error(url)
        if not url.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES)):
            raise UnreachableError(without_credentials(url), "is neither an http nor an https address", _SETTINGS)
        with contextlib.ExitStack() as stack:
            # Each attempt has a watch and a connection of its own, which the stack closes before the next one.
            for left in reversed(range(_TRIES)):
                stack.enter_context(self._watch_request())
                try:
                    response = stack.enter_context(
                        self._client.stream("GET", url, headers=headers, extensions={"trace": self._note_socket})
                    )
                except httpx2.InvalidURL as error:
                    raise UnreachableError(without_credentials(url), f"is not a URL: {error}", _SETTINGS) from error
                except httpx2.HTTPError as error:
                    self._raise_if_given_up(url, error)
                    if not left:
                        problem = f"cannot be reached: {str(error) or type(error).__name__}"
                        raise UnreachableError(
                            without_credentials(url), problem, "check the network and the index settings"
                        ) from error
                    stack.close()
                    time.sleep(self._pause)
                    continue
                if response.status_code not in _PASSING or not left:
                    break
                time.sleep(_asked_to_wait(response, self._pause))
                stack.close()
            status = response.status_code
            if status >= 400 and status not in (404, 416):
                reason = _REFUSED.get(status, response.reason_phrase)
                raise UnreachableError(without_credentials(url), f"the server answers {status}: {reason}", _SETTINGS)
            yield response

    def receive_body(self, response: httpx2.Response, url: str) -> Iterator[bytes]:
        """Yield the body of a response, and count it.

        :raises UnreachableError: the connection breaks, or is too slow to be of use
        """
        before = 0
        try:
            for part in response.iter_bytes():
                # Counted as sent, before it is decompressed: that is what the network costs.
                here = response.num_bytes_downloaded
                self.bytes_read += here - before
                before = here
                if self._watch is not None:
                    self._watch.note_received(here)
                self._raise_if_given_up(url)
                yield part
        except httpx2.HTTPError as error:
            self._raise_if_given_up(url, error)
            problem = f"the transfer broke off: {str(error) or type(error).__name__}"
            raise UnreachableError(without_credentials(url), problem, _AGAIN) from error
        self._raise_if_given_up(url)

    @contextlib.contextmanager
    def _watch_request(self, most_seconds: float | None = None) -> Iterator[None]:
        """Give up the server that is asked in the meantime if it takes too long."""
        began = time.monotonic()
        left = self._most_seconds - self._waited
        left = left if most_seconds is None else min(left, most_seconds)
        self._watch = _Watch(self._sockets, self._patience, left)
        try:
            yield
        finally:
            self._watch.stop()
            self._waited += time.monotonic() - began

    def _raise_if_given_up(self, url: str, error: Exception | None = None) -> None:
        """Raise that the server was given up, if it was: otherwise, the error would be that of a closed connection."""
        if self._watch is not None and (problem := self._watch.given_up):
            raise UnreachableError(without_credentials(url), problem, _AGAIN) from error

    def _note_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the connections, to be able to end them.

        This is an extension of the client, called at each of its steps.
        """
        if event.endswith(".complete") and hasattr(stream := info.get("return_value"), "get_extra_info"):
            self._sockets = {open_socket for open_socket in self._sockets if open_socket.fileno() >= 0}
            if isinstance(connection := stream.get_extra_info("socket"), socket.socket):  # type: ignore[union-attr]
                self._sockets.add(connection)
                if self._watch is not None:
                    self._watch.sockets = self._sockets


class _Watch:
    """Ends the connections if a request does not get on: reading a header takes as long as the server likes.

    :param sockets: of the client, of which one is in use
    :param patience: the seconds in which some progress must be made
    :param most: the seconds that the request may take
    """

    def __init__(self, sockets: set[socket.socket], patience: float, most: float) -> None:
        self.sockets = sockets
        self.given_up = ""
        self._patience = patience
        self._began = self._since = time.monotonic()
        self._end = self._began + most
        self._bytes = self._bytes_before = 0
        self._over = threading.Event()
        threading.Thread(target=self._watch_until_end, daemon=True).start()

    def note_received(self, size: int) -> None:
        """Note how much of the body has come so far."""
        self._bytes = size
        now = time.monotonic()
        if size - self._bytes_before >= _LEAST:
            self._since, self._bytes_before = now, size

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()

    def _watch_until_end(self) -> None:
        """Wait for the end, or until the server is given up."""
        while not self._over.wait(max(_TICK, min(self._since + self._patience, self._end) - time.monotonic())):
            # A thread of its own, since the client waits inside a system call, however little arrives.
            now = time.monotonic()
            if not self.given_up and now >= self._end:
                self.given_up = "the servers took too long altogether, so abiscan stopped waiting"
            elif not self.given_up and now >= self._since + self._patience:
                sent = self._bytes - self._bytes_before
                self.given_up = f"the server sent {sent} bytes in {now - self._since:.0f} s, and was given up"
            for connection in tuple(self.sockets) if self.given_up else ():  # again and again: one may only be made now
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _stay_on_the_web(response: httpx2.Response) -> None:
    """Follow no redirect to a file.

    :raises httpx2.UnsupportedProtocol: it leads to one
    """
    if response.has_redirect_location:
        try:
            scheme = response.url.join(response.headers["Location"]).scheme
        except httpx2.InvalidURL:
            return  # which the client reports
        if scheme not in _SCHEMES:
            raise httpx2.UnsupportedProtocol("the server redirects to an address that is neither http nor https")


def _trust_certificates(certificates: str) -> ssl.SSLContext:
    """Make what trusts the certificates in a file or a folder."""
    try:
        if Path(certificates).is_dir():
            return ssl.create_default_context(capath=certificates)
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:  # and ssl.SSLError
        raise InputError(certificates, f"cannot be read: {error.strerror or error}", "check pip config list") from error


def _page_on_disk(url: str, largest: int) -> httpx2.Response:
    """Read a page in a folder of the user's."""
    try:
        with observed_fs.open_file(path := Path(path_of_url(url))) as stream:
            content = stream.read(largest + 1)
    except FileNotFoundError:
        return page_of(404, url, "text/html", b"")
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UnreachableError(without_credentials(url), problem, _SETTINGS) from error
    if len(content) > largest:
        raise _too_large_error(url, largest)
    return page_of(200, url, "text/html" if path.suffix in (".html", ".htm") else "text/plain", content)


def _too_large_error(url: str, largest: int) -> UnreachableError:
    """Make the error for a page that is too large."""
    problem = f"is larger than {largest >> 20} MiB, which no page of an index needs"
    return UnreachableError(without_credentials(url), problem, _SETTINGS)


def _read_kept_page(file: Path, url: str) -> httpx2.Response:
    """Read a page as it was when it was last read."""
    try:
        head, _, content = cache_folder.read_checked(file).partition(b"\n")
        head_fields = json.loads(head)
        return page_of(head_fields["status"], head_fields["url"], head_fields["type"], content)
    except (OSError, ValueError, KeyError, TypeError, httpx2.InvalidURL) as error:
        raise _offline_error(url) from error


def page_of(status: int, url: str, kind: str, content: bytes) -> httpx2.Response:
    """Make a response with this content."""
    request = httpx2.Request("GET", url)
    return httpx2.Response(status, headers={"Content-Type": kind}, content=content, request=request)


def _offline_error(url: str) -> UnreachableError:
    """Make the error for a page that was never read."""
    return UnreachableError(without_credentials(url), "is not in the cache", "run it without --offline")


def _asked_to_wait(response: httpx2.Response, pause: float) -> float:
    """Return how many seconds a server asks to wait (RFC 9110, ``Retry-After``), within reason."""
    asked = response.headers.get("Retry-After", "")
    # Retry-After may be a date as well, which counts as nothing.
    return min(float(asked), _LONGEST_WAIT_SECONDS) if asked.isdigit() else pause
