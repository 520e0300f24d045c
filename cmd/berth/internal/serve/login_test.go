package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// secretFile writes a file that nobody else may read.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// cheap makes a line of an auth file with the fewest iterations that are taken.
func cheap(t *testing.T, name, password, role string) string {
	t.Helper()
	line, err := hashed(name, password, role, leastIterations)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// door is a login with what is behind it, which says who has come in.
type door struct {
	*testing.T
	*login
	now  time.Time
	next http.Handler
}

const programToken = "0123456789abcdefghij"

func newDoor(t *testing.T, change func(*Config)) *door {
	t.Helper()
	cfg := Config{
		AuthFile:  secretFile(t, "# users\n"+cheap(t, "ann", "correct horse", "operate")+"\n"+cheap(t, "bob", "s:e:c:r:e:t ü", "view")+"\n"),
		TokenFile: secretFile(t, "robot:"+programToken+":operate\n"), AllowWrite: true,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := newLogin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{T: t, login: l, now: time.Unix(1_790_000_000, 0)}
	l.now = func() time.Time { return d.now }
	d.next = l.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, may := l.User(r)
		fmt.Fprint(w, name, " ", may)
	}))
	return d
}

// knock is a request from an address.
func (d *door) knock(from string, set ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from + ":1234"
	if strings.Contains(from, ":") {
		r.RemoteAddr = "[" + from + "]:1234"
	}
	for i := 0; i+1 < len(set); i += 2 {
		if set[i] == "basic" {
			name, password, _ := strings.Cut(set[i+1], " ")
			r.SetBasicAuth(name, password)
			continue
		}
		r.Header.Add(set[i], set[i+1])
	}
	rec := httptest.NewRecorder()
	d.next.ServeHTTP(rec, r)
	return rec
}

func (d *door) wants(rec *httptest.ResponseRecorder, status int, body string) {
	d.Helper()
	if rec.Code != status || body != "" && rec.Body.String() != body {
		d.Errorf("status %d, %q, want %d, %q", rec.Code, rec.Body, status, body)
	}
}

func TestWhoComesIn(t *testing.T) {
	t.Parallel()
	d := newDoor(t, nil)
	d.wants(d.knock("192.0.2.1", "basic", "ann correct horse"), 200, "ann@192.0.2.1 true")
	d.wants(d.knock("192.0.2.2", "basic", "ann correct horse"), 200, "ann@192.0.2.2 true") // remembered
	d.wants(d.knock("2001:db8::1", "basic", "bob s:e:c:r:e:t ü"), 200, "bob@2001:db8::1 false")
	d.wants(d.knock("192.0.2.1", "Authorization", "bearer "+programToken), 200, "robot@192.0.2.1 true")
	for i, set := range [][]string{
		nil,
		{"basic", "ann correct"},
		{"basic", "ann "},
		{"basic", "bob correct horse"},
		{"basic", "nobody correct horse"},
		{"basic", " "},
		{"Authorization", "Basic !!!"},
		{"Authorization", "Basic"},
		{"Authorization", "Bearer " + programToken[1:]},
		{"Authorization", "Bearer "},
		{"Authorization", "Digest username=ann"},
		{"X-User", "ann"},
		{"X-Forwarded-User", "ann"},
		{"Cookie", "user=ann"},
	} {
		rec := d.knock(fmt.Sprint("198.51.100.", i+1), set...)
		d.wants(rec, 401, "Log in first.\n")
		if !strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Basic realm=") {
			t.Errorf("%q: headers %v", set, rec.Header())
		}
	}
	d = newDoor(t, func(c *Config) { c.AllowWrite = false })
	d.wants(d.knock("192.0.2.1", "basic", "ann correct horse"), 200, "ann@192.0.2.1 false")
	d = newDoor(t, func(c *Config) { c.AuthFile = "" })
	if rec := d.knock("192.0.2.1", "basic", "ann correct horse"); rec.Code != 401 || rec.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("without passwords: %d %v", rec.Code, rec.Header())
	}
}

// TestNoLogin is for this machine alone: who looks has no name, and may do what is allowed.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(c *Config) { *c = Config{} })
	d.wants(d.knock("127.0.0.1"), 200, "web@127.0.0.1 false")
	d = newDoor(t, func(c *Config) { *c = Config{AllowWrite: true} })
	d.wants(d.knock("127.0.0.1"), 200, "web@127.0.0.1 true")
}

