package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Servers that are not Redis, in their answers: docs/servers.md.

// strict returns the network of a server that wants all keys of a script declared.
func strict(t *testing.T) *redistest.Faults {
	t.Helper()
	f := redistest.NewFaults(t)
	f.Inject(redistest.Rule{
		Match: func(c redistest.Command) bool { n := redistest.Declares(c); return n >= 0 && n < 2 },
		Fault: redistest.Refuse, Times: -1,
		Error: "ERR Error running script (call to f_5f0a): @user_script:125: script tried accessing undeclared key",
	})
	return f
}

// TestServerThatWantsDeclaredKeys: outside a Cluster every call declares both keys.
func TestServerThatWantsDeclaredKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t, redistest.Patient, strict(t).Wrap)
	s := NewStore(rdb, "berth", "s0", 1, "host")
	s.OnUndeclared(func() { t.Error("switched") })
	for _, ops := range [][]Op{ask(0, 1, 1), ask(1, 1, 1), back(0), beat(1), back(1)} {
		if _, err := s.Do(t.Context(), s.Key("name"), 0, ops); err != nil {
			t.Errorf("%s: %v", opsString(ops), err)
		}
		if _, err := Inspect(t.Context(), s, s.Key("name"), true); err != nil {
			t.Errorf("a look: %v", err)
		}
	}
}

// TestClusterThatWantsDeclaredKeys: the first refusal is a passing one, and says once that
// calls declare both keys from then on.
func TestClusterThatWantsDeclaredKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartMasters(t, 2)
	s := NewStore(c.Client(t, func(o *redis.ClusterOptions) { o.Dialer = strict(t).Dialer(o.Dialer) }), "berth", "s0", 1, "host")
	said := 0
	s.OnUndeclared(func() { said++ })
	for i, name := range []string{"a", "b", "c"} {
		ops := ask(0, 1, 1)
		_, err := s.Do(t.Context(), s.Key(name), 0, ops)
		if i > 0 {
			if err != nil || ops[0].Result.Code != Granted {
				t.Errorf("%s: %v, %+v", name, err, ops[0].Result)
			}
			continue
		}
		wantKind(t, err, ErrRefused, undeclared)
		if _, err := Inspect(t.Context(), s, s.Key(name), true); err != nil {
			t.Errorf("a look: %v", err)
		}
	}
	if said != 1 {
		t.Errorf("said %d times what it costs", said)
	}
}

// TestServersThatDoNotRunTheScript: the error says in one line what to do.
func TestServersThatDoNotRunTheScript(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"ERR This Redis command is not allowed from script":                                                             "docs/servers.md",
		"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array": "script_check_enable to 0",
		"ERR Error running script: script tried accessing undeclared key":                                               "undeclared keys in its settings",
	} {
		s := canned(t, nil, replyError(text))
		_, err := s.Do(t.Context(), s.Key("name"), 0, ask(0, 1, 1))
		wantKind(t, err, ErrRejected, nil)
		u, ok := errors.AsType[*Unfit](err)
		if !ok || !strings.Contains(err.Error(), says) || !strings.Contains(u.Do, says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q became %q", text, err)
		}
	}
}
