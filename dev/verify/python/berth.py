"""A client of berth's protocol in Python: a proof, and not a product.

It is written from the header of internal/protocol/transition.lua and from doc.go beside it alone,
to show that they are enough. It takes part in the storms, beside clients in Go. It makes one call
for each operation, and knows no Cluster. Times are milliseconds of a monotonic clock.
"""

import hashlib
import os
import pathlib
import random
import secrets
import threading
import time
import urllib.parse

import redis
from redis.connection import UnixDomainSocketConnection

TRANSITION = pathlib.Path(__file__).parents[3] / 'internal/protocol/transition.lua'
LATE, TIMEOUT, TRY = 10000, 5000, 2000
PASSING = ('LOADING', 'READONLY', 'NOREPLICAS', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN', 'BUSY ', 'OOM ',
           'MISCONF', 'max number of clients', 'non local key')
LETTERS = 'abcdefghijklmnopqrstuvwxyz234567'


class Failure(Exception): pass
class Refused(Failure): pass                # it did not happen; asking again may help
class Rejected(Failure): pass               # it did not happen; asking again is useless
class Unknown(Failure): pass                # it may have happened
class Gone(Failure): pass                   # the lease has ended
class Taken(Gone): pass                     # somebody else has adopted it
class Busy(Failure):
    used, again = 0, False                  # permits in use; a copy of the request was under way


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


def draw(n):
    return ''.join(secrets.choice(LETTERS) for _ in range(n))


def trust(sent, lasts):
    return sent + lasts - 1 - lasts / 100


class Reply:
    def __init__(self, text, sent):
        words = text.split(' ', 21)         # behind the numbers of "state" are those of tenants' lines, and the rates
        self.now, self.more, state = int(words[0]) // 1000, words[1] == '1', [int(w) for w in words[5:19]]
        self.late = words[1] == '-1'
        self.limit = state[1] if state[2] < 0 else state[2]
        self.used, self.nearest = state[5], state[11]
        self.sent, self.got, self.answer = sent, now(), words[21] if len(words) > 21 else ''
        if words[20] != '-':                # three numbers of each rate
            numbers = 3 * len(words[20].split(','))
            self.answer = ''.join(self.answer.split(' ', numbers)[numbers:])
        self.code, *self.rest = [int(w) if w.lstrip('-').isdigit() else w for w in self.answer.split(' ')] if self.answer else [0]


