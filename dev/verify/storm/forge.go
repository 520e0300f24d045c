package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/verify/worker"
)

// forgerRule defines the forger's user, who may publish on every channel and list the
// channels, and do nothing else.
const forgerRule = "user forger on >forger resetkeys allchannels -@all +publish +pubsub|channels +hello"

// forger publishes messages that only the script should publish. On the channels that
// it finds it announces grants and ends of leases for ids that it guesses. It also
// knows some ids, like somebody who has read an operator's list, and announces their
// ends, and grants that cannot be true, to their processes. All that any of this may
// cause is that clients ask the server.
type forger struct {
	prefix  string
	publish *redis.Client // with the rights of forgerRule
	read    *redis.Client // only to learn ids
	rng     *rand.Rand
}

// forge runs a forger until stop is called.
func (s *storm) forge() (stop func()) {
	connect := func(user, password string) *redis.Client {
		return s.server.Client(s, func(o *redis.Options) {
			o.Username, o.Password, o.Protocol, o.DisableIdentity, o.PoolSize, o.MaxRetries = user, password, 2, true, 1, -1
		})
	}
	f := &forger{s.prefix, connect("forger", "forger"), connect("", ""), rand.New(rand.NewPCG(s.Seed, 2))}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			f.forge(ctx)
			pause(50 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// forge publishes some messages, if the server can be reached.
func (f *forger) forge(ctx context.Context) {
	seat := allSeats[f.rng.IntN(len(allSeats))]
	key := f.prefix + ":{" + seat.Name + "}"
	inbox := f.prefix + ":inbox:"
	channels := f.publish.PubSubChannels(ctx, inbox+"*").Val()
	f.rng.Shuffle(len(channels), func(i, j int) { channels[i], channels[j] = channels[j], channels[i] })
	for _, channel := range channels[:min(len(channels), 3)] {
		f.send(ctx, channel, key, f.guesses(strings.TrimPrefix(channel, inbox), seat))
	}
	lines := map[string][]string{}
	for _, id := range f.known(ctx, key) {
		channel, _, _ := strings.Cut(id, ".")
		lines[inbox+channel] = append(lines[inbox+channel], f.lie(id, seat))
	}
	for channel, l := range lines {
		f.send(ctx, channel, key, l)
	}
}

func (f *forger) send(ctx context.Context, channel, key string, lines []string) {
	_ = f.publish.Publish(ctx, channel, key+"\n"+strings.Join(lines, "\n")) // the server may be away
}

// guesses returns events for ids that begin with channel, which is all that one can
// learn from the list of channels.
func (f *forger) guesses(channel string, seat worker.Seat) (lines []string) {
	for n := range int64(100) {
		id := channel + []string{".-", "."}[f.rng.IntN(2)] + strconv.FormatInt(n, 36)
		if f.rng.IntN(4) == 0 {
			lines = append(lines, "x "+id+" 2")
		} else {
			lines = append(lines, fmt.Sprintf("g %s %d %d %d", id, f.rng.IntN(seat.Limit), time.Now().UnixMicro(), seat.Limit))
		}
	}
	return lines
}

// known returns the ids of some holders and waiters.
func (f *forger) known(ctx context.Context, key string) []string {
	fields := f.read.HGetAll(ctx, key).Val()
	if compact := strings.Fields(fields["state"]); len(compact) > 2 && compact[1] == "compact" {
		return []string{compact[2]}
	}
	var ids []string
	for id, record := range fields {
		if id != "state" && record[0] != 'x' {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// lie returns an event that announces the end of id, or a grant that cannot be true.
func (f *forger) lie(id string, seat worker.Seat) string {
	now := time.Now().UnixMicro()
	lies := []string{
		"x " + id + " " + strconv.Itoa(f.rng.IntN(7)),
		"x " + id,
		"g " + id,
		fmt.Sprintf("g %s %d %d %d", id, seat.Limit, now, seat.Limit),
		fmt.Sprintf("g %s -7 %d %d", id, now, seat.Limit),
		fmt.Sprintf("g %s 0 %d 0", id, now),
		fmt.Sprintf("g %s 0 %d 99999999999", id, now),
		fmt.Sprintf("g %s 0 %d %d", id, now+time.Hour.Microseconds(), seat.Limit),
		fmt.Sprintf("g %s 0 9007199254740991 %d", id, seat.Limit),
		fmt.Sprintf("g %s 0 -1 %d", id, seat.Limit),
		fmt.Sprintf("g %s 0 %d %d more", id, now, seat.Limit),
		fmt.Sprintf("e %s", id),
		fmt.Sprintf("g %s x y z", id),
	}
	return lies[f.rng.IntN(len(lies))]
}
