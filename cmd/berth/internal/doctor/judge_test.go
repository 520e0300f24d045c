package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	single, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { single.Close(); cluster.Close() })
	for _, test := range []struct {
		rdb  redis.UniversalClient
		info map[string]string
		want Status
	}{
		{single, map[string]string{"redis_version": "5.0.14"}, Fail},
		{single, map[string]string{"redis_version": "6.0.20"}, Fail},
		{single, map[string]string{"redis_version": "6.2.0"}, OK},
		{single, map[string]string{"redis_version": "10.1"}, OK},
		{single, map[string]string{"redis_version": "7.0.15", "arch_bits": "64"}, OK},
		{single, map[string]string{"redis_version": "7.0.15", "arch_bits": "32"}, Fail},
		{single, map[string]string{"redis_version": "255.255.255"}, OK},
		{single, map[string]string{"redis_version": "7.2.4", "valkey_version": "8.1.0"}, OK},
		{single, map[string]string{"redis_version": "unstable"}, Warn},
		{single, map[string]string{"redis_version": ""}, Warn},
		{single, nil, Warn},
		{cluster, map[string]string{"redis_version": "6.2.16"}, Fail},
		{cluster, map[string]string{"redis_version": "7.0.0"}, OK},
	} {
		p := &patient{Config: Config{Redis: test.rdb}}
		if f := p.version(t.Context(), node{info: test.info}); f.Status != test.want {
			t.Errorf("%v: %+v, want %s", test.info, f, test.want)
		}
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"aof_last_write_status": "err", "rdb_last_bgsave_status": "err", "loading": "1"} {
		f := (&patient{}).persistence(t.Context(), node{info: map[string]string{"aof_enabled": "1", key: value}})
		if f.Status != Fail {
			t.Errorf("%s: %+v", key, f)
		}
	}
}

// brackets are the samples of a server's clock that has an offset in each.
func brackets(trip time.Duration, offsets ...time.Duration) []bracket {
	var all []bracket
	for _, o := range offsets {
		all = append(all, bracket{o - trip/2, o + trip/2})
	}
	return all
}

func TestClocks(t *testing.T) {
	t.Parallel()
	const ms, took = time.Millisecond, 500 * time.Millisecond
	for name, test := range map[string]struct {
		samples []bracket
		ahead   time.Duration
		want    Status
		text    string
	}{
		"steady":       {brackets(ms, 0, 0, 0), 0, OK, "the same as"},
		"hours off":    {brackets(ms, time.Hour, time.Hour), time.Hour, OK, "1h0m0s ahead of"},
		"behind":       {brackets(ms, -time.Hour, -time.Hour), -time.Hour, OK, "behind"},
		"slow network": {brackets(100*ms, 0, 60*ms, 20*ms), 0, OK, "steady"},
		"drift":        {brackets(ms, 0, 2*ms, 4*ms), 0, OK, "steady"},
		"step forward": {brackets(ms, 0, 0, 50*ms), 0, Fail, "drifted apart"},
		"step back":    {brackets(ms, 0, 0, -time.Hour), 0, Fail, "drifted apart"},
	} {
		f := clockFinding(test.samples, test.ahead, ms, took)
		if f.Status != test.want || !strings.Contains(f.Found, test.text) {
			t.Errorf("%s: %+v, want %s with %q", name, f, test.want, test.text)
		}
	}
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for trips, want := range map[[3]time.Duration]Status{
		{ms, ms, ms}: OK, {ms, ms, slow}: Warn, {ms, ms, tooSlow}: Fail,
		{ms, still, 2 * still}: Warn, {still, still, 2 * still}: OK, // which is far away
	} {
		if f := latencyFinding(trips[0], trips[1], trips[2]); f.Status != want {
			t.Errorf("%v: %+v, want %s", trips, f, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	r := &Report{}
	r.add("short", found("fine"))
	r.add("rather long", fail("Mend it.", "%s \x1b[31m\u202e", strings.Repeat("word ", 20)))
	text := r.Text(60, false)
	if strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "→ Mend it.") || !strings.HasSuffix(text, "1 OK, 0 WARN, 1 FAIL\n") {
		t.Errorf("%q", text)
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 61 {
			t.Errorf("too wide: %q", line)
		}
	}
	if !strings.Contains(r.Text(60, true), "\x1b[31mFAIL\x1b[0m  rather") {
		t.Error("no colour")
	}
}
