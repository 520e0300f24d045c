"""Permits of `berth agent`, for Python 3.8 or later: with berth.hold("api", 5) as lease: ..."""
import contextlib, json, os, socket, threading, time

class Refused(Exception): "No permit. args[0] is the agent's answer, with error (busy, timeout, ...) and message."
class Lost(Exception): "The permit was lost while it was held."

class hold:
    """Waits for a permit. The terms are the agent's fields, such as wait_ms=1000. stop is an
    Event: end the work now. lost is None, or says why the permit is gone."""
    def __init__(self, name, limit=None, **terms):
        terms.update({"name": name}, **({} if limit is None else {"limit": limit}))
        self.stop, self.lost, self._socket = threading.Event(), None, socket.socket(socket.AF_UNIX)
        self._lines = self._socket.makefile("rb")
        try:
            answer = self._ask(json.dumps(terms).encode())
            if answer.get("event") != "granted": raise Refused(answer)
        except BaseException:  # a signal or a time limit of the caller's, too
            with self._socket, self._lines: raise
        self.slot, self.token, self._until = answer["slot"], answer["token"], answer["until_boot_ms"]
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _ask(self, body):
        own = "/run/berth" if os.geteuid() == 0 and os.path.isdir("/run") else "/tmp/berth-%d" % os.geteuid()
        own, path = os.environ.get("BERTH_STORE_DIR", own), os.environ.get("BERTH_AGENT_SOCKET")
        if not path and os.lstat(own).st_uid != os.geteuid(): raise PermissionError("another user made " + own)
        path = path or own + "/agent.sock"
        try: self._socket.connect(path)
        except OSError as e: raise OSError(e.errno, str(e.strerror or e) + " (is berth agent running?)", path) from None
        self._socket.sendall(b"POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        answer = {"event": "queued"}
        while self._lines.readline().strip(): pass  # the status and headers: the lines have it all
        while answer.get("event") == "queued":
            answer = json.loads(self._lines.readline() or '{"error": "gone", "message": "the agent has ended"}')
        return answer

    def _read(self):
        event = {}
        with contextlib.suppress(OSError), self._socket, self._lines:
            for event in map(json.loads, self._lines):
                self._until = event.get("until_boot_ms", self._until)
                if event["event"] == "stop": self.stop.set()
        if event.get("event") != "released":
            self.lost = event.get("message", "the agent has ended")
            self.stop.set()

    def valid(self):  # whether the permit can be relied on now
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return self.lost is None and 1000 * time.clock_gettime(clock) < self._until

    def beat(self): self._socket.sendall(b"\n")  # a sign of life, for beat_ms
    def release(self):  # returns when the permit was given back, or after ten seconds
        self._end(socket.SHUT_WR)
        self._reader.join(10)
        self._end(socket.SHUT_RDWR)

    def _end(self, how):
        with contextlib.suppress(OSError): self._socket.shutdown(how)
    def __enter__(self): return self
    def __exit__(self, kind, *_):
        self.release()
        if self.lost and kind is None: raise Lost(self.lost)
