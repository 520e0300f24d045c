package berth_test

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
	"github.com/berth-go/berth/internal/redistest"
)

// The tests of this file are about a Redis that does not do what it is asked:
// each refusal has its kind and its reason, and nothing changes.

// answering is the client of a server that answers every command with the same line.
func answering(e *env, line string) *peer {
	o := e.options
	e.options.Dialer = func(context.Context, string, string) (net.Conn, error) {
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
	defer func() { e.options = o }()
	return e.peer()
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
			exactly(t, func(_ *testing.T, e *env) {
				s := answering(e, line).sem(1)
				start := time.Now()
				_, err := s.TryAcquire(e.ctx)
				e.refusedFor(err, line[1:])
				e.within(start, 0, 3500*time.Millisecond, "TryAcquire gave up") // 2 s, the last call, and what comes before the first
				if took := time.Since(start); took > 0 && !patient {
					e.t.Errorf("insisted for %v", took)
				} else if took < time.Second && patient {
					e.t.Errorf("did not insist: %v", took)
				}
				start = time.Now()
				_, err = s.Acquire(e.ctx)
				e.refusedFor(err, line[1:])
				e.within(start, 0, 7*time.Second, "Acquire gave up")
			})
		})
	}
}

// refusedFor checks for ErrRefused with Redis' own words, and for nothing else.
func (e *env) refusedFor(err error, reason string) {
	e.t.Helper()
	wantErr(e.t, err, berth.ErrRefused)
	if errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrCorrupt) || !strings.Contains(err.Error(), reason) {
		e.t.Errorf("told %v, want %s", err, reason)
	}
}

// An address at which nothing ever answered is told without much ado.
func TestRedisThatCannotBeReached(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		p.net.Down()
		start := time.Now()
		_, err := p.sem(1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
		_, err = p.sem(1).Acquire(e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
		e.within(start, 0, 10*time.Second, "gave up twice")
		_, err = listed(p.Inspector(), e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
		p.net.Up()
		e.pass(2 * time.Second) // go-redis looks once a second
		e.release(e.hold(p.sem(1)))
	})
}

// One that was there before may come back: berth insists for a while.
func TestRedisThatIsAwayForAMoment(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.release(e.hold(p.sem(1)))
		p.net.Down()
		start := time.Now()
		_, err := p.sem(1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
		e.within(start, time.Second, 4*time.Second, "gave up")
		r := e.start(p.sem(1))
		e.pass(time.Second)
		p.net.Up()
		e.release(r.granted())
	})
}

// The wait's context ends first: that is the error, and what Redis said is told too.
func TestImpatientCallerIsToldWhatRedisSaid(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		s := answering(e, "-LOADING Redis is loading the dataset in memory").sem(1)
		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()
		_, err := s.Acquire(ctx)
		wantErr(e.t, err, context.DeadlineExceeded)
		e.refusedFor(err, "LOADING")
	})
}

func TestSilentRedis(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		p.net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		defer p.net.Down() // ends the handshakes
		_, err := p.sem(1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrUnreachable)
	})
}

func TestReadOnlyReplica(t *testing.T) {
	alone(t, []string{"replicaof 127.0.0.1 1", "replica-serve-stale-data yes"}, func(_ *testing.T, e *env, _ *redistest.Server) {
		_, err := e.peer().sem(1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrRefused)
		if !strings.Contains(strings.ToLower(err.Error()), "read only replica") {
			e.t.Errorf("told %v", err)
		}
	})
}

// Memory is short: new permits are refused, what is held is renewed and released.
func TestOutOfMemory(t *testing.T) {
	alone(t, nil, func(_ *testing.T, e *env, s *redistest.Server) {
		p := e.peer()
		l, m := e.hold(p.sem(3)), e.hold(p.sem(3))
		q := e.queue(p.sem(3), berth.Weight(2))
		s.Do(e.t, "CONFIG", "SET", "maxmemory", "1")
		_, err := p.named("other", 1).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrRefused)
		if !strings.Contains(err.Error(), "maxmemory") {
			e.t.Errorf("told %v", err)
		}
		e.must(l.Renew(e.ctx))
		e.release(l)
		e.must(q.granted().Release())
		e.release(m)
		s.Do(e.t, "CONFIG", "SET", "maxmemory", "0")
		e.release(e.hold(p.named("other", 1)))
	})
}

// A user without the right to run scripts, one without the channel, one with the
// least rights that do.
func TestUsersWithFewRights(t *testing.T) {
	alone(t, nil, func(_ *testing.T, e *env, s *redistest.Server) {
		const data = " +hget +hmget +hset +hdel +hlen +zadd +zrem +zrange +zrangebyscore +zremrangebyscore +zscore +zrank +zcard" +
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
			s.Do(e.t, args...)
		}
		for _, user := range []string{"noscripts", "nokeys"} {
			_, err := e.as(user, "secret").sem(1).TryAcquire(e.ctx)
			wantErr(e.t, err, berth.ErrRefused)
			e.nothingSent(e.peer())
		}
		for _, user := range []string{"nochannel", "least"} { // without messages it is slower, not wrong
			p := e.as(user, "secret")
			first := e.hold(p.sem(1))
			r := e.queue(p.sem(1, berth.TTL(e.ttl)))
			e.release(first)
			e.release(r.granted())
		}
	})
}

