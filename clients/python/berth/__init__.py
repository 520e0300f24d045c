"""Permits of `berth agent`, for Python 3.8 or later.

    with berth.hold("api", 5) as lease:
        ...
    with berth.hold([("customer/7", 2), ("api", 20)]):  # narrow limits first
        ...
    async with berth.ahold("api", 5) as lease:  # in asyncio
        ...
    berth.cooldown("api", 30)  # the API wants a pause
    with berth.hold("llm", 20, rates=[{"unit": "tokens", "n": 90_000, "per_ms": 60_000}], costs={"tokens": 1200}) as lease:
        lease.settle(tokens=917)  # what it really was

The agent is at $BERTH_AGENT_SOCKET, a path or ADDRESS:PORT, where it needs $BERTH_AGENT_TOKEN, or
beside this user's local store.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

__all__ = ["Lost", "Refused", "acooldown", "ahold", "cooldown", "hold"]

_LONGEST = 1 << 20  # more than a line has
_MARGIN = 10.0  # seconds in which an agent that works has answered


class Refused(Exception):
    """There is no permit.

    error is a word: busy, queue_full, timeout, redis, gone, ... fields says what is wrong with each
    term. retry_after is in how many seconds there can be room, or None if that is not known. name,
    in_use, limit, waiting and paused are what was found, or None. answer is all that the agent said.
    """

    def __init__(self, answer: Dict[str, Any]) -> None:
        super().__init__(answer)
        self.answer = answer
        self.status: Optional[int] = answer.get("status")
        self.error: str = answer.get("error", "")
        self.message: str = answer.get("message", "")
        self.fields: Dict[str, str] = answer.get("fields", {})
        after = answer.get("retry_after_ms")
        self.retry_after: Optional[float] = None if after is None else after / 1000
        self.name: Optional[str] = answer.get("name")
        self.in_use: Optional[int] = answer.get("in_use")
        self.limit: Optional[int] = answer.get("limit")
        self.waiting: Optional[int] = answer.get("waiting")
        self.paused: Optional[bool] = answer.get("paused")

    def __str__(self) -> str:
        return "%s: %s" % (self.error, self.message)


class Lost(Exception):
    """The permit was lost while it was held. reason is why: evicted, silent, untrusted, gone, ..."""

    def __init__(self, message: str, reason: str = "gone") -> None:
        super().__init__(message)
        self.reason = reason


_Limit = Union[Tuple[str, int], Dict[str, Any]]
_Limits = Union[str, Sequence[_Limit]]


def _limits(name: _Limits, limit: Optional[int]) -> Dict[str, Any]:
    """Returns the terms for one name, or for several limits: each is its name and number, or a dict
    with more fields."""
    if isinstance(name, str):
        return {"name": name} if limit is None else {"name": name, "limit": limit}
    return {"all": [one if isinstance(one, dict) else {"name": one[0], "limit": one[1]} for one in name]}


class _Permit:
    """A connection, and what the agent said on it.

    Its reader refers to this and not to the hold, so that a hold which nobody refers to any more can
    be noticed.
    """

    def __init__(self, name: _Limits, limit: Optional[int], terms: Dict[str, Any], stop: Any) -> None:
        self.request = _request("hold", {**terms, **_limits(name, limit)})
        wait = terms.get("wait_ms")
        self.most = None if wait is None else time.monotonic() + wait / 1000 + _MARGIN
        self.name, self.stop, self.pid = name, stop, os.getpid()
        self.lost: Optional[str] = None
        self.reason = "gone"
        self.until, self.slot, self.token = 0, 0, 0
        self.all: List[Dict[str, Any]] = []
        self.answer: Optional[Dict[str, Any]] = None  # to the request
        self.last: Dict[str, Any] = {}
        self.head, self.rest = True, b""  # the head of the answer; what is not yet a line
        self.asked = False  # its end was asked for here
        self.taken = False  # its caller has used it
        self.result = False  # a thread pool's job is only this hold
        self.address = _address()
        self.socket = socket.socket(_family(self.address))

    def left(self) -> Optional[float]:
        """Returns how long the answer to the request can take, for ever if that is None."""
        return None if self.most is None else max(self.most - time.monotonic(), 0.001)

    def hear(self, some: bytes) -> bool:
        """Reads what has come, and returns whether there can be more."""
        *lines, self.rest = (self.rest + some).split(b"\n")
        try:
            for line in lines:
                if self.head:
                    self.head = line.strip() != b""
                else:
                    self.note(json.loads(line))
            if len(self.rest) > _LONGEST:
                raise ValueError(self.rest)
        except (AttributeError, KeyError, ValueError):
            self.note({"error": "gone", "message": "what answers there is not berth agent"})
            return False
        if not some:
            self.answer = self.answer or {"error": "gone", "message": "the agent has ended"}
        return bool(some)

    def note(self, event: Dict[str, Any]) -> None:
        kind = event.get("event")
        if kind is None and "error" not in event:
            raise ValueError(event)
        if kind == "granted":
            self.slot, self.token, self.all = event["slot"], event["token"], event.get("all", [])
        if kind == "stop":
            self.stop.set()
        if kind == "unsettled":
            warnings.warn("what a hold of %r has cost was not settled: %s" % (self.name, event.get("message")))
        if kind != "queued":
            self.answer = self.answer or event
        self.last, self.until = event, event.get("until_boot_ms", self.until)

    def late(self) -> None:
        self.answer = self.answer or {"error": "gone", "message": "the agent does not answer"}

    def granted(self) -> "_Permit":
        if not self.answer or self.answer.get("event") != "granted":
            raise Refused(self.answer or {})
        return self

    def ours(self) -> bool:
        """Reports whether this process made it. A fork has a copy of the connection, on which it
        must say nothing."""
        return os.getpid() == self.pid

    def ask(self) -> bool:
        """Asks the agent for the end, and returns whether it did."""
        if not self.ours():
            self.socket.close()
            return False
        self.asked = True
        self.shut(socket.SHUT_WR)
        return True

    def ended(self) -> None:
        if self.last.get("event") != "released":
            self.lost = self.last.get("message", "the agent has ended")
            self.reason = self.last.get("reason", "gone")
        elif not self.asked:
            self.lost, self.reason = "it was given back, but not by this program", "released"
        if self.lost:
            self.stop.set()
        self.close()

    def close(self) -> None:
        self.asked = True
        if self.ours():
            self.shut(socket.SHUT_RDWR)  # or a fork's copy would keep the connection
        self.socket.close()

    def shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(how)

    def spare(self) -> bool:
        """Reports whether it is a wait, or a result that nobody has used: no work can have begun."""
        return not self.taken and (self.result or not self.answer)

    def give_up(self) -> bool:
        """Takes the place of Future.cancel, which returns False where the job runs on."""
        if self.spare():
            self.answer = self.answer or {"error": "cancelled", "message": "the caller waits no more"}
            self.asked = True
            self.shut(socket.SHUT_RDWR)
        return False


def _request(path: str, terms: Dict[str, Any]) -> bytes:
    body = json.dumps({"pid": os.getpid(), **terms}).encode()
    token = os.environ.get("BERTH_AGENT_TOKEN")
    head = "POST /v1/%s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Length: %d\r\n" % (path, len(body))
    if token:
        head += "Authorization: Bearer %s\r\n" % token
    return head.encode() + b"\r\n" + body


_Address = Union[str, Tuple[str, int]]


def _address() -> _Address:
    where = os.environ.get("BERTH_AGENT_SOCKET")
    if where:
        host, colon, port = where.rpartition(":")
        return where if "/" in where or not colon else (host.strip("[]"), int(port))
    own = "/run/berth" if os.geteuid() == 0 and os.path.isdir("/run") else "/tmp/berth-%d" % os.geteuid()
    own = os.environ.get("BERTH_STORE_DIR") or own
    if os.lstat(own).st_uid != os.geteuid():
        raise PermissionError("another user made " + own)
    return own + "/agent.sock"


def _family(address: _Address) -> int:
    if isinstance(address, str):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


@contextlib.contextmanager
def _connecting(address: _Address) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        why = str(e.strerror or e) + " (is berth agent running?)"
        raise OSError(e.errno, why, str(address)) from None


def cooldown(name: str, seconds: float, **terms: Any) -> None:
    """Pauses a semaphore for all programs, as when an API answers 429: nobody is granted before then.

    A longer pause is not shortened. Raises Refused if that failed, and OSError if there is no agent.
    """
    address, text = _address(), b""
    with socket.socket(_family(address)) as sock:
        sock.settimeout(_MARGIN)
        with _connecting(address):
            sock.connect(address)
        sock.sendall(_request("cooldown", {**terms, "name": name, "for_ms": round(seconds * 1000)}))
        try:
            some = sock.recv(4096)
            while some:
                text, some = text + some, sock.recv(4096)
        except socket.timeout:
            raise Refused({"error": "gone", "message": "the agent does not answer"}) from None
    try:
        answer = json.loads(text.partition(b"\r\n\r\n")[2])
        if answer.get("event") == "paused":
            return
        answer["error"]
    except (AttributeError, KeyError, ValueError):
        answer = {"error": "gone", "message": "what answers there is not berth agent"}
    raise Refused(answer)


async def acooldown(name: str, seconds: float, **terms: Any) -> None:
    """The same for asyncio."""
    import asyncio

    await asyncio.get_running_loop().run_in_executor(None, lambda: cooldown(name, seconds, **terms))


class _Hold:
    """What hold and ahold have in common."""

    _permit: Any = None  # until it is granted

    def _take(self) -> _Permit:
        self._permit.taken = True
        return self._permit

    @property
    def slot(self) -> int:
        """A number below the limit that no other holder has."""
        return self._take().slot

    @property
    def token(self) -> int:
        """A number for fencing: a later grant has a larger one."""
        return self._take().token

    @property
    def all(self) -> List[Dict[str, Any]]:
        """Where there are several limits: name, slot, token and limit of each."""
        return self._take().all

    @property
    def lost(self) -> Optional[str]:
        """None, or why the permit is gone."""
        return self._take().lost

    def valid(self) -> bool:
        """Reports whether the permit can be relied on now."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return self.lost is None and 1000 * time.clock_gettime(clock) < self._permit.until

    def beat(self) -> None:
        """Gives a sign of life, for beat_ms."""
        if self._take().ours():
            self._permit.socket.sendall(b"\n")

    def settle(self, calls: Optional[int] = None, **costs: int) -> None:
        """Says what the permit has really cost, by unit: settle(tokens=917).

        Less than was asked for is free at once. The last word counts. What is not possible is told by a
        warning, as for a unit that has no rate.
        """
        said = {**costs, **({} if calls is None else {"": calls})}
        if self._take().ours():
            self._permit.socket.sendall(json.dumps({"settle": said}).encode() + b"\n")

    def _leave(self, kind: Any) -> None:
        if self.lost and kind is None:
            raise Lost(self.lost, self._permit.reason)

    def __del__(self) -> None:
        permit = self._permit
        if not permit or permit.asked or permit.lost or not permit.ours() or sys.is_finalizing():
            return
        what = "stays taken while this process lives, as its work may go on"
        if permit.spare():
            permit.give_up()
            what = "is given back, as nobody has used what the thread pool's job returned"
        text = "a hold of %r was dropped and not released: its permit %s" % (permit.name, what)
        warnings.warn(text, ResourceWarning, source=self)


