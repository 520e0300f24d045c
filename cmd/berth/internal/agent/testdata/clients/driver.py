# Holds a permit and does what standard input says. Both sides speak JSON.
import json, sys, threading
import berth


def say(*words):
    print(json.dumps(" ".join(words)), flush=True)


def told(lease):
    lease.stop.wait()
    say("stop")


try:
    with berth.hold(sys.argv[1], int(sys.argv[2]), **json.loads(sys.argv[3])) as lease:
        say("granted", str(lease.slot))
        threading.Thread(target=told, args=(lease,), daemon=True).start()
        for word in map(json.loads, sys.stdin):
            if word == "beat":
                lease.beat()
                say("beat")
            elif word == "valid":
                say("valid", str(lease.valid()).lower())
            else:
                break
    say("released")
except berth.Refused as e:
    say("refused", e.args[0]["error"])
except OSError as e:  # there is no agent of ours
    say("refused", str(e))
except berth.Lost:
    say("lost")
except KeyboardInterrupt as e:  # which refers to all that it has passed
    say("gave up")
    sys.stdin.read()
