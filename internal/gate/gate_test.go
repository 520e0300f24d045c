package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/rules"
	"github.com/berth-go/berth/internal/testkit/hostile"
)

// keys are those of strangers, and some about as long as a name shows.
var keys = append(hostile.Keys(),
	strings.Repeat("a", mostKey), strings.Repeat("a", mostKey+1), strings.Repeat("a", mostKey)+"~", strings.Repeat("}", mostKey),
)

func TestNames(t *testing.T) {
	store := berthtest.New(t)
	client := store.Client()
	base := strings.Repeat("b", mostName)
	seen := map[string]string{}
	for _, key := range keys {
		name := nameOf(base, key)
		if _, err := client.Semaphore(name, 1); err != nil {
			t.Errorf("key %.40q: %v", key, err)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("keys %.40q and %.40q have the name %q", key, other, name)
		}
		seen[name] = key
		if strings.Contains(strings.TrimPrefix(name, base+"/"), "/") {
			t.Errorf("key %.40q has the name %q: a limit %q may have that", key, name, base+"/…")
		}
	}
	for key, want := range map[string]string{
		"acme": "b/acme", "API.example:8080": "b/API.example:8080", "a b": "b/a%20b", "~": "b/%7E", "x/y": "b/x%2Fy", "[::1]:80": "b/[::1]:80",
	} {
		if got := nameOf("b", key); got != want {
			t.Errorf("the name of %q is %q, want %q", key, got, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	store := berthtest.Start()
	f.Cleanup(store.Close)
	client := store.Client()
	for _, key := range keys {
		f.Add(key, key+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		name := nameOf("n", a)
		if len(name) > 2+mostKey+1+32 || len(name) > berth.MaxName {
			t.Errorf("the name of %q has %d bytes", a, len(name))
		}
		if _, err := client.Semaphore(name, 1); err != nil {
			t.Errorf("the name of %q: %v", a, err)
		}
		if a != b && name == nameOf("n", b) {
			t.Errorf("%q and %q have the same name", a, b)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		stand standing
		hold  time.Duration
		want  time.Duration
	}{
		{standing{ahead: -1}, 0, s},
		{standing{ahead: 0, next: 7 * s, Status: berth.Status{Limit: 1}}, 0, 7 * s},
		{standing{ahead: 0, next: 7 * s, Status: berth.Status{Limit: 1}}, 3 * s, 3 * s},
		{standing{ahead: 0, next: s, Status: berth.Status{Limit: 1}}, 3 * s, s},
		{standing{ahead: 3, Status: berth.Status{Limit: 4}}, 3 * s, 3 * s},
		{standing{ahead: 4, Status: berth.Status{Limit: 4}}, 3 * s, 6 * s},
		{standing{ahead: 9, Status: berth.Status{Limit: 5}}, s + 1, 3 * s}, // two rounds of a little more than a second
		{standing{ahead: 9, Status: berth.Status{Limit: 5}}, time.Millisecond, s},
		{standing{ahead: 1 << 30, Status: berth.Status{Limit: 1}}, time.Hour, mostRetry},
		{standing{ahead: 1, Status: berth.Status{Limit: 0}}, time.Minute, mostRetry}, // frozen by an operator
		{standing{ahead: -1, Status: berth.Status{Limit: 9, Rate: 4, Window: 10 * s, Spent: 4, RetryAfter: 7 * s}}, 0, 7 * s},
		{standing{ahead: 3, Status: berth.Status{Limit: 9, Rate: 4, Window: 10 * s, Spent: 4, RetryAfter: 7 * s}}, 0, 7 * s}, // in the room that rest has
		{standing{ahead: 4, Status: berth.Status{Limit: 9, Rate: 4, Window: 10 * s, Spent: 4, RetryAfter: 7 * s}}, 0, 17 * s},
		{standing{ahead: 9, Status: berth.Status{Limit: 9, Rate: 4, Window: 10 * s, Spent: 4, RetryAfter: 7 * s}}, 0, 27 * s},
		{standing{ahead: 2, Status: berth.Status{Limit: 9, Rate: 2, Window: 10 * s, Burst: 4, Spent: 4, RetryAfter: 3 * s}}, 0, 13 * s},
		{standing{ahead: 2, Status: berth.Status{Limit: 9, Rate: 2, Window: 10 * s, Burst: 4, Spent: 2}}, 0, 5 * s}, // the bucket has one for those ahead
		{standing{ahead: 2, Status: berth.Status{Limit: 9, Rate: 4, Window: 10 * s, Spent: 1}}, 0, s},
		{standing{ahead: 9, Status: berth.Status{Limit: 9, RetryAfter: 7*s + 1}}, 0, 8 * s}, // a pause
		{standing{ahead: 3, Status: berth.Status{Limit: berth.NoLimit, Rate: 2, Window: 10 * s, Spent: 2}}, 0, 10 * s},
		{standing{ahead: 3, Status: berth.Status{Limit: berth.NoLimit, Rate: 2, Window: 10 * s, Spent: 50}}, 0, 10 * s}, // the rate was larger
	} {
		if got := c.stand.retryAfter(c.hold); got != c.want {
			t.Errorf("%+v with %v holds: %v, want %v", c.stand, c.hold, got, c.want)
		}
	}
}

func TestMeter(t *testing.T) {
	var m meter
	if m.mean() != 0 {
		t.Error("a meter knows something from nothing")
	}
	m.add(8 * time.Second)
	m.add(16 * time.Second)
	if got := m.mean(); got != 9*time.Second {
		t.Errorf("the mean is %v", got)
	}
}

func TestTenantsOfAnyKeyAreValidAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"a", "A", "a b", "a%20b", "\x00", "ü", "\xff", "~", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), strings.Repeat("\n", 1000)} {
		tenant := tenantOf(key)
		if why := rules.Key(tenant, berth.MaxTenant); why != "" {
			t.Errorf("%q is tenant %q: %s", key, tenant, why)
		}
		if other, twice := seen[tenant]; twice {
			t.Errorf("%q and %q are one tenant", key, other)
		}
		seen[tenant] = key
	}
}
