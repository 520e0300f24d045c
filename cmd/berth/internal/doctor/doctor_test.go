package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/local"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// examine runs the doctor on a URL and returns what it found, by check.
func examine(t *testing.T, url string) map[string]Finding {
	t.Helper()
	return byCheck(t, insist(t, Config{Redis: dial(t, url), Prefix: "berth"}))
}

// noAnswer matches what the doctor finds where a busy machine keeps Redis from answering.
var noAnswer = regexp.MustCompile(`is unreachable|not answered within|in time|i/o timeout|deadline exceeded|be searched within`)

// insist runs the doctor, and again where Redis did not answer it in time.
func insist(t *testing.T, cfg Config) *Report {
	t.Helper()
	for try := 1; ; try++ {
		report, err := Examine(t.Context(), cfg)
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprint(report.Findings)
		}
		switch {
		case try < 5 && noAnswer.MatchString(text):
		case err != nil:
			t.Fatal(err)
		default:
			return report
		}
	}
}

func dial(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	target, err := connect.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := target.Client()
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func byCheck(t *testing.T, report *Report) map[string]Finding {
	t.Helper()
	all := map[string]Finding{}
	for _, f := range report.Findings {
		if f.Found == "" || (f.Status == OK) != (f.Advice == "") {
			t.Errorf("a finding without words, or with idle advice: %+v", f)
		}
		all[f.Check] = worse(all[f.Check], f)
	}
	return all
}

// wantOnly checks that some checks have a status and a text, and that all others are
// OK, but for what is said of the speed of the machine.
func wantOnly(t *testing.T, all map[string]Finding, want map[string]string) {
	t.Helper()
	for name, f := range all {
		if want[name] == "" && name != "latency" && f.Status != OK {
			t.Errorf("%s: %+v, want it to be OK", name, f)
		}
	}
	for name, text := range want {
		f := all[name]
		status, text, _ := strings.Cut(text, " ")
		if string(f.Status) != status || !strings.Contains(f.Found, text) {
			t.Errorf("%s: %s %q, want %s with %q", name, f.Status, f.Found, status, text)
		}
	}
}

// A server as it should be, and one with each fault.
func TestServers(t *testing.T) {
	t.Parallel()
	const durable = "appendonly yes"
	for name, test := range map[string]struct {
		config []string
		want   map[string]string
	}{
		"good":           {[]string{durable, "appendfsync always"}, nil},
		"every second":   {[]string{durable, "appendfsync everysec"}, nil},
		"volatile":       {[]string{durable, "maxmemory 100mb", "maxmemory-policy volatile-lru"}, nil},
		"no persistence": {nil, map[string]string{"persistence": "WARN keeps nothing"}},
		"snapshots":      {[]string{"save 3600 1"}, map[string]string{"persistence": "WARN last snapshot"}},
		"no sync":        {[]string{durable, "appendfsync no"}, map[string]string{"persistence": "WARN power cut"}},
		"evicts": {
			[]string{durable, "maxmemory 100mb", "maxmemory-policy allkeys-lru"},
			map[string]string{"memory": "FAIL deletes semaphores"},
		},
		"may evict": {[]string{durable, "maxmemory-policy allkeys-random"}, map[string]string{"memory": "WARN as soon as"}},
		"full": {
			[]string{durable, "maxmemory 100kb"},
			map[string]string{"memory": "FAIL memory is full", "semaphore": "FAIL taking a permit failed"},
		},
		"no replicas": {
			[]string{durable, "min-replicas-to-write 1"},
			map[string]string{"replication": "FAIL wants 1", "semaphore": "FAIL taking a permit failed"},
		},
		"impatient": {[]string{durable, "lua-time-limit 20"}, map[string]string{"scripts": "WARN 20 ms"}},
		"clustered": {
			[]string{durable, "cluster-enabled yes"},
			map[string]string{"cluster": "FAIL as if it were alone", "semaphore": "FAIL CLUSTERDOWN", "scripts": "FAIL CLUSTERDOWN", "rights": "FAIL CLUSTERDOWN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A port of its own is also that of a Cluster's bus, which else is the same for all servers.
			server := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig(test.config...))
			wantOnly(t, examine(t, server.URL()), test.want)
			if keys, ok := server.Do(t, "KEYS", "*").([]any); !ok || len(keys) > 0 {
				t.Errorf("it left %v behind", keys)
			}
		})
	}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("appendonly yes", "repl-diskless-sync-delay 0"))
	host, port, _ := net.SplitHostPort(master.Addr())
	replica := redistest.Start(t, redistest.WithConfig("appendonly yes", "replicaof "+host+" "+port))
	await(t, func() bool {
		text, _ := replica.Do(t, "INFO", "replication").(string)
		return strings.Contains(text, "master_link_status:up")
	})
	wantOnly(t, examine(t, replica.URL()), map[string]string{
		"replication": "FAIL is a replica", "semaphore": "FAIL taking a permit failed",
	})
	await(t, func() bool {
		text, _ := master.Do(t, "INFO", "replication").(string)
		return strings.Contains(text, "connected_slaves:1")
	})
	wantOnly(t, examine(t, master.URL()), map[string]string{"replication": "WARN a failover can lose"})
}