class Client:
    def __init__(self, path, prefix='berth'):
        self.path, self.prefix, self.pid = path, prefix, os.getpid()
        self.channel, self.secret, self.number = draw(8), draw(18), 0
        self.owner = f'{self.pid}/python;py0.1;port=proof'
        self.policy('0')
        self.offset = self.seen = None      # of the server's clock
        self.heard = 0                      # the last sign of life
        self.idle, self.named, self.lock = [], {}, threading.Lock()
        self.closed, self.subscribed, self.drop = False, threading.Event(), lambda line: False
        threading.Thread(target=self.listen, daemon=True).start()
        self.subscribed.wait(1)

    def policy(self, keys_may_have_ttl):
        self.script = f"local POLICY = '{keys_may_have_ttl}' " + TRANSITION.read_bytes().decode()
        self.sha = hashlib.sha1(self.script.encode()).hexdigest()

    def new_id(self):
        with self.lock:
            self.number += 1
            return f'{self.channel}.{self.secret}-{self.number}'

    # ---- one call ----

    def connect(self, patience):
        """A connection that waits so long for each answer."""
        conn = UnixDomainSocketConnection(path=self.path, decode_responses=True, encoding_errors='surrogateescape')
        conn.socket_timeout = patience / 1000
        conn.connect()
        return conn

    def send(self, patience, *command):
        try:
            conn = self.idle.pop() if self.idle else self.connect(patience)
        except (redis.RedisError, OSError) as e:
            raise Refused(e)
        try:
            conn._sock.settimeout(patience / 1000)
            conn.send_command(*command)
            answer = conn.read_response()
        except (redis.RedisError, OSError) as e:
            if conn._sock:                  # the server has said it, and goes on
                self.idle.append(conn)
            if isinstance(e, redis.exceptions.NoScriptError):
                raise
            if any(word in str(e) for word in PASSING):
                raise Refused(e)
            raise Rejected(e) if isinstance(e, redis.ResponseError) else Unknown(e)
        self.idle.append(conn)
        return answer

    def call(self, name, *words, bound=0, patience=2000):
        if os.getpid() != self.pid:
            raise Rejected('this process was forked: make a Client of its own')
        key = f'{self.prefix}:{{{name}}}'
        args, sent = (2, key, key + ':order', int(bound), *words), now()
        try:
            text = self.send(patience, 'EVALSHA', self.sha, *args)
        except redis.exceptions.NoScriptError:
            text = self.send(patience, 'EVAL', self.script, *args)
        reply = Reply(text, sent)
        self.heard = reply.got
        if self.offset is None or reply.now > self.latest(reply.got) or reply.now - sent + 1 < self.latest(sent) - sent - 1:
            self.offset, self.seen = reply.now - sent + 1, sent
        if reply.late:
            raise Refused('too late')
        return reply

    def latest(self, at):
        """The latest time that the server's clock can show."""
        return at + self.offset + max(0, at - self.seen) / 100 + 1

    def step(self, name, head, *ids, under_way=None, patience=2000):
        """One operation, and then what is left over; under_way bounds how late it may run."""
        bound = 0
        if under_way:
            if self.offset is None or now() + under_way - self.seen > 100000:
                try:
                    self.call(name, patience=patience)
                except Unknown as e:
                    raise Refused(e)
            bound = self.latest(now() + under_way)
        words = (head, *ids) if len(ids) == 1 else (1, head, len(ids), *ids)
        reply = self.call(name, *words, bound=bound, patience=patience)
        self.rest(name, reply)
        return reply

    def rest(self, name, reply):
        try:
            while reply.more:
                reply = self.call(name)
        except Failure:
            pass                            # whoever comes next does the rest

    def insist(self, name, head, *ids, under_way=None, most=TIMEOUT, end=None):
        """Repeats an operation until it is answered; the second result: a copy may be under way."""
        start, pause, copies = now(), 10, False
        while True:
            try:
                return self.step(name, head, *ids, under_way=under_way), copies
            except Failure as e:
                copies = copies or isinstance(e, Unknown)
                if isinstance(e, Refused) and str(e) == 'too late':
                    under_way = min(2 * under_way, 8000)
                silent = now() - max(start, self.heard if most == TIMEOUT else 0)
                if isinstance(e, Rejected) or silent > most or end and now() > end:
                    raise (Unknown(e) if copies else e)
            time.sleep(pause * random.uniform(0.5, 1.5) / 1000)
            pause = min(2 * pause, 1000)

    # ---- messages ----

    def listen(self):
        while not self.closed:
            try:
                conn = self.connect(5000)
                conn.send_command('SUBSCRIBE', f'{self.prefix}:inbox:{self.channel}')
                pinged = False
                while not self.closed:
                    if not conn.can_read(5):
                        if pinged:
                            raise redis.ConnectionError('silent')
                        conn.send_command('PING')
                        pinged = True
                        continue
                    kind, *message = conn.read_response()
                    pinged, self.heard = False, now()
                    if kind == 'subscribe':
                        self.resumed()
                    elif kind == 'message':
                        self.deliver(message[1].split('\n'))
                conn.disconnect()
            except (redis.RedisError, OSError, AttributeError): # the last: can_read of a unix socket, in redis-py 4.3
                time.sleep(0.05)

    def resumed(self):
        self.subscribed.set()
        try:
            info = self.send(2000, 'INFO', 'memory')
            self.policy('0' if 'maxmemory_policy:volatile-' in info else '1')
        except Failure:
            self.policy('0')
        for each in list(self.named.values()):
            each.hear(['resumed'])

    def deliver(self, lines):
        for line in lines[1:]:
            words = line.split(' ')
            if len(words) > 1 and words[1] in self.named and not self.drop(line):
                self.named[words[1]].hear(words)

    def close(self):
        self.closed = True

    # ---- requests ----

    def acquire(self, name, limit, ttl, weight=1, wait=True, end=None, label='', keep=True, queued=lambda: None, rates='', costs=''):
        """Takes permits. Raises Busy, Gone (evicted), or a Failure; at the time "end" it gives up."""
        request = Request(self, name, limit, ttl, weight, wait, end, label, queued)
        if rates or costs:
            request.head = f'B{rates or "-"} {costs or "-"} {request.head}'
        return request.run(keep)

    def adopt(self, handle, keep=True):
        """Takes over the lease that was given away with a handle."""
        _, _, name, old = handle.split('/')
        name, new = urllib.parse.unquote(name), self.new_id()
        try:
            reply, _ = self.insist(name, 'M0 ' + self.owner, old, new, under_way=2000)
        except Unknown:
            self.give_back(name, new)
            raise
        if reply.code != 11:
            raise Taken(reply.answer) if reply.code == 12 else Gone(reply.answer)
        slot, token, remaining, weight, ttl = reply.rest[:5]
        return Lease(self, name, new, ttl, weight, slot, token, trust(reply.sent, remaining), keep)

    def give_back(self, name, *ids, tomb=1):
        """Releases what these ids have, or may yet get. Raises Unknown if that was not answered."""
        for one in ids:
            reply, copies = self.insist(name, f'L{tomb}', one)
        return reply, copies


