package promise_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The tests of this file are about a Redis that does not do what it is asked:
// each refusal has its kind and its reason, and nothing changes.

// answering is the client of a server that answers every command with the same line.
func answering(e *testenv.Env, line string) *testenv.Peer {
	o := e.Options
	e.Options.Dialer = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for r := bufio.NewReader(theirs); ; {
				first, err := r.ReadString('\n') // *<number of arguments>
				if err != nil {
					return
				}
				for range 2 * int(first[1]-'0') {
					if _, err := r.ReadString('\n'); err != nil {
						return
					}
					if len(first) > 4 { // ten arguments or more: a script
						break
					}
				}
				if len(first) > 4 {
					drain(r)
				}
				if _, err := theirs.Write([]byte(line + "\r\n")); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
	defer func() { e.Options = o }()
	return e.Peer()
}

// drain takes what is left of a request that came in one write.
func drain(r *bufio.Reader) { _, _ = r.Discard(r.Buffered()) }

func TestRefusalsOfRedis(t *testing.T) {
	for line, patient := range map[string]bool{
		"-LOADING Redis is loading the dataset in memory":                                         true,
		"-READONLY You can't write against a read only replica.":                                  true,
		"-MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.": true,
		"-CLUSTERDOWN The cluster is down":                                                        true,
		"-ERR unknown command 'EVALSHA'":                                                          false,
		"-NOPERM this user has no permissions to run the 'evalsha' command":                       false,
		"-NOAUTH Authentication required.":                                                        false,
	} {
		t.Run(line, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				s := answering(e, line).Sem(1)
				start := time.Now()
				_, err := s.TryAcquire(e.Ctx)
				refusedFor(e, err, line[1:])
				e.Within(start, 0, 3500*time.Millisecond, "TryAcquire gave up") // 2 s, the last call, and what comes before the first
				if took := time.Since(start); took > 0 && !patient {
					e.Errorf("insisted for %v", took)
				} else if took < time.Second && patient {
					e.Errorf("did not insist: %v", took)
				}
				start = time.Now()
				_, err = s.Acquire(e.Ctx)
				refusedFor(e, err, line[1:])
				e.Within(start, 0, 7*time.Second, "Acquire gave up")
			})
		})
	}
}

// refusedFor checks for ErrRefused with Redis' own words, and for nothing else.
func refusedFor(e *testenv.Env, err error, reason string) {
	e.Helper()
	e.WantErr(err, berth.ErrRefused)
	if errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrCorrupt) || !strings.Contains(err.Error(), reason) {
		e.Errorf("told %v, want %s", err, reason)
	}
}

// An address at which nothing ever answered is told without much ado.
func TestRedisThatCannotBeReached(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		p.Net.Down()
		start := time.Now()
		_, err := p.Sem(1).TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrUnreachable)
		_, err = p.Sem(1).Acquire(e.Ctx)
		e.WantErr(err, berth.ErrUnreachable)
		e.Within(start, 0, 4*time.Second, "gave up twice") // to insist would take 7
		_, err = testenv.Listed(p.Inspector().List(e.Ctx))
		e.WantErr(err, berth.ErrUnreachable)
		p.Net.Up()
		e.Pass(2 * time.Second) // go-redis looks once a second
		e.Release(e.Hold(p.Sem(1)))
	})
}

// One that was there before may come back: berth insists for a while.
func TestRedisThatIsAwayForAMoment(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Release(e.Hold(p.Sem(1)))
		p.Net.Down()
		start := time.Now()
		_, err := p.Sem(1).TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrUnreachable)
		e.Within(start, time.Second, 4*time.Second, "gave up")
		r := e.Start(p.Sem(1))
		e.Pass(time.Second)
		p.Net.Up()
		e.Release(r.Granted())
	})
}

// The wait's context ends first: that is the error, and what Redis said is told too.
func TestImpatientCallerIsToldWhatRedisSaid(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s := answering(e, "-LOADING Redis is loading the dataset in memory").Sem(1)
		ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
		defer cancel()
		_, err := s.Acquire(ctx)
		e.WantErr(err, context.DeadlineExceeded)
		refusedFor(e, err, "LOADING")
	})
}

func TestSilentRedis(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		defer p.Net.Down() // ends the handshakes
		_, err := p.Sem(1).TryAcquire(e.Ctx)
		e.WantErr(err, berth.ErrUnreachable)
	})
}