// await polls another process's state, which announces itself to nobody.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it never happened")
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("appendonly yes", "cluster-enabled yes"))
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16382)
	server.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	url := "redis+cluster://" + server.Addr()
	healthy := func() bool {
		text, _ := server.Do(t, "CLUSTER", "INFO").(string)
		return strings.Contains(text, "cluster_state:ok")
	}
	await(t, healthy)
	if f := examine(t, url)["cluster"]; f.Status != Fail || !strings.Contains(f.Found, "16383 of 16384") {
		t.Errorf("a slot is missing: %+v", f)
	}
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", 16383, 16383)
	await(t, healthy)
	wantOnly(t, examine(t, url), nil)
	if n := server.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("it left %v keys behind", n)
	}
}

// TestLookTriesNothing: it reads settings, and neither writes, publishes nor searches.
func TestLookTriesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	all := byCheck(t, insist(t, Config{Redis: dial(t, server.URL()), Prefix: "berth", Look: true}))
	for _, check := range []string{"version", "memory", "persistence", "replication", "clock", "latency"} {
		if all[check].Found == "" {
			t.Errorf("no word of %s", check)
		}
	}
	stats, _ := server.Do(t, "INFO", "commandstats").(string)
	for _, command := range []string{"eval", "evalsha", "hset", "publish", "subscribe", "scan"} {
		if strings.Contains(stats, "cmdstat_"+command+":") {
			t.Errorf("it has sent %s", command)
		}
	}
	if !strings.Contains(stats, "cmdstat_info:") {
		t.Errorf("no statistics: %q", stats)
	}
}

// TestServerThatStandsStillIsFound, also if it runs again and again: those moments are too short for
// pings that are spread over seconds.
func TestServerThatStandsStillIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := dial(t, server.URL())
	p := &patient{Config: Config{Redis: rdb}}
	for _, stopped := range []time.Duration{800 * time.Millisecond, 200 * time.Millisecond} {
		end := server.Falter(stopped, stopped/4)
		f := p.latency(t.Context(), node{rdb: rdb})
		end()
		if f.Status == OK {
			t.Errorf("it stands still for %v of %v: %+v", stopped, stopped*5/4, f)
		}
	}
}

// A user who may write but not delete leaves nothing behind.
func TestNothingIsWrittenThatStays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	least, _ := redistest.LeastRights(t, "../../../..")
	rights := slices.DeleteFunc(least, func(r string) bool {
		return slices.Contains([]string{"+del", "+hdel", "+zrem", "+pexpireat"}, r)
	})
	report := insist(t, Config{Redis: dialAs(t, server, server.URL(), "poor", rights), Prefix: "berth"})
	if f := byCheck(t, report)["semaphore"]; f.Status != Fail || !strings.Contains(f.Found, "may not be deleted") {
		t.Errorf("%+v", f)
	}
	if left := server.Do(t, "KEYS", "*").([]any); len(left) > 0 {
		t.Errorf("it left %v behind", left)
	}
}

// What an earlier doctor was not allowed to delete is told for what it is.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	server.Do(t, "HSET", "berth:{berth-doctor-x}", "f", "v")
	f := examine(t, server.URL())["keyspace"]
	if f.Status != Warn || !strings.Contains(f.Found, "earlier berth doctor") || !strings.Contains(f.Advice, "berth purge --yes berth-doctor-x") {
		t.Errorf("%+v", f)
	}
}

// TestKeysThatTheServerEvictsAreNamed: the policy was changed while semaphores were in use, whose keys
// have a TTL. Who may not ask for that is told what the semaphores say.
func TestKeysThatTheServerEvictsAreNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	rdb := server.Client(t)
	sem, _ := clientOf(t, rdb).Semaphore("mine", 2)
	lease, err := sem.Acquire(t.Context(), berth.WithoutRenewal(), berth.TTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { // until the client knows the policy
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		return rdb.PTTL(t.Context(), "berth:{mine}").Val() > 0
	})
	wantOnly(t, examine(t, server.URL()), nil)
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	wantOnly(t, examine(t, server.URL()), map[string]string{"keyspace": "WARN as soon as somebody sets maxmemory, the server evicts"})
	server.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
	wantOnly(t, examine(t, server.URL()), map[string]string{"keyspace": `FAIL granted twice; "mine": its keys have a TTL of 1h`})
	least, _ := redistest.LeastRights(t, "../../../..")
	poor := byCheck(t, insist(t, Config{Redis: dialAs(t, server, server.URL(), "poor", least), Prefix: "berth"}))
	if f := poor["keyspace"]; f.Status != Fail || !strings.Contains(f.Found, `"mine": its keys have a TTL`) {
		t.Errorf("without the right to PTTL: %+v", f)
	}
	other, _ := clientOf(t, server.Client(t)).Semaphore("mine", 2) // which knows the policy, and makes a call
	if _, err := other.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, examine(t, server.URL()), nil)
}