class Request:
    def __init__(self, client, name, limit, ttl, weight, wait, end, label, queued):
        self.client, self.name, self.ttl, self.weight, self.wait, self.end = client, name, ttl, weight, wait, end
        self.beat, self.told, self.wake, self.notes = min(ttl, 10000), queued, threading.Event(), []
        self.head = f'A{int(wait)} {weight} 0 {limit} {self.beat} 0 1000000 {ttl} {client.owner} {label}'

    def hear(self, words):
        self.notes.append((words, now()))
        self.wake.set()

    def run(self, keep):
        while True:
            self.id, self.late = self.client.new_id(), 0
            self.client.named[self.id] = self
            try:
                grant = self.ask()
            finally:
                del self.client.named[self.id]
            if grant:
                return Lease(self.client, self.name, self.id, self.ttl, self.weight, *grant, keep)

    def ask(self):
        """Sends the acquire. Returns a grant, or None: ask again with a new id."""
        c = self.client
        try:
            while True:
                reply, copies = c.insist(self.name, self.head, self.id, under_way=2000, most=TIMEOUT if self.wait else TRY, end=self.end)
                self.late = now() + LATE if copies else self.late
                if not reply.more or reply.code not in (3, 4):
                    break
        except Unknown:
            self.cancel(now() + LATE)
            raise
        if reply.code in (3, 4, 5, 13):
            busy = Busy(reply.answer)
            busy.used, busy.again = reply.used, bool(self.late)
            self.cancel(self.late)
            raise busy
        if reply.code == 2:
            self.told()
            return self.stand(reply)
        return self.granted(reply)

    def granted(self, reply):
        if reply.code == 6 and reply.rest[0] in (3, 4) or reply.code == 8:
            raise Gone(reply.answer)
        return reply.code == 1 and (reply.rest[0], reply.rest[1], trust(reply.sent, reply.rest[2])) or None

    def stand(self, reply):
        """Waits in the queue. Returns a grant, or None: the place is lost."""
        c = self.client
        acked, due = reply.sent, self.due(reply)
        while True:
            self.wake.wait(max(0, min(due, self.end or due) - now()) / 1000)
            self.wake.clear()
            while self.notes:               # also what came before the answer: it may be newer
                words, came = self.notes.pop(0)
                if words[0] == 'n' and len(words) == 3 and words[2].isdigit():
                    due = min(due, came + int(words[2]) + 1)
                    continue
                grant = self.believe(words, acked)
                if grant:
                    return grant
                due = 0
            if self.end and now() >= self.end:
                self.cancel(self.late)
                raise Unknown('gave up waiting')
            try:
                if due <= now():
                    reply = c.step(self.name, f'H{self.beat} 1', self.id, patience=self.beat / 3)
                    if reply.code != 2:
                        return self.granted(reply)
                    acked, due = reply.sent, self.due(reply)
            except Rejected:
                self.cancel(self.late)
                raise
            except Failure:
                due = now() + 50

    def due(self, reply):
        """When a heartbeat is to be sent: also when time may let it in, or the one in front is dead."""
        ahead, front = reply.rest[:2]
        look = reply.nearest - reply.now if ahead == 0 and reply.nearest else front or 1e9
        return min(reply.sent + self.beat / 3, reply.got + max(0, look) + 1)

    def believe(self, words, acked):
        """The grant that a message tells of, or None: it is a reason to ask."""
        if words[0] != 'g' or len(words) != 5 or words[1] != self.id or self.late:
            return None                     # another id: that of an earlier place, which was lost
        slot, token, limit = (int(w) if w.isdigit() else -1 for w in words[2:])
        if not 0 <= slot < limit <= 1 << 30 or limit < self.weight or not 0 < token // 1000 <= self.client.latest(now()):
            return None
        return slot, token, trust(acked, self.beat)

    def cancel(self, late):
        self.client.give_back(self.name, self.id, tomb=int(now() < late))