class hold(_Hold):
    """Waits for a permit, or for one of each of several limits, narrow ones first.

    The terms are the agent's fields, such as wait_ms=1000. Raises Refused if there is no permit, and
    OSError if there is no agent.
    """

    def __init__(self, name: _Limits, limit: Optional[int] = None, **terms: Any) -> None:
        permit = _Permit(name, limit, terms, threading.Event())
        try:
            _in_pool(permit, sys._getframe(1))
            permit.socket.settimeout(permit.left())
            with _connecting(permit.address):
                permit.socket.connect(permit.address)
            _converse(permit)
            permit.socket.settimeout(None)
            self._permit = permit.granted()
            self._reader = threading.Thread(target=_read, args=(permit,), daemon=True)
            self._reader.start()
        except BaseException:  # a signal or a time limit of the caller's, too
            permit.close()
            raise

    @property
    def stop(self) -> threading.Event:
        """Is set when the work has to end."""
        return self._take().stop

    def release(self) -> None:
        """Returns when the permit was given back, or after ten seconds."""
        if self._take().ask():
            self._reader.join(_MARGIN)
            self._permit.shut(socket.SHUT_RDWR)

    def __enter__(self) -> "hold":
        self._take()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.release()
        self._leave(kind)


def _converse(permit: _Permit) -> None:
    """Sends the request, and reads the answer."""
    try:
        permit.socket.sendall(permit.request)
        while not permit.answer:
            permit.socket.settimeout(permit.left())
            permit.hear(permit.socket.recv(4096))
    except socket.timeout:
        permit.late()


