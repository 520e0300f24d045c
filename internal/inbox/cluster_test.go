package inbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// fleet is a Cluster and an inbox with channels in all of its nodes.
type fleet struct {
	*owner
	cluster  *redistest.Cluster
	rdb      *redis.ClusterClient
	channels []string
}

// startFleet returns when n channels stand. Unless the inbox looks by itself, it
// and its client learn only from servers what has moved.
func startFleet(t *testing.T, cluster *redistest.Cluster, n int, looks bool, opts ...func(*redis.ClusterOptions)) *fleet {
	f := &fleet{cluster: cluster}
	opts = append([]func(*redis.ClusterOptions){func(o *redis.ClusterOptions) {
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		if o.ClusterStateReloadInterval = time.Second; !looks {
			o.ClusterStateReloadInterval = time.Hour
			o.ReadTimeout = timeout // or what a busy machine holds up would be sent again
		}
	}}, opts...)
	f.rdb = f.cluster.Client(t, opts...)
	f.owner = open(t, f.rdb)
	if !looks {
		f.quiet = time.Hour
	}
	for i := range n {
		f.channels = append(f.channels, fmt.Sprintf("berth:{name %d}:abcdefghij", i))
	}
	f.listen(f.channels...)
	return f
}

// of returns the channels that the master with this index serves.
func (f *fleet) of(node int) (channels []string) {
	for _, c := range f.channels {
		if f.cluster.Owner(f, f.cluster.Slot(f, c)) == node {
			channels = append(channels, c)
		}
	}
	return channels
}

// reach fails the test unless a message for each of these channels arrives.
func (f *fleet) reach(what string, channels ...string) {
	f.Helper()
	for _, c := range channels {
		payload := what + " " + c
		if err := f.rdb.SPublish(f.Context(), c, payload).Err(); err != nil {
			f.Errorf("%s: %v", what, err)
		}
		f.await(event{message: payload}, 1)
	}
}

// reachAgain returns when messages for these channels arrive. Those that were sent
// while nobody listened may be lost.
func (f *fleet) reachAgain(what string, channels ...string) {
	f.Helper()
	for _, c := range channels {
		payload := what + " " + c
		eventually(f, "a message: "+payload, func() bool {
			f.rdb.SPublish(f.Context(), c, payload)
			return f.count(event{message: payload}) > 0
		})
	}
}

// subscribers returns the ids of the connections to a node that subscribe.
func subscribers(t testing.TB, s *redistest.Server) (ids []string) {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string)) {
		id, _, _ := strings.Cut(line, " ")
		ids = append(ids, id)
	}
	return ids
}

func shardChannels(t testing.TB, s *redistest.Server) int {
	t.Helper()
	return len(s.Do(t, "PUBSUB", "SHARDCHANNELS").([]any))
}

// TestClusterOneConnectionForEachNode: connections grow with nodes, not with
// channels. When they all break, all channels are back, although one command could
// not subscribe to them. When the channels are left, nothing is kept.
func TestClusterOneConnectionForEachNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, redistest.StartCluster(t, redistest.Steady), 500, false)
	f.served(3, 500)
	f.reach("all stand", f.channels...)

	for _, s := range f.cluster.Nodes[:3] {
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	for _, c := range f.channels {
		f.await(event{resumed: c}, 2)
	}
	f.served(3, 500)
	f.reach("after a kill", f.channels...)

	for _, c := range f.channels[1:] {
		f.Unsubscribe(c)
	}
	f.served(1, 1)
	f.reach("the last one", f.channels[0])
	f.listen(f.channels[1])
	if f.logs("WARN") != 3 || f.logs("INFO") != 3 {
		t.Errorf("one outage of three nodes: %s", &f.logged)
	}
	f.Close()
	f.served(0, 0)
}

// served returns when so many connections subscribe, at most one to each node, to
// so many channels in all.
func (f *fleet) served(connections, channels int) {
	f.Helper()
	eventually(f, fmt.Sprintf("%d connections and %d channels", connections, channels), func() bool {
		ids, names := 0, 0
		for _, s := range f.cluster.Nodes {
			n := len(subscribers(f, s))
			if ids += n; n > 1 {
				return false
			}
			names += shardChannels(f, s)
		}
		return ids == connections && names == channels
	})
}