func TestReadOnlyReplica(t *testing.T) {
	testenv.OwnServer(t, []string{"replicaof 127.0.0.1 1", "replica-serve-stale-data yes"}, func(e *testenv.Env) {
		err := e.Try(e.Peer().Sem(1))
		e.WantErr(err, berth.ErrRefused)
		if !strings.Contains(strings.ToLower(err.Error()), "read only replica") {
			e.Errorf("told %v", err)
		}
	})
}

// Memory is short: new permits are refused, what is held is renewed and released.
func TestOutOfMemory(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		p := e.Peer()
		l, m := e.Hold(p.Sem(3)), e.Hold(p.Sem(3))
		q := e.Queue(p.Sem(3), berth.Weight(2))
		e.Server.Do(e, "CONFIG", "SET", "maxmemory", "1")
		err := e.Try(p.Named("other", 1))
		e.WantErr(err, berth.ErrRefused)
		if !strings.Contains(err.Error(), "maxmemory") {
			e.Errorf("told %v", err)
		}
		e.Must(e.Renew(l))
		e.Release(l)
		e.Must(q.Granted().Release())
		e.Release(m)
		e.Server.Do(e, "CONFIG", "SET", "maxmemory", "0")
		e.Release(e.Hold(p.Named("other", 1)))
	})
}

// A user without the right to run scripts, one without the channel, one with the
// least rights that do.
func TestUsersWithFewRights(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		const data = " +hget +hmget +hset +hdel +hlen +zadd +zrem +zrange +zrangebyscore +zscore +zcount +zrank +zcard" +
			" +del +exists +persist +pexpireat +time +publish"
		rights := map[string]string{
			"noscripts": "~berth:* resetchannels &berth:* +ping +subscribe" + data,
			"nochannel": "~berth:* resetchannels +eval +evalsha" + data,
			"nokeys":    "~other:* resetchannels &berth:* +eval +evalsha +subscribe +ping" + data,
			"least":     "~berth:* resetchannels &berth:* +eval +evalsha +subscribe +unsubscribe +ping" + data,
		}
		for user, rules := range rights {
			args := []any{"ACL", "SETUSER", user, "on", ">secret", "-@all"}
			for rule := range strings.FieldsSeq(rules) {
				args = append(args, rule)
			}
			e.Server.Do(e, args...)
		}
		for _, user := range []string{"noscripts", "nokeys"} {
			err := e.Try(loggedIn(e, user, "secret").Sem(1))
			e.WantErr(err, berth.ErrRefused)
			nothingSent(e, e.Peer())
		}
		for _, user := range []string{"nochannel", "least"} { // without messages it is slower, not wrong
			p := loggedIn(e, user, "secret")
			first := e.Hold(p.Sem(1))
			r := e.Queue(p.Sem(1, berth.TTL(e.TTL)))
			e.Release(first)
			r.Served()
		}
	})
}

// loggedIn makes a peer that logs in.
func loggedIn(e *testenv.Env, user, password string) *testenv.Peer {
	o := e.Options
	e.Options.Username, e.Options.Password = user, password
	defer func() { e.Options = o }()
	return e.Peer()
}

func TestWrongPasswordIsNeverPrinted(t *testing.T) {
	testenv.OwnServer(t, []string{"requirepass hunter2"}, func(e *testenv.Env) {
		err := e.Try(loggedIn(e, "", "hunter3").Sem(1))
		refusedFor(e, err, "WRONGPASS")
		if strings.Contains(err.Error(), "hunter") {
			e.Errorf("told %v", err)
		}
		err = e.Try(e.Peer().Sem(1))
		refusedFor(e, err, "NOAUTH")
	})
}

