package connect

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// FuzzParse feeds URLs with a password in a place that was not meant for it.
// An error must not show it, nor anything that rearranges a screen; what is
// accepted must be something that can be dialled.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"redis://u:SECRET@h:1/2", "redis://:SECRET@", "rediss://u:SECRET@h?skip_verify=1", "unix://:SECRET@/s?db=3",
		"redis+sentinel://u:SECRET@a,b:2/m/3?sentinel_password=SECRET", "redis+cluster://u:SECRET@a,b:2",
		"rediss://u:p@h?ca_file=SECRET", "rediss://h?cert_file=SECRET&key_file=SECRET", "rediss://h?server_name=SECRET",
		"redis://u:SECRET@h:port", "redis://u:SECRET@h:99999", "redis://SECRET@h", "redis://u:SECRET#x@h", "redis://u:%zzSECRET@h",
		"redis://u:SECRET@[::1", "redis://u:SECRET@h/SECRET", "redis://h?SECRET=1", "SECRET", "http://u:SECRET@h", "redis://u:SECRET\x1b[2J@h:x",
	} {
		f.Add(strings.ReplaceAll(s, "SECRET", "\x00"), "hunter2")
	}
	f.Fuzz(func(t *testing.T, form, secret string) {
		secret = "hunter2" + secret
		raw := strings.ReplaceAll(form, "\x00", secret)
		target, err := Parse(raw)
		if err == nil {
			checkTarget(t, target)
			return
		}
		if text := err.Error(); strings.Contains(text, "hunter2") || strings.ContainsFunc(text, unicode.IsControl) {
			t.Fatalf("%q: error %q", raw, text)
		}
	})
}

func checkTarget(t *testing.T, target *Target) {
	t.Helper()
	if len(target.opts.Addrs) == 0 || target.opts.DB < 0 || target.kind == sentinel && target.opts.MasterName == "" {
		t.Fatalf("addresses %q, database %d, master %q", target.opts.Addrs, target.opts.DB, target.opts.MasterName)
	}
	for _, addr := range target.opts.Addrs {
		if len(addr) > 1 && addr[0] == '/' {
			continue // a socket
		}
		host, port, err := net.SplitHostPort(addr)
		if n, _ := strconv.Atoi(port); err != nil || host == "" || n < 1 || n > 65535 {
			t.Fatalf("address %q: %v", addr, err)
		}
	}
	if err := target.Client().Close(); err != nil {
		t.Fatal(err)
	}
}