// TestClusterSlotMoves: the channels of a slot that moves are subscribed where it
// is now, and nobody else notices.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	f := startFleet(t, redistest.StartCluster(t, redistest.Steady), 50, false)
	moving := f.channels[0]
	sibling := moving + ":and another one"
	f.listen(sibling)
	slot := f.cluster.Slot(t, moving)
	var before [][]string
	for _, s := range f.cluster.Nodes[:3] {
		before = append(before, subscribers(t, s))
	}
	for round := range 6 {
		to := (f.cluster.Owner(t, slot) + 1) % 3
		start := time.Now()
		f.cluster.Migrate(t, slot, to)
		f.await(event{resumed: moving}, round+2)
		f.await(event{resumed: sibling}, round+2)
		t.Logf("subscribed again %v after the migration began", time.Since(start))
		f.reach(fmt.Sprint("after migration ", round), append(f.channels, sibling)...)
	}
	for _, c := range f.channels[1:] {
		if n := f.count(event{resumed: c}); n != 1 {
			t.Errorf("%s resumed %d times, its slot did not move", c, n)
		}
	}
	for i, s := range f.cluster.Nodes[:3] {
		if after := subscribers(t, s); fmt.Sprint(after) != fmt.Sprint(before[i]) {
			t.Errorf("connections to node %d: %v, before %v", i, after, before[i])
		}
	}
	if f.logs("WARN") != 0 {
		t.Errorf("a migration is no trouble: %s", &f.logged)
	}
}

// TestClusterMoveUntold: the node that loses a slot does not tell. The inbox looks
// by itself.
func TestClusterMoveUntold(t *testing.T) {
	t.Parallel()
	net := redistest.NewFaults(t)
	f := startFleet(t, redistest.StartCluster(t, redistest.Steady), 10, true, func(o *redis.ClusterOptions) { o.Dialer = net.Dialer(nil) })
	lost := net.Inject(redistest.Rule{Match: redistest.Named("sunsubscribe"), Fault: redistest.DropMessage, Times: -1})
	slot := f.cluster.Slot(t, f.channels[0])
	f.cluster.Migrate(t, slot, (f.cluster.Owner(t, slot)+1)%3)
	f.await(event{resumed: f.channels[0]}, 2)
	if lost.Hits() == 0 {
		t.Error("the server was not to tell, and did not try")
	}
	f.reach("after the migration", f.channels...)
}

