"""Permits of `berth agent`, for Python 3.8 or later: with berth.hold("api", 5) as lease: ...
In asyncio: async with berth.ahold("api", 5) as lease: ..."""
import contextlib, json, os, socket, sys, threading, time, warnings

class Refused(Exception): "No permit. args[0] is the agent's answer, with error (busy, timeout, ...) and message."
class Lost(Exception): "The permit was lost while it was held."

class _Permit:
    """A connection, and what the agent said on it. Its reader refers to this and not to the hold,
    so that a hold which nobody refers to any more can be noticed."""
    def __init__(self, name, limit, terms, stop):
        body = json.dumps({**terms, "name": name, **({} if limit is None else {"limit": limit})}).encode()
        self.request = b"POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        self.name, self.stop, self.lost, self.until, self.pid = name, stop, None, 0, os.getpid()
        self.answer, self.last, self._rest = None, {}, b""
        self.asked = self.taken = False  # its end was asked for here; its caller has used it
        self.result = False  # a thread pool's job is only this hold
        self.path, self.socket = _path(), socket.socket(socket.AF_UNIX)

    @contextlib.contextmanager
    def connecting(self):
        try: yield
        except OSError as e: raise OSError(e.errno, str(e.strerror or e) + " (is berth agent running?)", self.path) from None

    def hear(self, some):  # returns whether there can be more
        *lines, self._rest = (self._rest + some).split(b"\n")
        for event in [json.loads(line) for line in lines if line.startswith(b"{")]:  # the rest is the head
            self.last, self.until = event, event.get("until_boot_ms", self.until)
            if event.get("event") == "stop": self.stop.set()
            if event.get("event") != "queued": self.answer = self.answer or event
        if not some: self.answer = self.answer or {"error": "gone", "message": "the agent has ended"}
        return bool(some)

    def granted(self):
        if self.answer.get("event") != "granted": raise Refused(self.answer)
        self.slot, self.token = self.answer["slot"], self.answer["token"]
        return self

    def ours(self):  # a fork has a copy of the connection, on which it must say nothing
        return os.getpid() == self.pid

    def ask(self):  # returns whether the agent was asked for the end
        if not self.ours(): return self.socket.close()
        self.asked = True
        self.shut(socket.SHUT_WR)
        return True

    def ended(self):
        if self.last.get("event") != "released": self.lost = self.last.get("message", "the agent has ended")
        elif not self.asked: self.lost = "it was given back, but not by this program"
        if self.lost: self.stop.set()
        self.close()

    def close(self):
        self.asked = True
        if self.ours(): self.shut(socket.SHUT_RDWR)  # or a fork's copy would keep the connection
        self.socket.close()

    def shut(self, how):
        with contextlib.suppress(OSError): self.socket.shutdown(how)

    def spare(self):  # a wait, or a result that nobody has used: no work can have begun
        return not self.taken and (self.result or not self.answer)

    def give_up(self):
        if self.spare():
            self.answer, self.asked = self.answer or {"error": "cancelled", "message": "the caller waits no more"}, True
            self.shut(socket.SHUT_RDWR)
        return False  # for Future.cancel: the job runs on

def _path():
    own = "/run/berth" if os.geteuid() == 0 and os.path.isdir("/run") else "/tmp/berth-%d" % os.geteuid()
    own, path = os.environ.get("BERTH_STORE_DIR") or own, os.environ.get("BERTH_AGENT_SOCKET")
    if not path and os.lstat(own).st_uid != os.geteuid(): raise PermissionError("another user made " + own)
    return path or own + "/agent.sock"