// Keys that hold something else are left alone, whatever is asked; Purge is the
// way out.
func TestForeignKeysAreLeftAlone(t *testing.T) {
	spoil := map[string]func(*testenv.Env, string, string){
		"string":        func(e *testenv.Env, state, _ string) { e.Redis.Set(e.Ctx, state, "mine", 0) },
		"list":          func(e *testenv.Env, state, _ string) { e.Redis.LPush(e.Ctx, state, "mine") },
		"zset":          func(e *testenv.Env, state, _ string) { e.Redis.ZAdd(e.Ctx, state, redis.Z{Member: "mine"}) },
		"hash":          func(e *testenv.Env, state, _ string) { e.Redis.HSet(e.Ctx, state, "a", "b") },
		"order string":  func(e *testenv.Env, _, order string) { e.Redis.Set(e.Ctx, order, "mine", 0) },
		"order hash":    func(e *testenv.Env, _, order string) { e.Redis.HSet(e.Ctx, order, "a", "b") },
		"order foreign": func(e *testenv.Env, _, order string) { e.Redis.ZAdd(e.Ctx, order, redis.Z{Member: "mine", Score: 1}) },
		"settings":      func(e *testenv.Env, state, _ string) { e.Redis.HSet(e.Ctx, state, "settings", "nan inf 0x10 1e3") },
		"counts": func(e *testenv.Env, state, _ string) {
			e.Redis.HSet(e.Ctx, state, "settings", "1 1 -1 0 0", "counts", "1e3 nan")
		},
		"huge": func(e *testenv.Env, state, _ string) {
			e.Redis.HSet(e.Ctx, state, "settings", "1 1 -1 0 0", "counts", "9007199254740993 9007199254740993 0 0 9223372036854775807 1 1 0")
		},
	}
	for what, spoil := range spoil {
		t.Run(what, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				state := e.Prefix + ":{" + testenv.Name + "}"
				spoil(e, state, state+":order")
				before := e.Keys()
				if len(before) == 0 {
					e.Fatal("nothing was spoilt")
				}
				p := e.Peer()
				_, err := p.Sem(1).Acquire(e.Ctx)
				e.WantErr(err, berth.ErrCorrupt)
				err = e.Try(p.Sem(1))
				e.WantErr(err, berth.ErrCorrupt)
				e.WantErr(e.Inspector.Pin(e.Ctx, testenv.Name, 2), berth.ErrCorrupt)
				_, err = e.Inspector.Show(e.Ctx, testenv.Name)
				e.WantErr(err, berth.ErrCorrupt)
				e.Unchanged(before)
				e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
				e.Release(e.Hold(p.Sem(1)))
			})
		})
	}
}

// Keys of the semaphore that vanish one by one are a loss, never a mix-up: either
// it goes on, or says that it cannot, and then Purge helps.
func TestHalfOfTheKeysVanishes(t *testing.T) {
	for _, suffix := range []string{"", ":order"} {
		t.Run("state"+suffix, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				p, q := e.Peer(), e.Peer()
				e.Hold(p.Sem(2, berth.TTL(e.TTL)))
				p.Crash()
				e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{"+testenv.Name+"}"+suffix).Err())
				e.Pass(e.TTL)
				if _, err := q.Sem(2).Acquire(e.Ctx); err != nil {
					e.WantErr(err, berth.ErrCorrupt)
					e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
					e.Hold(q.Sem(2))
				}
				if st := e.Show(); st.InUse != 1 {
					e.Errorf("state %+v", st)
				}
			})
		})
	}
}

// Where keys in use carry no TTL, a listing finds a key that is alone, and removes it once
// nothing in it can be alive.
func TestListingRemovesAKeyWhoseOtherHalfWasLost(t *testing.T) {
	t.Run("hash", func(t *testing.T) {
		testenv.Embedded(t, func(e *testenv.Env) { listsHalf(e, "") })
	})
	t.Run("hash, on a server", func(t *testing.T) {
		testenv.OwnServer(t, []string{"maxmemory-policy volatile-lru"}, func(e *testenv.Env) { listsHalf(e, "") })
	})
	t.Run("set", func(t *testing.T) { // its hash tells a time that is up to a minute too late
		testenv.Embedded(t, func(e *testenv.Env) { listsHalf(e, ":order") })
	})
}

// listsHalf deletes one of the keys that crashed holders left, and lists before the other
// heals and after that.
func listsHalf(e *testenv.Env, suffix string) {
	e.Helper()
	p := e.Peer()
	for range 2 {
		e.Hold(p.Sem(2, berth.TTL(e.TTL)))
	}
	p.Crash()
	e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{"+testenv.Name+"}"+suffix).Err())
	keys := e.Keys()
	for key := range keys {
		if left := e.Redis.PTTL(e.Ctx, key).Val(); left != -1 {
			e.Errorf("%s goes by itself in %v", key, left)
		}
	}
	if len(keys) != 1 {
		e.Fatalf("keys %v, want one", keys)
	}
	all, err := testenv.Listed(e.Inspector.List(e.Ctx))
	if corrupt, ok := errors.AsType[*berth.CorruptError](err); ok {
		e.Pass(corrupt.Heals + time.Millisecond)
		all, err = testenv.Listed(e.Inspector.List(e.Ctx))
	} else if e.Exact { // a server may be slow, and the leases over
		e.Errorf("while leases may live: %v, %v", all, err)
	}
	if len(all) > 0 || err != nil {
		e.Errorf("listed %v, %v", all, err)
	}
	if left := e.Keys(); len(left) > 0 {
		e.Errorf("keys left over: %v", left)
	}
}

