package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestReplicaFollowsUntilItIsPromoted(t *testing.T) {
	t.Parallel()
	master := Start(t, WithTCP())
	replica := StartReplica(t, master)
	master.Do(t, "SET", "k", "seen")
	await(t, "the key to arrive", func() error {
		if got := replica.Do(t, "GET", "k"); got != "seen" {
			return fmt.Errorf("the replica has %v", got)
		}
		return nil
	})
	replica.Promote(t)
	master.Do(t, "SET", "k", "not seen")
	if got := replica.Do(t, "GET", "k"); got != "seen" {
		t.Errorf("the promoted server has %v", got)
	}
	if role, err := replica.Info("role"); err != nil || role != "master" {
		t.Errorf("role %q, %v", role, err)
	}
}

func TestTLSNeedsTheCertificate(t *testing.T) {
	t.Parallel()
	_, addr, conf := StartTLS(t)
	known := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: conf})
	defer known.Close()
	if err := known.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	bare := conf.Clone()
	bare.Certificates = nil
	unknown := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: bare, MaxRetries: -1})
	defer unknown.Close()
	if err := unknown.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

func TestSentinelsKnowTheMaster(t *testing.T) {
	t.Parallel()
	w := StartWatched(t)
	if w.Master(t) != w.Servers[0] {
		t.Error("the master is another one before any failover")
	}
	if err := w.Client(t).Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Error(err)
	}
}

func TestSlotsMigrateWithTheirKeys(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, Steady)
	rdb := c.Client(t)
	if err := rdb.Set(t.Context(), "{a}1", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := c.Slot(t, "{a}1")
	from := c.Owner(t, slot)
	to := (from + 1) % 3
	c.Migrate(t, slot, to)
	if got := c.Owner(t, slot); got != to {
		t.Errorf("slot %d is at %d, want %d", slot, got, to)
	}
	if v, err := rdb.Get(t.Context(), "{a}1").Result(); err != nil || v != "kept" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestOwnsSlot(t *testing.T) {
	t.Parallel()
	const head = "id 127.0.0.1:1@2 myself,master - 0 0 1 connected "
	for text, want := range map[string]bool{
		head + "0-9 77":       false,
		head + "0-9 42":       true,
		head + "40-50":        true,
		head + "[42->-other]": false,
		strings.Replace(head, "myself,", "", 1) + "0-99": false,
		"": false,
	} {
		if got := ownsSlot(text, 42); got != want {
			t.Errorf("ownsSlot(%q) = %v", text, got)
		}
	}
}