class _Hold:
    """What hold and ahold have in common."""
    _permit = None  # until it is granted
    stop, lost = property(lambda self: self._take().stop), property(lambda self: self._take().lost)
    slot, token = property(lambda self: self._take().slot), property(lambda self: self._take().token)

    def _take(self):
        self._permit.taken = True
        return self._permit

    def valid(self):  # whether the permit can be relied on now
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return self.lost is None and 1000 * time.clock_gettime(clock) < self._permit.until

    def beat(self):  # a sign of life, for beat_ms
        if self._take().ours(): self._permit.socket.sendall(b"\n")

    def _left(self, kind):
        if self.lost and kind is None: raise Lost(self.lost)

    def __del__(self):
        permit = self._permit
        if not permit or permit.asked or permit.lost or not permit.ours() or sys.is_finalizing(): return
        what = "stays taken while this process lives, as its work may go on"
        if permit.spare():
            permit.give_up()
            what = "is given back, as nobody has used what the thread pool's job returned"
        warnings.warn("a hold of %r was dropped and not released: its permit %s" % (permit.name, what), ResourceWarning, source=self)

class hold(_Hold):
    """Waits for a permit. The terms are the agent's fields, such as wait_ms=1000. stop is an
    Event: end the work now. lost is None, or says why the permit is gone."""
    def __init__(self, name, limit=None, **terms):
        permit = _Permit(name, limit, terms, threading.Event())
        try:
            _in_pool(permit, sys._getframe(1))
            with permit.connecting(): permit.socket.connect(permit.path)
            permit.socket.sendall(permit.request)
            while not permit.answer: permit.hear(permit.socket.recv(4096))
            self._permit, self._reader = permit.granted(), threading.Thread(target=_read, args=(permit,), daemon=True)
            self._reader.start()
        except BaseException:  # a signal or a time limit of the caller's, too
            permit.close()
            raise

    def release(self):  # returns when the permit was given back, or after ten seconds
        if self._take().ask():
            self._reader.join(10)
            self._permit.shut(socket.SHUT_RDWR)

    def __enter__(self):
        self._take()
        return self
    def __exit__(self, kind, *_):
        self.release()
        self._left(kind)

def _read(permit):
    with contextlib.suppress(OSError):
        while permit.hear(permit.socket.recv(4096)): pass
    permit.ended()

def _in_pool(permit, frame):
    """Lets the cancellation of a thread pool's job, as that of asyncio.to_thread(hold, "api", 5), end
    the wait. Python cancels the job's future then, which does nothing more to a job that runs."""
    permit.result = True
    while frame:
        pool = frame.f_globals.get("__name__") == "concurrent.futures.thread"
        future = pool and getattr(frame.f_locals.get("self"), "future", None)
        if future:
            future.cancel = permit.give_up
            return
        permit.result, frame = permit.result and (pool or frame.f_code.co_name == "<lambda>"), frame.f_back
    permit.result = False

class ahold(_Hold):
    """The same for asyncio, where stop is an asyncio.Event. A wait that is cancelled leaves the
    queue at once. `lease = await ahold("api", 5)` needs `await lease.release()`."""
    def __init__(self, name, limit=None, **terms):
        global asyncio
        import asyncio  # which costs other programs more than all the rest
        self._terms = name, limit, terms

    def __await__(self): return self._acquire().__await__()
    async def _acquire(self):
        if self._permit: return self
        loop, permit = asyncio.get_running_loop(), _Permit(*self._terms, asyncio.Event())
        try:
            permit.socket.setblocking(False)
            with permit.connecting(): await loop.sock_connect(permit.socket, permit.path)
            await loop.sock_sendall(permit.socket, permit.request)
            while not permit.answer: permit.hear(await loop.sock_recv(permit.socket, 4096))
            self._permit, self._reader = permit.granted(), loop.create_task(_watch(permit))
        except BaseException:  # such as CancelledError
            permit.close()
            raise
        return self

    async def release(self):  # as in hold
        if self._take().ask():
            try: await asyncio.wait({self._reader}, timeout=10)
            finally: self._permit.shut(socket.SHUT_RDWR)

    async def __aenter__(self):
        (await self)._take()
        return self
    async def __aexit__(self, kind, *_):
        await self.release()
        self._left(kind)

async def _watch(permit):
    loop = asyncio.get_running_loop()
    try:
        while permit.hear(await loop.sock_recv(permit.socket, 4096)): pass
    except OSError: pass
    finally: permit.ended()  # also where the loop ends, and nobody would read on