class Lease:
    """A lease that is held until "until", and renewed by a thread if it is to be kept."""

    def __init__(self, client, name, id, ttl, weight, slot, token, until, keep):
        self.client, self.name, self.id, self.ttl, self.weight = client, name, id, ttl, weight
        self.slot, self.token, self.until, self.why, self.moving = slot, token, until, None, False
        self.over, self.wake, self.took, self.failed = threading.Event(), threading.Event(), 0, False
        self.lost = lambda: None
        if until <= now() and not self.renew(500):
            client.give_back(name, id)
            raise Gone('it was over before it could be used')
        client.named[id] = self
        if keep:
            threading.Thread(target=self.keep, daemon=True).start()

    def valid(self):
        return not self.over.is_set() and now() < self.until

    def hear(self, words):
        self.wake.set()

    def keep(self):
        while not self.over.is_set():
            left = self.until - now()
            self.wake.wait(0.01 if self.failed else max(0, (left - self.took) / 3) / 1000)
            self.wake.clear()
            if self.over.is_set():
                return
            if now() >= self.until:
                return self.end('it was not renewed in time')
            self.renew(max(20, (self.until - now()) / 2))

    def renew(self, patience):
        try:
            reply = self.client.step(self.name, f'R{self.ttl}', self.id, patience=patience)
        except Failure:
            self.failed = True
            return False
        if reply.code == 7 and (self.slot, self.token) == tuple(reply.rest[:2]):
            self.until, self.took, self.failed = max(self.until, trust(reply.sent, reply.rest[2])), reply.got - reply.sent, False
            return now() < self.until
        if not self.over.is_set() and not self.moving:  # else it is the move that tells what became of it
            self.end('evicted' if reply.code == 8 else reply.answer)
        return False

    def end(self, why=None):
        self.client.named.pop(self.id, None)
        if not self.over.is_set():
            self.why = why
            self.over.set()
            self.wake.set()
            if why:
                self.lost()

    def release(self):
        """Gives the lease back. Raises Gone if it was lost before."""
        held = self.valid()
        self.end()
        reply, copies = self.client.give_back(self.name, self.id, tomb=0)
        if not held or reply.code != 9 and not copies:
            raise Gone(self.why or reply.answer)

    def detach(self):
        """Gives the lease away, and returns the handle with which it can be adopted."""
        new, self.moving = draw(8) + '.' + draw(18), True
        try:
            reply, _ = self.client.insist(self.name, 'M0 ' + self.client.owner, self.id, new, under_way=2000)
        except Unknown:
            self.end()
            self.client.give_back(self.name, self.id, new)
            raise
        except Failure:
            self.moving = False             # it is held as before
            raise
        self.end()
        if reply.code != 11:
            raise Gone(reply.answer)
        return '/'.join(['berth1', urllib.parse.quote(self.client.prefix, ''), urllib.parse.quote(self.name, ''), new])
