package connect

import (
	"context"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestParse(t *testing.T) {
	addrs := func(a ...string) redis.UniversalOptions { return redis.UniversalOptions{Addrs: a} }
	tests := []struct {
		url  string
		kind kind
		tls  bool
		want redis.UniversalOptions
	}{
		{url: "redis://h", want: addrs("h:6379")},
		{url: "redis://", want: addrs("localhost:6379")},
		{url: "REDIS://h:7000/3", want: redis.UniversalOptions{Addrs: []string{"h:7000"}, DB: 3}},
		{url: "redis://h?db=4", want: redis.UniversalOptions{Addrs: []string{"h:6379"}, DB: 4}},
		{url: "redis://u:p%23%40%2F@h:1", want: redis.UniversalOptions{Addrs: []string{"h:1"}, Username: "u", Password: "p#@/"}},
		{url: "redis://:p@q@h", want: redis.UniversalOptions{Addrs: []string{"h:6379"}, Password: "p@q"}},
		{url: "redis://[::1]", want: addrs("[::1]:6379")},
		{url: "redis://[::1]:7", want: addrs("[::1]:7")},
		{url: "rediss://h", want: addrs("h:6379"), tls: true},
		{url: "unix:///run/r.sock?db=2", want: redis.UniversalOptions{Addrs: []string{"/run/r.sock"}, DB: 2}},
		{url: "unix://:s@/run/r.sock", want: redis.UniversalOptions{Addrs: []string{"/run/r.sock"}, Password: "s"}},
		{
			url: "redis+sentinel://u:p@a:1,b,[::1]:3/main/5?sentinel_password=sp", kind: sentinel,
			want: redis.UniversalOptions{
				Addrs: []string{"a:1", "b:26379", "[::1]:3"}, MasterName: "main",
				Username: "u", Password: "p", DB: 5, SentinelPassword: "sp",
			},
		},
		{
			url: "redis+sentinel://:p+%2B@a:1/main?sentinel_password=a+b;c%2B%20==&client_name=x+y", kind: sentinel,
			want: redis.UniversalOptions{
				Addrs: []string{"a:1"}, MasterName: "main", Password: "p++", SentinelPassword: "a+b;c+ ==", ClientName: "x+y",
			},
		},
		{url: "valkey://h", want: addrs("h:6379")},
		{url: "valkeys://h:7", want: addrs("h:7"), tls: true},
		{url: "unix:/run/r.sock", want: addrs("/run/r.sock")},
		{url: "redis://h?client_name=app&protocol=2", want: redis.UniversalOptions{Addrs: []string{"h:6379"}, ClientName: "app", Protocol: 2}},
		{url: "redis://h?pool_size=9&socket_timeout=5&decode_responses=True&family=6&ssl_cert_reqs=none", want: addrs("h:6379")},
		{url: "rediss://h?ssl_cert_reqs=required&ssl_check_hostname=true", want: addrs("h:6379"), tls: true},
		{url: "redis+cluster://a:1,b:2", kind: cluster, want: addrs("a:1", "b:2")},
		{url: "rediss+cluster://a:1", kind: cluster, want: addrs("a:1"), tls: true},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			got, err := Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			// go-redis takes an address that begins with a slash for a socket.
			if socket := strings.HasPrefix(got.opts.Addrs[0], "/"); socket != strings.HasPrefix(tt.url, "unix") {
				t.Errorf("address %q", got.opts.Addrs)
			}
			if got.kind != tt.kind || (got.tls != nil) != tt.tls {
				t.Errorf("kind %d, TLS %v", got.kind, got.tls != nil)
			}
			if !reflect.DeepEqual(got.opts, tt.want) {
				t.Errorf("got %+v, want %+v", got.opts, tt.want)
			}
		})
	}
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
		"redis://user:hunter2@host\x00:1x", "rediss://user:hunter2@host?skip_verify=hunter2", "rediss://user:hunter2@host?skip_verify",
		"rediss://user:hunter2@host?ssl_cert_reqs=hunter2", "rediss://user:hunter2@host?ssl_check_hostname=false", "redis://user:hunter2@host?protocol=hunter2",
	}
	for _, raw := range bad {
		t.Run(raw, func(t *testing.T) {
			target, err := Parse(raw)
			if err == nil {
				t.Fatalf("accepted, addresses %q", target.opts.Addrs)
			}
			for _, secret := range []string{"hunter", "tail", "user", "notadb"} {
				if strings.Contains(strings.ReplaceAll(err.Error(), "a user but", ""), secret) {
					t.Errorf("message shows %q: %v", secret, err)
				}
			}
		})
	}
}

// timing is how long a client waits, and how often it tries.
type timing struct {
	dial, read, write time.Duration // 0: as long as the caller
	dials, repeats    int
	contexts          bool // the caller's deadlines count
}

// TestClientsGiveUpSoon, and repeat nothing: berth knows what may be repeated.
func TestClientsGiveUpSoon(t *testing.T) {
	want := timing{3 * time.Second, 3 * time.Second, 3 * time.Second, 1, 0, true}
	for _, raw := range []string{"redis://h", "rediss://h", "unix:///s", "redis+sentinel://h/m", "redis+cluster://h"} {
		target, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		var got timing
		rdb := target.Client()
		switch rdb := rdb.(type) {
		case *redis.Client:
			o := rdb.Options()
			got = timing{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, max(o.MaxRetries, 0), o.ContextTimeoutEnabled}
		case *redis.ClusterClient:
			o := rdb.Options()
			got = timing{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, max(o.MaxRetries, 0), o.ContextTimeoutEnabled}
			if o.ClusterStateReloadInterval != time.Second {
				t.Errorf("it leaves a dead master after %v", o.ClusterStateReloadInterval)
			}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
		if err := rdb.Close(); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestProcessOfThisMachineIsWaitedFor, as long as the caller does.
func TestProcessOfThisMachineIsWaitedFor(t *testing.T) {
	rdb := Through(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }).(*redis.Client)
	defer rdb.Close()
	o := rdb.Options()
	if o.ReadTimeout > 0 || o.WriteTimeout > 0 || o.DialTimeout < 24*time.Hour || !o.ContextTimeoutEnabled || o.MaxRetries > 0 {
		t.Errorf("time-outs %v, %v, %v, by contexts: %v, %d repetitions", o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled, o.MaxRetries)
	}
}