// What is left of the keys tells until when leases may live: until then nobody is let
// in, and then it heals by itself.
func TestLossOfTheStateLetsNobodyInBesideLiveLeases(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) { halved(e, "", e.TTL) })
}

// The state tells a time that is up to a minute too late.
func TestLossOfTheOrderLetsNobodyInBesideLiveLeases(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) { halved(e, ":order", e.TTL+time.Minute) })
}

// halved deletes one of the two keys while all permits are out. They can be had again
// after most at the latest, and not before their holders know of the loss.
func halved(e *testenv.Env, suffix string, most time.Duration) {
	e.Helper()
	const limit = 3
	var held berth.Leases
	for range limit {
		held = append(held, e.Hold(e.Peer().Sem(limit, berth.TTL(e.TTL))))
	}
	e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{"+testenv.Name+"}"+suffix).Err())
	s := e.Peer().Sem(limit)
	start := time.Now()
	for got := 0; got < limit; {
		err := e.Try(s)
		if err == nil {
			got++
			for _, l := range held {
				if l.Valid() {
					e.Fatalf("lease %s is valid while %d others hold", l.ID(), got)
				}
			}
			continue
		}
		corrupt, ok := errors.AsType[*berth.CorruptError](err)
		if !ok || corrupt.Heals <= 0 || corrupt.Heals > most+e.Slack() { // tombstones of requests that a slow machine repeats last longer
			e.Fatalf("refused because of %v", err)
		}
		e.Within(start, 0, most, "it heals")
		e.Pass(min(corrupt.Heals, e.Tick()))
	}
}

// A closed redis client is the caller's mistake, and told at once.
func TestClosedRedisClient(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(p.Redis.Close())
		start := time.Now()
		_, err := p.Sem(1).Acquire(e.Ctx)
		refusedFor(e, err, "client is closed")
		e.Within(start, 0, 0, "told")
	})
}

// A right is taken away while a lease is held, and given back before it runs out: it
// is renewed then.
func TestLeaseOutlivesARefusalOfItsRenewals(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		l := e.Hold(e.Peer().Sem(1))
		until := l.ValidUntil()
		e.Pass(l.TTL() / 4)
		e.Embedded.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
		e.Pass(l.TTL() / 2)
		e.Embedded.SetError("")
		e.Pass(l.TTL())
		if !l.Valid() || !l.ValidUntil().After(until) {
			e.Errorf("valid until %v, was %v: %v", l.ValidUntil(), until, context.Cause(l.Context()))
		}
	})
}

// What a renewal failed with is no reason for a loss that comes after another one that
// worked.
func TestLossNamesNoFailureThatWasMended(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		l := e.Hold(e.Peer().Sem(1, berth.WithoutRenewal()))
		e.Embedded.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
		refusedFor(e, l.Renew(e.Ctx), "NOPERM")
		e.Embedded.SetError("")
		e.Must(e.Renew(l))
		if lost := e.Lost(l); lost.Reason != berth.LostUntrusted || lost.Err != nil {
			e.Errorf("lost because of %v", lost)
		}
		again := e.Hold(e.Peer().Sem(1, berth.WithoutRenewal()))
		e.Embedded.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
		refusedFor(e, again.Renew(e.Ctx), "NOPERM")
		refusedFor(e, e.Lost(again).Err, "NOPERM")
		e.Embedded.SetError("")
	})
}

// While it is not known whether the server evicts, keys carry no TTL; it is asked again.
func TestUnknownEvictionPolicyIsAskedAgain(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	p := e.Peer()
	lost := p.Net.Inject(redistest.Rule{Match: redistest.Named("INFO"), Fault: redistest.Reset, Times: -1})
	l := e.Hold(p.Sem(1))
	key := e.Prefix + ":{" + testenv.Name + "}"
	if left := e.Redis.PTTL(e.Ctx, key).Val(); lost.Hits() == 0 || left != -1 {
		e.Errorf("the policy is not known, and the key goes in %v; questions lost: %d", left, lost.Hits())
	}
	lost.Stop()
	for deadline := time.After(time.Minute); e.Redis.PTTL(e.Ctx, key).Val() < 0; {
		select {
		case <-deadline:
			e.Fatalf("not asked again, in a minute: %v", p.Net.Counts())
		case <-time.After(e.Tick()):
			e.Must(e.Renew(l))
		}
	}
}
