# As driver.py, in asyncio.
import asyncio, concurrent.futures, gc, json, os, signal, sys, warnings
import berth


def say(*words):
    print(json.dumps(" ".join(words)), flush=True)


async def told(lease):
    await lease.stop.wait()
    say("stop")


def hold():
    return berth.hold(*asked, **terms)


async def blocking(way):  # a hold of a thread that is given up
    loop, pool = asyncio.get_running_loop(), concurrent.futures.ThreadPoolExecutor()
    if way == "thread":
        await asyncio.to_thread(berth.hold, *asked, **terms)
    elif way == "lambda":
        await loop.run_in_executor(pool, lambda: berth.hold(*asked, **terms))
    elif way == "function":
        await asyncio.to_thread(hold)
    elif way == "future":
        pool.submit(lambda: berth.hold(*asked, **terms))  # whose future nobody has
        await asyncio.Event().wait()


async def main(way=None):
    loop, stdin = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    loop.add_signal_handler(signal.SIGINT, asyncio.current_task().cancel)
    if way == "drop":
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            await berth.ahold(*asked, **terms)
            gc.collect()
        say(*(w.category.__name__ for w in seen))
        await stdin.read()
    try:
        what = asked
        if way == "cool":
            await berth.acooldown(asked[0], 600.0, label="import")
            say("paused")
            return
        elif way == "all":
            what = ([("narrow", 1), {"name": asked[0], "limit": asked[1]}],)
        elif way and way != "settle":
            await blocking(way)
        async with berth.ahold(*what, **terms) as lease:
            say("granted", str(lease.slot), *(one["name"] for one in lease.all))
            watcher = asyncio.ensure_future(told(lease))
            async for word in stdin:
                word = json.loads(word)
                if word == "beat":
                    lease.beat()
                    say("beat")
                elif word == "settle":
                    lease.settle(tokens=0)
                    say("settled")
                elif word == "valid":
                    say("valid", str(lease.valid()).lower())
                elif word == "fork":
                    if os.fork() == 0:
                        sys.exit()
                    os.wait()
                    say("forked")
                else:
                    break
        say("released")
    except berth.Refused as e:
        found = [] if e.in_use is None else [e.name, "%d/%d" % (e.in_use, e.limit), str(e.waiting), str(e.status)]
        say("refused", e.error, *found)
    except OSError as e:  # there is no agent of ours
        say("refused", str(e))
    except berth.Lost:
        say("lost")
    except asyncio.CancelledError as e:  # which refers to all that it has passed
        say("gave up")
        await stdin.read()


asked, terms = (sys.argv[1], int(sys.argv[2])), json.loads(sys.argv[3])
asyncio.run(main(*sys.argv[4:]))