// as makes a peer that logs in.
func (e *env) as(user, password string) *peer {
	o := e.options
	e.options.Username, e.options.Password = user, password
	defer func() { e.options = o }()
	return e.peer()
}

func TestWrongPasswordIsNeverPrinted(t *testing.T) {
	alone(t, []string{"requirepass hunter2"}, func(_ *testing.T, e *env, _ *redistest.Server) {
		_, err := e.as("", "hunter3").sem(1).TryAcquire(e.ctx)
		e.refusedFor(err, "WRONGPASS")
		if strings.Contains(err.Error(), "hunter") {
			e.t.Errorf("told %v", err)
		}
		_, err = e.peer().sem(1).TryAcquire(e.ctx)
		e.refusedFor(err, "NOAUTH")
	})
}

// Keys that hold something else are left alone, whatever is asked; Purge is the
// way out.
func TestForeignKeysAreLeftAlone(t *testing.T) {
	spoil := map[string]func(*env, string, string){
		"string":        func(e *env, state, _ string) { e.raw.Set(e.ctx, state, "mine", 0) },
		"list":          func(e *env, state, _ string) { e.raw.LPush(e.ctx, state, "mine") },
		"zset":          func(e *env, state, _ string) { e.raw.ZAdd(e.ctx, state, redis.Z{Member: "mine"}) },
		"hash":          func(e *env, state, _ string) { e.raw.HSet(e.ctx, state, "a", "b") },
		"order string":  func(e *env, _, order string) { e.raw.Set(e.ctx, order, "mine", 0) },
		"order hash":    func(e *env, _, order string) { e.raw.HSet(e.ctx, order, "a", "b") },
		"order foreign": func(e *env, _, order string) { e.raw.ZAdd(e.ctx, order, redis.Z{Member: "mine", Score: 1}) },
		"settings":      func(e *env, state, _ string) { e.raw.HSet(e.ctx, state, "settings", "nan inf 0x10 1e3") },
		"counts":        func(e *env, state, _ string) { e.raw.HSet(e.ctx, state, "settings", "1 1 -1 0 0", "counts", "1e3 nan") },
		"huge": func(e *env, state, _ string) {
			e.raw.HSet(e.ctx, state, "settings", "1 1 -1 0 0", "counts", "9007199254740993 9007199254740993 0 0 9223372036854775807 1 1 0")
		},
	}
	for what, spoil := range spoil {
		t.Run(what, func(t *testing.T) {
			each(t, func(_ *testing.T, e *env) {
				state := e.prefix + ":{" + name + "}"
				spoil(e, state, state+":order")
				before := e.keys()
				if len(before) == 0 {
					e.t.Fatal("nothing was spoilt")
				}
				p := e.peer()
				_, err := p.sem(1).Acquire(e.ctx)
				wantErr(e.t, err, berth.ErrCorrupt)
				_, err = p.sem(1).TryAcquire(e.ctx)
				wantErr(e.t, err, berth.ErrCorrupt)
				wantErr(e.t, e.eye.Pin(e.ctx, name, 2), berth.ErrCorrupt)
				_, err = e.eye.Show(e.ctx, name)
				wantErr(e.t, err, berth.ErrCorrupt)
				e.unchanged(before)
				e.must(e.eye.Purge(e.ctx, name))
				e.release(e.hold(p.sem(1)))
			})
		})
	}
}

// A newer layout is refused, and not for being foreign.
func TestNewerLayoutIsRefused(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		e.must(e.raw.HSet(e.ctx, e.prefix+":{"+name+"}", "state", "2 whatever comes").Err())
		before := e.keys()
		_, err := e.peer().sem(1).Acquire(e.ctx)
		if err == nil || !strings.Contains(err.Error(), "upgrade") {
			e.t.Errorf("told %v", err)
		}
		e.unchanged(before)
	})
}

// Keys of the semaphore that vanish one by one are a loss, never a mix-up: either
// it goes on, or says that it cannot, and then Purge helps.
func TestHalfOfTheKeysVanishes(t *testing.T) {
	for _, suffix := range []string{"", ":order"} {
		t.Run("state"+suffix, func(t *testing.T) {
			each(t, func(_ *testing.T, e *env) {
				p, q := e.peer(), e.peer()
				e.hold(p.sem(2, berth.TTL(e.ttl)))
				p.crash()
				e.must(e.raw.Del(e.ctx, e.prefix+":{"+name+"}"+suffix).Err())
				e.pass(e.ttl)
				if _, err := q.sem(2).Acquire(e.ctx); err != nil {
					wantErr(e.t, err, berth.ErrCorrupt)
					e.must(e.eye.Purge(e.ctx, name))
					e.hold(q.sem(2))
				}
				if st := e.show(); st.InUse != 1 {
					e.t.Errorf("state %+v", st)
				}
			})
		})
	}
}

// A closed redis client is the caller's mistake, and told at once.
func TestClosedRedisClient(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.must(p.rdb.Close())
		start := time.Now()
		_, err := p.sem(1).Acquire(e.ctx)
		e.refusedFor(err, "client is closed")
		e.within(start, 0, 0, "told")
	})
}
