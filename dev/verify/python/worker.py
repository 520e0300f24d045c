"""A client process of a storm: the seats of dev/verify/worker, with the client of berth.py.

Its network does not fail by itself; it is killed and stopped, and so is its server. It writes the
same history. With the argument "asks" it does what standard input says instead, line by line.
"""

import json
import os
import pathlib
import random
import sys
import threading
import time

import berth
from berth import Busy, Client, Failure, Gone, Refused, Rejected, Taken, now

MS = 1000000
LATE = 250                                  # ms, as in history/history.go


def monotonic(at):
    """An instant of berth's clock, as a history has it."""
    return time.monotonic_ns() + int((at - now()) * MS)


class History:
    def __init__(self, path, proc):
        self.file, self.proc, self.op, self.lock = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), proc, 0, threading.Lock()

    def next(self):
        with self.lock:
            self.op += 1
            return self.op

    def write(self, **event):
        os.write(self.file, json.dumps({'at': time.monotonic_ns(), 'proc': self.proc, **event}).encode() + b'\n')


def watch(out, over):
    """Records when this process stood still because the machine is busy, as worker/trouble.go does."""
    last = time.monotonic_ns()
    while not over.wait(LATE / 5 / 1000):
        at = time.monotonic_ns()
        if at - last > LATE * MS:
            out.write(at=last, until=at, kind='fault', text='client stood still')
        last = at


class User:
    """One user of one semaphore."""

    def __init__(self, spec, seat, n, out, client, ended):
        self.spec, self.mode, self.name, self.limit, self.ttl = spec, seat['Mode'], seat['Name'], seat['Limit'], seat['TTL'] // MS
        self.rates, self.tries, self.lines = seat['Rates'], seat['Tries'], seat['Lines']
        self.n, self.out, self.client, self.ended = n, out, client, ended
        self.rng = random.Random(f'{spec["Seed"]} {spec["Proc"]} {n}')

    def run(self):
        while not self.ended.is_set():
            {'linear': self.linear, 'late': self.late, 'crowd': self.crowd, 'timed': self.timed}.get(self.mode, self.stand)()

    def pause(self, most):
        self.ended.wait(self.rng.uniform(0, most) / 1000)

    def linear(self):
        lease = self.adopt() or self.ask('try', self.rng.randint(1, 2))
        if lease:
            self.hold(lease, self.rng.uniform(0, 20))
            self.part(lease, 4)
        self.pause(30)

    def late(self):
        lease = self.adopt(keep=False) or self.ask('try', 1, keep=False)
        if lease and self.rng.randrange(3):
            self.drop(lease)
        elif lease:
            self.part(lease, 2)
        self.pause(20)

    def crowd(self):
        lease = self.ask('acquire', self.rng.randint(1, 2), most=self.rng.uniform(10, 300))
        if lease:
            self.hold(lease, self.rng.uniform(0, 30))
            self.release(lease)
        self.pause(10)

    def timed(self):
        lease = self.ask('try', 1) if self.tries else self.ask('acquire', 1, most=3000)
        if lease:
            self.hold(lease, self.rng.uniform(0, 30))
            self.release(lease)
        self.pause(150 if self.tries else 30)

    def stand(self):
        weight = self.rng.randint(1, self.limit) if self.mode == 'mix' else 1
        if self.rng.randrange(15) == 0:
            lease = self.ask('acquire', weight, most=20000, keep=False)
            return lease and self.drop(lease)
        lease = self.adopt() or self.ask('acquire', weight, most=20000)
        if lease:
            self.hold(lease, self.rng.uniform(0.5, 1.5) * self.ttl if self.rng.randrange(10) == 0 else self.rng.uniform(0, 50))
            self.part(lease, 6)
        self.pause(20)

    # ---- what is asked, and recorded ----

    def ask(self, verb, weight, most=0, keep=True):
        name, chapter = self.name, {'linear': 1500, 'timed': 2400}.get(self.mode)
        if chapter:
            name += f'.{(time.monotonic_ns() - self.spec["Start"]) // (chapter * MS)}'
        event = {'verb': verb, 'name': name, 'limit': self.limit, 'weight': weight, 'ttl': self.ttl * MS, 'rates': self.rates, 'costs': ''}
        if self.rates and not self.lines and self.rng.randrange(2): # one rate of calls
            event['costs'] = f':{self.rng.randint(1, int(self.rates[1:].split("/")[0]) // 2)}'
        return self.request(event, lambda queued: self.client.acquire(
            name, self.limit, self.ttl, weight, verb == 'acquire', now() + most if most else None, keep=keep, queued=queued, label='python',
            rates=self.rates, costs=event['costs']))

    def adopt(self, keep=True):
        mine = pathlib.Path(self.spec['Handles'])
        for file in (mine / self.name).glob('*'):
            try:
                event = json.loads(file.rename(mine / file.name).read_text())
            except FileNotFoundError:
                continue                    # another process has it
            (mine / file.name).unlink()
            return self.request(event, lambda queued: self.client.adopt(event['handle'], keep))

    def request(self, event, call):
        event = {key: event[key] for key in ('verb', 'name', 'limit', 'weight', 'ttl', 'rates', 'costs', 'handle') if key in event}
        event.update(op=self.out.next(), seat=self.n)
        self.out.write(kind='invoke', **event)
        number = self.client.number
        try:
            lease = call(lambda: self.out.write(kind='queued', **event))
        except Failure as e:
            told = {'outcome': outcome(e), 'text': str(e)}
            if isinstance(e, Busy):
                told.update(used=e.used, again=e.again)
            self.out.write(kind='return', **event, **told)
            if isinstance(e, Refused):
                self.pause(40)
            return None
        # Several users of a client draw ids, so that of a crowd may have drawn a second.
        again = self.client.number > number + 1 or self.mode == 'crowd'
        self.out.write(kind='return', **event, outcome='ok', id=lease.id, token=lease.token, slot=lease.slot, again=again, until=monotonic(lease.until))
        lease.event, lease.seen = event, lease.until
        lease.lost = lambda: self.say(lease, kind='lost', text=str(lease.why))
        if lease.why:
            lease.lost()
        return lease

    def say(self, lease, **event):
        self.out.write(name=lease.event['name'], weight=lease.weight, lease=lease.event['op'], token=lease.token, **event)

    def look(self, lease):
        if lease.until > lease.seen + 1:
            lease.seen = lease.until
            self.say(lease, kind='trust', until=monotonic(lease.until))

    def hold(self, lease, lasts):
        end = now() + lasts
        while lease.valid() and now() < end and not self.ended.is_set():
            self.look(lease)
            lease.over.wait(0.01)

    def drop(self, lease):
        while lease.valid() and not self.ended.is_set():
            self.look(lease)
            lease.over.wait(0.005)
        if lease.valid():
            return self.release(lease)
        lease.end()
        self.say(lease, op=self.out.next(), kind='return', verb='drop', outcome='ok')

    def part(self, lease, n):
        if not lease.valid() or self.rng.randrange(n):
            return self.release(lease)
        handle, kept = self.leave(lease, 'detach', lease.detach)
        if kept:
            return self.release(lease)
        if handle:
            event = {**lease.event, 'verb': 'adopt', 'handle': handle}
            for i in range(self.rng.choice((1, 1, 2))):
                path = pathlib.Path(self.spec['Handles'])
                (path / self.name).mkdir(parents=True, exist_ok=True)
                (path / f'{handle.split("/")[-1]}.{i}').write_text(json.dumps(event))
                (path / f'{handle.split("/")[-1]}.{i}').rename(path / self.name / f'{handle.split("/")[-1]}.{i}')

    def release(self, lease):
        self.leave(lease, 'release', lease.release)

    def leave(self, lease, verb, call):
        """Ends a lease. Returns a handle, and whether the lease is still held."""
        self.look(lease)
        op, handle, kept, told = self.out.next(), None, False, {'outcome': 'ok'}
        self.say(lease, op=op, kind='invoke', verb=verb)
        try:
            handle = call()
        except Failure as e:
            kept = verb == 'detach' and lease.valid()
            told = {'outcome': 'refused' if kept else 'unknown' if verb == 'detach' else outcome(e), 'text': str(e)}
        if handle:
            told['handle'] = handle
        self.say(lease, op=op, kind='return', verb=verb, **told)
        return handle, kept


