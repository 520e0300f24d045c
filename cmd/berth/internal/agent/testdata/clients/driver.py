# Holds a permit and does what standard input says. Both sides speak JSON.
import gc, json, os, signal, sys, threading, warnings
import berth


def say(*words):
    print(json.dumps(" ".join(words)), flush=True)


def told(lease):
    lease.stop.wait()
    say("stop")


def copied(*_):  # a fork has a copy of the connection for as long as this process lives
    end, mine = os.pipe()
    if os.fork() == 0:
        os.close(mine)
        os.read(end, 1)
        os._exit(0)
    raise KeyboardInterrupt


signal.signal(signal.SIGINT, copied)
asked, mode = (sys.argv[1], int(sys.argv[2])), sys.argv[4:]
terms = json.loads(sys.argv[3])
try:
    if mode == ["cool"]:
        berth.cooldown(asked[0], 600.0, label="import")
        say("paused")
        sys.exit()
    if mode == ["all"]:
        asked = ([("narrow", 1), {"name": asked[0], "limit": asked[1]}],)
    if mode == ["drop"]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            berth.hold(*asked, **terms)
            gc.collect()
        say(*(w.category.__name__ for w in seen))
        sys.stdin.read()
    with berth.hold(*asked, **terms) as lease:
        say("granted", str(lease.slot), *(one["name"] for one in lease.all))
        threading.Thread(target=told, args=(lease,), daemon=True).start()
        for word in map(json.loads, sys.stdin):
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
except KeyboardInterrupt as e:  # which refers to all that it has passed
    say("gave up")
    sys.stdin.read()
