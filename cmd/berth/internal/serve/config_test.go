package serve

import (
	"os"
	"strings"
	"testing"
)

// TestRefusesToStartOpen, or with what makes no sense.
func TestRefusesToStartOpen(t *testing.T) {
	t.Parallel()
	private := secretFile(t, "x")
	readable := secretFile(t, "x")
	if err := os.Chmod(readable, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		cfg  Config
		want string // in the error; "": it starts
	}{
		{"the default", Config{}, ""},
		{"the other loopback address", Config{Listen: "[::1]:80"}, ""},
		{"localhost", Config{Listen: "localhost:0"}, ""},
		{"another address", Config{Listen: "192.0.2.1:80"}, "open to others"},
		{"all addresses", Config{Listen: ":7357"}, "open to others"},
		{"all addresses, written out", Config{Listen: "0.0.0.0:7357"}, "open to others"},
		{"all addresses of IPv6", Config{Listen: "[::]:7357"}, "open to others"},
		{"a name", Config{Listen: "ops.example:80"}, "open to others"},
		{"another address, with TLS alone", Config{Listen: ":80", Cert: private, Key: private}, "open to others"},
		{"another address, with a proxy alone", Config{Listen: ":80", BehindTLSProxy: true}, "open to others"},
		{"passwords in plain text", Config{Listen: ":80", AuthFile: private}, "plain text"},
		{"passwords in plain text here", Config{AuthFile: private}, "plain text"},
		{"tokens in plain text", Config{Listen: ":80", TokenFile: private}, "plain text"},
		{"passwords and TLS", Config{Listen: ":80", AuthFile: private, Cert: private, Key: private}, ""},
		{"passwords behind a proxy", Config{Listen: ":80", AuthFile: private, BehindTLSProxy: true}, ""},
		{"a header that everybody can send", Config{UserHeader: "X-User", BehindTLSProxy: true}, "--trusted-proxy"},
		{"a header of a proxy", Config{Listen: ":80", UserHeader: "X-User", TrustedProxies: []string{"10.0.0.1"}, BehindTLSProxy: true}, ""},
		{"a header that is none", Config{UserHeader: "X User", TrustedProxies: []string{"10.0.0.1"}, BehindTLSProxy: true}, "name of a header"},
		{"a proxy that is none", Config{UserHeader: "X-User", TrustedProxies: []string{"10.0.0.0/99"}, BehindTLSProxy: true}, "not a network"},
		{"a certificate alone", Config{Cert: private}, "go together"},
		{"users whom others can read", Config{AuthFile: readable, BehindTLSProxy: true}, "chmod 600"},
		{"tokens whom others can read", Config{TokenFile: readable, BehindTLSProxy: true}, "chmod 600"},
		{"a key that others can read", Config{Cert: private, Key: readable}, "chmod 600"},
		{"users who are not there", Config{AuthFile: private + "x", BehindTLSProxy: true}, "no such file"},
		{"no address", Config{Listen: "7357"}, "ADDRESS:PORT"},
		{"no address for metrics", Config{MetricsListen: "9357"}, "--metrics-listen"},
		{"a path that is none", Config{BasePath: "berth"}, "--base-path"},
		{"a path upwards", Config{BasePath: "/a b"}, "--base-path"},
		{"a path", Config{BasePath: "/ops/berth/"}, ""},
	} {
		if c.cfg.Listen == "" {
			c.cfg.Listen = "127.0.0.1:7357"
		}
		err := c.cfg.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
		}
	}
}
