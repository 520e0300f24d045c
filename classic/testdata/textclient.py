#!/usr/bin/env python3
"""A client program as a reader of Redis in Action, section 6.3, would write it.

The interoperability test runs it beside the Go package:

    textclient.py SOCKET

It reads one request per line from standard input, a JSON object such as
{"call": "fair_acquire", "name": "sem", "limit": 5, "timeout": 10}, and answers
each with one line, {"result": ...} or {"error": "..."}. A request may carry
"now" (seconds since 1970) and "ids" (a list), which then stand for the clock
and the random identifiers.
"""
import json
import math
import sys
import threading
import time
import uuid

import redis


class World:
    """What a program takes from its machine: the time and random identifiers."""

    def __init__(self, now=None, ids=None):
        self._now = now
        self._ids = list(ids or [])

    def now(self):
        return time.time() if self._now is None else self._now

    def identifier(self):
        return self._ids.pop(0) if self._ids else str(uuid.uuid4())


# The basic semaphore.

def basic_acquire(conn, world, name, limit, timeout=10):
    me, now = world.identifier(), world.now()
    with conn.pipeline(transaction=True) as tx:
        tx.zremrangebyscore(name, "-inf", now - timeout)
        tx.zadd(name, {me: now})
        tx.zrank(name, me)
        place = tx.execute()[-1]
    if place < limit:
        return me
    conn.zrem(name, me)
    return None


def basic_release(conn, world, name, id):
    return bool(conn.zrem(name, id))


# The fair semaphore.

def fair_acquire(conn, world, name, limit, timeout=10):
    owners, counter = name + ":owner", name + ":counter"
    me, now = world.identifier(), world.now()
    with conn.pipeline(transaction=True) as tx:
        tx.zremrangebyscore(name, "-inf", now - timeout)
        tx.zinterstore(owners, {owners: 1, name: 0})
        tx.incr(counter)
        number = tx.execute()[-1]
        tx.zadd(name, {me: now})
        tx.zadd(owners, {me: number})
        tx.zrank(owners, me)
        place = tx.execute()[-1]
    if place < limit:
        return me
    fair_release(conn, world, name, me)
    return None


def fair_release(conn, world, name, id):
    with conn.pipeline(transaction=True) as tx:
        tx.zrem(name, id)
        tx.zrem(name + ":owner", id)
        return bool(tx.execute()[0])


def fair_refresh(conn, world, name, id):
    was_gone = conn.zadd(name, {id: world.now()})
    if was_gone:
        fair_release(conn, world, name, id)
    return not was_gone


# The lock with a time-out, in two steps as before Redis 2.6.12.

def lock_acquire(conn, world, name, wait=10, lock_timeout=10):
    key, me = "lock:" + name, world.identifier()
    seconds = int(math.ceil(lock_timeout))
    end = time.monotonic() + wait
    while True:
        if conn.setnx(key, me):
            conn.expire(key, seconds)
            return me
        if conn.ttl(key) == -1:
            conn.expire(key, seconds)
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def lock_release(conn, world, name, id):
    key = "lock:" + name
    with conn.pipeline(transaction=True) as tx:
        while True:
            try:
                tx.watch(key)
                holder = tx.get(key)
                if holder is None or holder.decode() != id:
                    return False
                tx.multi()
                tx.delete(key)
                tx.execute()
                return True
            except redis.WatchError:
                continue


# The fair semaphore under the lock.

def locked_acquire(conn, world, name, limit, timeout=10, wait=0.01, lock_timeout=10):
    key = lock_acquire(conn, world, name, wait=wait, lock_timeout=lock_timeout)
    if key is None:
        return None
    try:
        return fair_acquire(conn, world, name, limit, timeout)
    finally:
        lock_release(conn, world, name, key)


locked_release = fair_release
locked_refresh = fair_refresh


def crowd(conn, world, name, limit, threads, rounds):
    """Many clients at once: returns the most that were inside together."""
    most, guard, errors = [0], threading.Lock(), []

    def client():
        for _ in range(rounds):
            me = None
            while me is None:
                me = locked_acquire(conn, world, name, limit, timeout=60, wait=60, lock_timeout=60)
            inside = conn.incr(name + ":inside")
            with guard:
                most[0] = max(most[0], inside)
            conn.decr(name + ":inside")
            if not locked_release(conn, world, name, me):
                raise RuntimeError("a permit had timed out")

    def run():
        try:
            client()
        except Exception as e:  # a thread's exception would go unheard
            errors.append(e)

    crowd_threads = [threading.Thread(target=run) for _ in range(threads)]
    for t in crowd_threads:
        t.start()
    for t in crowd_threads:
        t.join()
    if errors:
        raise errors[0]
    return most[0]


CALLS = {f.__name__: f for f in (
    basic_acquire, basic_release, fair_acquire, fair_release, fair_refresh,
    lock_acquire, lock_release, locked_acquire, crowd)}
CALLS.update(locked_release=locked_release, locked_refresh=locked_refresh)


def main():
    conn = redis.Redis(unix_socket_path=sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        world = World(request.pop("now", None), request.pop("ids", None))
        try:
            answer = {"result": CALLS[request.pop("call")](conn, world, **request)}
        except Exception as e:
            answer = {"error": "%s: %s" % (type(e).__name__, e)}
        print(json.dumps(answer), flush=True)


main()