// TestProxyNamesTheUser only where it is one of ours, and once.
func TestProxyNamesTheUser(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(c *Config) {
		*c = Config{UserHeader: "X-User", TrustedProxies: []string{"10.0.0.0/8", "::1"}, AllowWrite: true}
	})
	d.wants(d.knock("10.1.2.3", "X-User", "ann"), 200, "ann@10.1.2.3 true")
	d.wants(d.knock("::1", "X-User", "ann@example.com"), 200, "ann@example.com@::1 true")
	d.wants(d.knock("::ffff:10.1.2.3", "X-User", "ann"), 200, "ann@10.1.2.3 true")
	d.wants(d.knock("10.1.2.3", "X-User", "ann", "X-Forwarded-For", "203.0.113.1, 192.0.2.7, 10.9.9.9"), 200, "ann@192.0.2.7 true")
	d.wants(d.knock("10.1.2.3", "X-User", "ann", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-For", "junk"), 200, "ann@10.1.2.3 true")
	for _, set := range [][]string{{"X-User", "ann", "X-User", "bob"}, {"X-User", ""}, {"X-User", "ann\x1b[2J"}, {"X-User", strings.Repeat("x", 65)}, {}} {
		d.wants(d.knock("10.1.2.3", set...), 401, "")
	}
	d.wants(d.knock("11.1.2.3", "X-User", "ann"), 401, "")
	d.wants(d.knock("192.0.2.1", "X-User", "ann", "X-Forwarded-For", "10.1.2.3"), 401, "")
}

// TestWrongPasswordsAreSlowed for each address: after ten in a minute also the right one is not
// looked at.
func TestWrongPasswordsAreSlowed(t *testing.T) {
	t.Parallel()
	d := newDoor(t, nil)
	d.wants(d.knock("192.0.2.1", "basic", "ann correct horse"), 200, "")
	for range mostFailures - 1 {
		d.wants(d.knock("192.0.2.1", "Authorization", "Bearer wrong"), 401, "")
	}
	d.wants(d.knock("192.0.2.1", "Authorization", "Bearer wrong"), 429, "")
	rec := d.knock("192.0.2.1", "basic", "ann correct horse")
	if d.wants(rec, 429, ""); rec.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	d.wants(d.knock("192.0.2.2", "basic", "ann correct horse"), 200, "")
	d.now = d.now.Add(failureSpan)
	d.wants(d.knock("192.0.2.1", "basic", "ann correct horse"), 200, "")
	for i := range mostFailures {
		d.knock(fmt.Sprintf("2001:db8:1:2::%x", i), "Authorization", "Bearer wrong")
	}
	d.wants(d.knock("2001:db8:1:2:3::", "basic", "ann correct horse"), 429, "") // who has one of a /64 has all
	d.wants(d.knock("2001:db8:1:3::", "basic", "ann correct horse"), 200, "")
	for range 3 * mostFailures {
		d.wants(d.knock("192.0.2.3"), 401, "") // a browser that has not asked its user yet
	}
	for i := range 2 * mostAddresses {
		d.knock(fmt.Sprintf("2001:db8:%x::1", i), "Authorization", "Bearer wrong")
	}
	if n := len(d.failures); n > mostAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

// TestWrongPasswordsAtOnceAreSlowed: also those that came before the first was counted.
func TestWrongPasswordsAtOnceAreSlowed(t *testing.T) {
	t.Parallel()
	d := newDoor(t, nil)
	synctest.Test(t, func(t *testing.T) {
		d.checking = make(chan struct{}, 1)
		d.checking <- struct{}{} // somebody else's password is being checked
		for range mostFailures {
			go d.knock("192.0.2.1", "basic", "ann wrong")
		}
		synctest.Wait()
		go func() { d.wants(d.knock("192.0.2.1", "basic", "ann correct horse"), 429, "") }()
		synctest.Wait()
		<-d.checking
		synctest.Wait()
		if n := d.failures[netip.MustParseAddr("192.0.2.1")].count; n != mostFailures {
			t.Errorf("%d failures are counted", n)
		}
	})
}

// TestSecretFiles: what is wrong with one is said by the number of the entry, without what is
// in it.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	good := cheap(t, "ann", "hunter2", "view")
	for _, text := range []string{
		"", "# nobody\n", "ann", "ann:hunter2:view", strings.Replace(good, ":view", ":root", 1), strings.Replace(good, "100000", "1000", 1),
		strings.Replace(good, "100000", "99999999999", 1), strings.Replace(good, "pbkdf2-sha256", "md5", 1), "a b" + good, good[:len(good)-12] + ":view", good + ":more",
	} {
		_, err := readAccounts(secretFile(t, text))
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "$") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	for _, text := range []string{"", "x", "robot:short:view", "robot:" + programToken, "robot:" + programToken + ":root", "r b:" + programToken + ":view"} {
		if _, err := readTokens(secretFile(t, text)); err == nil || strings.Contains(err.Error(), programToken) || strings.Contains(err.Error(), "short:") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	a, errA := Hash("ann", "pass", "operate")
	b, errB := Hash("ann", "pass", "operate")
	account, ok := readAccount(a)
	if errA != nil || errB != nil || a == b || !ok || !account.operate || account.iterations != iterations || !account.knows("pass") || account.knows("Pass") {
		t.Errorf("%q, %q, %v, %v", a, b, errA, errB)
	}
	for _, c := range [][3]string{{"a:b", "pass", "view"}, {"", "pass", "view"}, {"ann", "", "view"}, {"ann", "pass", "root"}} {
		if line, err := Hash(c[0], c[1], c[2]); err == nil {
			t.Errorf("%q makes %q", c, line)
		}
	}
}