def _read(permit: _Permit) -> None:
    with contextlib.suppress(OSError):
        while permit.hear(permit.socket.recv(4096)):
            pass
    permit.ended()


def _in_pool(permit: _Permit, frame: Any) -> None:
    """Lets the cancellation of a thread pool's job, as that of asyncio.to_thread(hold, "api", 5), end
    the wait. Python cancels the job's future then, which does nothing more to a job that runs."""
    permit.result = True
    while frame:
        pool = frame.f_globals.get("__name__") == "concurrent.futures.thread"
        future = pool and getattr(frame.f_locals.get("self"), "future", None)
        if future:
            future.cancel = permit.give_up
            return
        permit.result = permit.result and (pool or frame.f_code.co_name == "<lambda>")
        frame = frame.f_back
    permit.result = False


class ahold(_Hold):
    """The same for asyncio. A wait that is cancelled leaves the queue at once.

    `lease = await ahold("api", 5)` needs `await lease.release()`.
    """

    def __init__(self, name: _Limits, limit: Optional[int] = None, **terms: Any) -> None:
        self._terms = name, limit, terms

    def __await__(self) -> Any:
        return self._acquire().__await__()

    async def _acquire(self) -> "ahold":
        import asyncio  # which costs other programs more than all the rest

        if self._permit:
            return self
        permit = _Permit(*self._terms, asyncio.Event())
        try:
            permit.socket.setblocking(False)
            try:
                await asyncio.wait_for(_aconverse(permit), permit.left())
            except asyncio.TimeoutError:
                permit.late()
            self._permit = permit.granted()
            self._reader = asyncio.get_running_loop().create_task(_watch(permit))
        except BaseException:  # such as CancelledError
            permit.close()
            raise
        return self

    @property
    def stop(self) -> Any:
        """The asyncio.Event that is set when the work has to end."""
        return self._take().stop

    async def release(self) -> None:
        """Returns when the permit was given back, or after ten seconds."""
        import asyncio

        if self._take().ask():
            try:
                await asyncio.wait({self._reader}, timeout=_MARGIN)
            finally:
                self._permit.shut(socket.SHUT_RDWR)

    async def __aenter__(self) -> "ahold":
        (await self)._take()
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        await self.release()
        self._leave(kind)


async def _aconverse(permit: _Permit) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    with _connecting(permit.address):
        await loop.sock_connect(permit.socket, permit.address)
    await loop.sock_sendall(permit.socket, permit.request)
    while not permit.answer:
        permit.hear(await loop.sock_recv(permit.socket, 4096))


async def _watch(permit: _Permit) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        while permit.hear(await loop.sock_recv(permit.socket, 4096)):
            pass
    except OSError:
        pass
    finally:
        permit.ended()  # also where the loop ends, and nobody would read on
