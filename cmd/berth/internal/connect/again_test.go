package connect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redisserver"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestPasswordIsReadAgain for each new connection; what cannot be read is as it was.
func TestPasswordIsReadAgain(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, redistest.WithTCP())
	admin := server.Client(t)
	url := "redis://app:old@" + server.Addr()
	target, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	target.ReadAgain(func() (string, error) {
		if url == "" {
			return "", os.ErrNotExist
		}
		return url, nil
	})
	rdb := target.Client()
	defer rdb.Close()
	for _, step := range []struct{ password, url, want string }{
		{"old", url, ""},
		{"new", url, "WRONGPASS"},
		{"new", "redis://app:new@" + server.Addr(), ""},
		{"new", "", ""},
		{"new", "half a URL", ""},
		{"new", "rediss://app:another@" + server.Addr(), ""}, // it may be half-written, too
		{"newer", "redis://app:newer@elsewhere", ""},         // where the server is remains
	} {
		if err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", "resetpass", ">"+step.password, "~*", "&*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(ctx, "CLIENT", "KILL", "USER", "app").Err(); err != nil {
			t.Fatal(err)
		}
		url = step.url
		err := rdb.Ping(ctx).Err()
		for err != nil && !redis.HasErrorPrefix(err, "") { // it was of a connection that was killed
			err = rdb.Ping(ctx).Err()
		}
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("password %s, URL %q: %v, want %q", step.password, step.url, err, step.want)
		}
	}
}

// TestSentinelsPasswordIsReadAgain when a connection needs to know the master.
func TestSentinelsPasswordIsReadAgain(t *testing.T) {
	ctx := context.Background()
	master := redistest.Start(t, redistest.WithTCP())
	sentinel := redistest.Start(t, redistest.WithTCP(),
		func(c *redisserver.Config) { c.Args = append(c.Args, "--sentinel") },
		redistest.WithConfig(fmt.Sprintf("sentinel monitor berth 127.0.0.1 %d 1", master.Port())))
	urlWith := func(password string) string {
		return "redis+sentinel://" + sentinel.Addr() + "/berth?sentinel_username=app&sentinel_password=" + password
	}
	url := urlWith("old")
	target, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	target.ReadAgain(func() (string, error) { return url, nil })
	rdb := target.Client()
	defer rdb.Close()
	for _, step := range []struct {
		password, inURL, want string
	}{{"old", "old", ""}, {"new", "old", "WRONGPASS"}, {"new", "new", ""}} {
		sentinel.Do(t, "ACL", "SETUSER", "app", "on", "resetpass", ">"+step.password, "~*", "&*", "+@all")
		sentinel.Do(t, "CLIENT", "KILL", "USER", "app")
		master.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		url = urlWith(step.inURL)
		err := rdb.Ping(ctx).Err()
		for try := 0; try < 10 && err != nil && !strings.Contains(err.Error(), "WRONGPASS"); try++ { // of a connection that was killed
			err = rdb.Ping(ctx).Err()
		}
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("password %s, in the URL %s: %v, want %q", step.password, step.inURL, err, step.want)
		}
	}
}

// TestCertificateIsReadAgain for each new connection.
func TestCertificateIsReadAgain(t *testing.T) {
	server, addr, _ := redistest.StartTLS(t)
	other, _, _ := redistest.StartTLS(t)
	dir := t.TempDir()
	write := func(from string) {
		t.Helper()
		for _, name := range []string{"cert.pem", "key.pem"} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(other.CertDir())
	url := "rediss://" + addr + "?ca_file=" + server.CertDir() + "/ca.pem&cert_file=" + dir + "/cert.pem&key_file=" + dir + "/key.pem"
	target, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	target.ReadAgain(func() (string, error) { return url, nil })
	rdb := target.Client()
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a certificate of another authority is accepted")
	}
	write(server.CertDir())
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// TestOneReadMakesAConnection: who asks the sentinels for the master does not read for its certificate
// again.
func TestOneReadMakesAConnection(t *testing.T) {
	server, addr, _ := redistest.StartTLS(t)
	url := "rediss+sentinel://" + addr + "/berth?ca_file=" + server.CertDir() + "/ca.pem&cert_file=" + server.CertDir() + "/cert.pem&key_file=" + server.CertDir() + "/key.pem"
	target, err := Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	target.ReadAgain(func() (string, error) {
		reads++
		return url, nil
	})
	hook := &askSentinels{target: target, options: &redis.FailoverOptions{}}
	conn, err := hook.DialHook(target.dial)(t.Context(), "tcp", addr)
	if err != nil || reads != 1 {
		t.Fatalf("%d reads: %v", reads, err)
	}
	_ = conn.Close()
}