def outcome(e):
    for kind, word in ((Busy, 'busy'), (Taken, 'taken'), (Gone, 'lost'), (Refused, 'refused'), (Rejected, 'refused')):
        if isinstance(e, kind):
            return word
    return 'unknown'


def storm(spec):
    ended, out, users, clients = threading.Event(), History(spec['History'], spec['Proc']), [], []
    for n, seat in enumerate(spec['Seats'], 1):
        client = Client(spec['Socket'], spec['Prefix'])
        if seat['Deaf']:
            client.drop = lambda line: random.random() < 0.5
        clients.append(client)
        for _ in range(3 if seat['Mode'] == 'crowd' else 1):
            users.append(threading.Thread(target=User(spec, seat, n, out, client, ended).run))
    for user in users:
        user.start()
    over = threading.Event()
    watcher = threading.Thread(target=watch, args=(out, over))
    watcher.start()
    sys.stdin.read()                        # until the storm is over, or dead
    ended.set()
    for user in users:
        user.join()
    over.set()
    watcher.join()
    for client in clients:
        client.close()


def asks(spec):
    """Answers each line of standard input: {"do": ..., arguments} by {"answer": ...} or {"error": ...}."""
    client, leases = Client(spec['Socket'], spec['Prefix']), {}
    for line in sys.stdin:
        ask = json.loads(line)
        verb, name = ask.pop('do'), ask.pop('as', '')
        try:
            if verb in ('acquire', 'adopt'):
                leases[name] = lease = getattr(client, verb)(**ask)
                answer = {'id': lease.id, 'slot': lease.slot, 'token': lease.token}
            elif verb == 'ended':           # waits until the lease is over
                leases[name].over.wait(ask['most'])
                answer = {'why': leases[name].why, 'valid': leases[name].valid()}
            else:
                answer = {'handle': getattr(leases[name], verb)()}
        except Failure as e:
            answer = {'error': f'{type(e).__name__}: {e}'}
        print(json.dumps(answer), flush=True)


spec = json.loads(os.environ['BERTH_VERIFY_WORKER'])
asks(spec) if 'asks' in sys.argv else storm(spec)
