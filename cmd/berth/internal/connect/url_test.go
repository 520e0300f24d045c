package connect

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		url  string
		want Target
		tls  bool
	}{
		{url: "redis://h", want: Target{addrs: []string{"h:6379"}}},
		{url: "redis://", want: Target{addrs: []string{"localhost:6379"}}},
		{url: "REDIS://h:7000/3", want: Target{addrs: []string{"h:7000"}, db: 3}},
		{url: "redis://h?db=4", want: Target{addrs: []string{"h:6379"}, db: 4}},
		{url: "redis://u:p%23%40%2F@h:1", want: Target{addrs: []string{"h:1"}, username: "u", password: "p#@/"}},
		{url: "redis://:p@q@h", want: Target{addrs: []string{"h:6379"}, password: "p@q"}},
		{url: "redis://[::1]", want: Target{addrs: []string{"[::1]:6379"}}},
		{url: "redis://[::1]:7", want: Target{addrs: []string{"[::1]:7"}}},
		{url: "rediss://h", want: Target{addrs: []string{"h:6379"}}, tls: true},
		{url: "unix:///run/r.sock?db=2", want: Target{network: "unix", addrs: []string{"/run/r.sock"}, db: 2}},
		{url: "unix://:s@/run/r.sock", want: Target{network: "unix", addrs: []string{"/run/r.sock"}, password: "s"}},
		{
			url: "redis+sentinel://u:p@a:1,b,[::1]:3/main/5?sentinel_password=sp",
			want: Target{
				kind: sentinel, addrs: []string{"a:1", "b:26379", "[::1]:3"}, master: "main",
				username: "u", password: "p", db: 5, sentinelPassword: "sp",
			},
		},
		{url: "redis+cluster://a:1,b:2", want: Target{kind: cluster, addrs: []string{"a:1", "b:2"}}},
		{url: "rediss+cluster://a:1", want: Target{kind: cluster, addrs: []string{"a:1"}}, tls: true},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			got, err := Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.network == "" {
				tt.want.network = "tcp"
			}
			if (got.tls != nil) != tt.tls {
				t.Errorf("TLS = %v, want %v", got.tls != nil, tt.tls)
			}
			got.tls = nil
			if !slices.Equal(got.addrs, tt.want.addrs) {
				t.Errorf("addresses %q, want %q", got.addrs, tt.want.addrs)
			}
			got.addrs, tt.want.addrs = nil, nil
			if g, w := scalars(got), scalars(&tt.want); g != w {
				t.Errorf("got %+v, want %+v", g, w)
			}
		})
	}
}

// scalars is a Target without its slice and pointer.
func scalars(t *Target) any {
	return struct {
		kind                       kind
		network, master, user, pw  string
		db                         int
		sentinelUser, sentinelPass string
	}{t.kind, t.network, t.master, t.username, t.password, t.db, t.sentinelUsername, t.sentinelPassword}
}

// A bad URL is refused without any of its words, whichever of them was meant
// to be the password.
func TestParseErrorsKeepSecrets(t *testing.T) {
	bad := []string{
		"", "hunter2", "hunter2@host", "user:hunter2@host:1", "http://user:hunter2@host",
		"redis://user:hunter2@host:port", "redis://user:hunter2@host:99999", "redis://user:hunter2@host:0",
		"redis://user:hunter2#tail@host", "redis://user:12#hunter2@host", "redis://user:12/hunter2@host",
		"redis://user:12?hunter2@host", "redis://user:12?hunter2=1", "redis://user:%zzhunter2@host",
		"redis://user:hunter2%@host", "redis://hunter2@host", "redis://user:hunter2@host/notadb",
		"redis://user:hunter2@host/99999999", "redis://user:hunter2@host/-1", "redis://user:hunter2@a,b",
		"redis://user:hunter2@::1:80:90", "redis://user:hunter2@[::1", "redis://user:hunter 2@host",
		"redis://user:hunter2@host/0/1", "unix://user:hunter2@host/sock", "unix://user:hunter2@", "unix://:hunter2@/",
		"redis+sentinel://user:hunter2@a:1", "redis+sentinel://user:hunter2@a:1/m/x",
		"redis+cluster://user:hunter2@a:1/3", "redis+cluster://user:hunter2@a:1?db=1",
		"redis://user:hunter2@host?skip_verify=1", "redis://user:hunter2@ho%st", "redis://user:hunter2@host?%zz",
		"redis://user:hunter2@host\x00:1x",
	}
	for _, raw := range bad {
		t.Run(raw, func(t *testing.T) {
			target, err := Parse(raw)
			if err == nil {
				t.Fatalf("accepted, addresses %q", target.addrs)
			}
			for _, secret := range []string{"hunter", "tail", "user", "notadb"} {
				if strings.Contains(strings.ReplaceAll(err.Error(), "a user but", ""), secret) {
					t.Errorf("message shows %q: %v", secret, err)
				}
			}
		})
	}
}

func TestClients(t *testing.T) {
	for _, raw := range []string{"redis://h", "rediss://h", "unix:///s", "redis+sentinel://h/m", "redis+cluster://h"} {
		target, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Client().Close(); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