// TestClusterNothingIsMissedSilently: while slots move and connections are killed,
// messages are numbered, one row for each channel.
func TestClusterNothingIsMissedSilently(t *testing.T) {
	t.Parallel()
	f := startFleet(t, redistest.StartCluster(t, redistest.Steady), 12, false)
	for i := range 1500 {
		for j, c := range f.channels {
			if err := f.rdb.SPublish(t.Context(), c, fmt.Sprintf("%d %d", j, i)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		switch i % 150 {
		case 50:
			slot := f.cluster.Slot(t, f.channels[i/150%12])
			f.cluster.Migrate(t, slot, (f.cluster.Owner(t, slot)+1)%3)
		case 100:
			f.cluster.Nodes[i/150%3].Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
	}
	missed := 0
	for j, c := range f.channels {
		last := fmt.Sprintf("%d 1500", j)
		eventually(t, "a last message", func() bool {
			f.rdb.SPublish(t.Context(), c, last)
			return f.count(event{message: last}) > 0
		})
		row := &owner{TB: t}
		for _, e := range f.all() {
			if number, ok := strings.CutPrefix(e.message, strconv.Itoa(j)+" "); ok {
				row.events = append(row.events, event{message: number})
			} else if e.resumed == c {
				row.events = append(row.events, e)
			}
		}
		missed += row.judge()
	}
	t.Logf("%d messages were missed, and looked for", missed)
	if missed == 0 {
		t.Error("no message was lost: nothing was tried")
	}
}

// TestClusterMasterDies: its channels are back at its replica, and those of the
// other nodes do not wait for that.
func TestClusterMasterDies(t *testing.T) {
	t.Parallel()
	f := startFleet(t, redistest.StartCluster(t), 60, true)
	for _, end := range []struct {
		how       string
		end, back func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, func(s *redistest.Server) { s.Restart(t) }},
		{"stopped", (*redistest.Server).Stop, (*redistest.Server).Cont},
	} {
		victim := f.cluster.Owner(t, f.cluster.Slot(t, f.channels[0]))
		lost := f.of(victim)
		served := map[string]bool{}
		for _, c := range lost {
			served[c] = true
		}
		end.end(f.cluster.Nodes[victim])
		died := time.Now()
		for _, c := range f.channels {
			if !served[c] {
				f.reach("a node was "+end.how, c)
			}
		}
		f.reachAgain("its replica took over, "+end.how, lost...)
		t.Logf("%s: %d channels are back after %v", end.how, len(lost), time.Since(died))
		end.back(f.cluster.Nodes[victim])
		f.cluster.AwaitWhole(t)
		f.reachAgain("whole again, "+end.how, f.channels...)
	}
}

// TestClusterWithoutShardChannels: Redis 6.2 does not know the command. The log is
// told once, nobody waits for it, and Close is as quick as ever.
func TestClusterWithoutShardChannels(t *testing.T) {
	t.Parallel()
	redistest.NeedsShardChannels(t) // to be without them
	s := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("cluster-enabled yes", `rename-command SSUBSCRIBE ""`))
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	eventually(t, "the cluster to be up", func() bool {
		return strings.Contains(s.Do(t, "CLUSTER", "INFO").(string), "cluster_state:ok")
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	defer rdb.Close()
	o := open(t, rdb)
	o.trying = time.Hour
	for i := range 100 {
		<-o.Subscribe(fmt.Sprint("c", i))
	}
	eventually(t, "some more refusals", func() bool {
		o.Inbox.mu.Lock()
		defer o.Inbox.mu.Unlock()
		return o.subs["c0"].pause >= 16*leastPause
	})
	if o.logs("WARN") != 1 || len(o.all()) != 0 {
		t.Errorf("%d events; logged: %s", len(o.all()), &o.logged)
	}
	o.Close()
}

// TestClusterAway: nobody knows the nodes. The first attempt fails soon, and when
// they are there messages come.
func TestClusterAway(t *testing.T) {
	t.Parallel()
	net := redistest.NewFaults(t)
	net.Down()
	cluster := redistest.StartCluster(t, redistest.Steady)
	o := open(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer = net.Dialer(nil) }))
	var tried []<-chan struct{}
	for i := range 20 {
		tried = append(tried, o.Subscribe(fmt.Sprint("c", i)))
	}
	for _, attempt := range tried {
		<-attempt
	}
	eventually(t, "a warning", func() bool { return o.logs("WARN") > 0 })
	net.Up()
	for i := range 20 {
		o.await(event{resumed: fmt.Sprint("c", i)}, 1)
	}
	if o.logs("WARN") != 1 || o.logs("INFO") != 1 {
		t.Errorf("one outage: %s", &o.logged)
	}
}

// TestClusterAwayIsOverForOthers: the channel of which the log was told is left before the
// nodes are there. Another one tells that they are.
func TestClusterAwayIsOverForOthers(t *testing.T) {
	t.Parallel()
	net := redistest.NewFaults(t)
	net.Down()
	cluster := redistest.StartCluster(t, redistest.Steady)
	o := open(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer = net.Dialer(nil) }))
	<-o.Subscribe("left")
	eventually(t, "a warning", func() bool { return o.logs("WARN") == 1 })
	o.Unsubscribe("left")
	net.Up()
	o.listen("other")
	if o.logs("WARN") != 1 || o.logs("INFO") != 1 {
		t.Errorf("one outage: %s", &o.logged)
	}
}

// TestClusterUnknownIsAskedSlowly: as long as no node can be reached, the inbox asks
// for them every two seconds.
func TestClusterUnknownIsAskedSlowly(t *testing.T) {
	inBubble(t, func(w *world) {
		var dials atomic.Int64
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{"127.0.0.1:1"}, DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, errors.New("refused")
			},
		})
		defer rdb.Close()
		o := open(t, rdb)
		for i := range 10 {
			<-o.Subscribe(fmt.Sprint("c", i))
		}
		<-time.After(time.Hour)
		if n := dials.Load(); n > 2*1820 {
			t.Errorf("%d dials in an hour, want about one every %v", n, mostPause)
		}
		if o.logs("WARN") != 1 {
			t.Errorf("logged: %s", &o.logged)
		}
		o.Close()
	})
}

// TestClusterUnsubscribeWhileAsked: the client takes its time to find the nodes. A
// channel that is left meanwhile is not subscribed in the end.
func TestClusterUnsubscribeWhileAsked(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Steady)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o := open(t, cluster.Client(t, func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			once.Do(func() { close(asked) })
			<-answer
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	o.Subscribe("left")
	<-asked
	o.Unsubscribe("left")
	close(answer)
	o.listen("{left} stays") // at the same node
	for _, s := range cluster.Nodes {
		if n := shardChannels(t, s); n > 1 {
			t.Errorf("%d channels at a node", n)
		}
	}
}

// TestSentinelFailover: the master is killed, and messages come by the new one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	watched := redistest.StartWatched(t)
	rdb := watched.Client(t)
	o := open(t, rdb)
	o.listen("c")
	watched.Master(t).Kill()
	o.await(event{resumed: "c"}, 2)
	eventually(t, "a message", func() bool {
		rdb.Publish(t.Context(), "c", "m")
		return o.count(event{message: "m"}) > 0
	})
}