// What somebody else has written under the prefix is named, and left alone.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	rdb := server.Client(t)
	client := clientOf(t, rdb)
	sem, _ := client.Semaphore("mine", 2)
	if _, err := sem.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f := examine(t, server.URL())["keyspace"]; f.Status != OK || !strings.Contains(f.Found, "1 semaphore,") {
		t.Errorf("a sound semaphore: %+v", f)
	}
	server.Do(t, "SET", "berth:{text}", "x")
	server.Do(t, "HSET", "berth:{newer}", "state", "4 x")
	server.Do(t, "HSET", "berth:{damaged}", "state", "3 12x")
	server.Do(t, "HSET", "berth:{\x1b[2Jred}", "state", "3 1 -1 0 0 0 0 0 0 0 0 0 0 0 0 -")
	before := dump(t, rdb)
	f := examine(t, server.URL())["keyspace"]
	for _, text := range []string{`"text": not berth's content`, `"newer": written by a newer berth`, `"damaged": not berth's content`, `\x1b[2Jred": no name`} {
		if !strings.Contains(f.Found, text) || f.Status != Fail || strings.Contains(f.Found, "\x1b") {
			t.Errorf("%s %q has no %q", f.Status, f.Found, text)
		}
	}
	if after := dump(t, rdb); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	for _, name := range []string{"text", "damaged", "\x1b[2Jred"} {
		server.Do(t, "DEL", "berth:{"+name+"}")
	}
	if f := examine(t, server.URL())["keyspace"]; f.Status != Fail || strings.Contains(f.Advice, "purge") || !strings.Contains(f.Advice, "Upgrade") {
		t.Errorf("a newer one alone: %+v", f)
	}
}

// A semaphore that heals by itself is named, without the advice to purge it: after a purge there
// could be more holders than the limit.
func TestHalfLostSemaphoreIsNotToBePurged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	client := clientOf(t, server.Client(t))
	sem, _ := client.Semaphore("half", 2)
	for range 2 { // a single holder needs one key alone
		if _, err := sem.Acquire(t.Context(), berth.TTL(10*time.Minute), berth.WithoutRenewal()); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Do(t, "DEL", "berth:{half}:order"); n != int64(1) {
		t.Fatalf("%v keys deleted", n)
	}
	f := examine(t, server.URL())["keyspace"]
	if f.Status != Warn || !strings.Contains(f.Found, `"half": heals by itself in 1`) || strings.Contains(f.Advice, "berth purge") {
		t.Errorf("%+v", f)
	}
	server.Do(t, "SET", "berth:{text}", "x")
	f = examine(t, server.URL())["keyspace"]
	if f.Status != Fail || !strings.Contains(f.Found, `"half": heals by itself in`) || !strings.Contains(f.Found, `"text": not berth's content`) || !strings.Contains(f.Advice, "leave alone what heals") {
		t.Errorf("with another's key: %+v", f)
	}
}

func clientOf(t *testing.T, rdb *redis.Client) *berth.Client {
	t.Helper()
	client, err := berth.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// dump is everything that is stored, deadlines aside: the holder is renewed.
func dump(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	keys := rdb.Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	for i, key := range keys {
		if !strings.Contains(key, "mine") {
			keys[i] += rdb.Dump(t.Context(), key).Val()
		}
	}
	return strings.Join(keys, "\n")
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("requirepass secret"))
	for name, url := range map[string]string{
		"nobody":         "unix://" + filepath.Join(t.TempDir(), "s"),
		"no password":    server.URL(),
		"wrong password": strings.Replace(server.URL(), "unix://", "unix://:hunter2@", 1),
	} {
		report, err := Examine(t.Context(), Config{Redis: dial(t, url), Prefix: "berth"})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, error %v", name, report, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, Config{Redis: dial(t, server.URL()), Prefix: "berth"}); err == nil {
		t.Error("it examined for nobody")
	}
}

func TestOwnStore(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := local.Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	report := insist(t, Config{Redis: dial(t, "unix://"+dir+"/s"), Prefix: "berth", Local: true})
	wantOnly(t, byCheck(t, report), map[string]string{"server": "OK this machine's own store"})
}
