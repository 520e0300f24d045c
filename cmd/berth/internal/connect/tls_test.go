package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// ping connects to url and says what a first command returns.
func ping(t *testing.T, url string) error {
	t.Helper()
	target, err := Parse(url)
	if err != nil {
		return err
	}
	rdb := target.Client()
	defer rdb.Close()
	return rdb.Ping(t.Context()).Err()
}

// TestTLS: certificates, authorities and names, by URL and by environment.
func TestTLS(t *testing.T) {
	server, addr, _ := redistest.StartTLS(t)
	dir := server.CertDir()
	_, port, _ := net.SplitHostPort(addr)
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, cert, key := "ca_file="+file("ca.pem"), "cert_file="+file("cert.pem"), "key_file="+file("key.pem")
	full := strings.Join([]string{ca, cert, key}, "&")
	plain := redistest.Start(t, redistest.WithTCP())
	const handshake = "no TLS handshake within"
	for name, test := range map[string]struct {
		url  string
		env  map[string]string
		want string // in the error; empty: it works
	}{
		"by URL": {url: "rediss://" + addr + "?" + full},
		"by environment": {url: "rediss://" + addr, env: map[string]string{
			"CA_FILE": file("ca.pem"), "CERT_FILE": file("cert.pem"), "KEY_FILE": file("key.pem"),
		}},
		"by both":       {url: "rediss://" + addr + "?" + ca + "&" + cert, env: map[string]string{"CA_FILE": "/nowhere", "KEY_FILE": file("key.pem")}},
		"other name":    {url: "rediss://localhost:" + port + "?" + full, want: "server_name"},
		"named":         {url: "rediss://localhost:" + port + "?server_name=127.0.0.1&" + full},
		"named outside": {url: "rediss://localhost:" + port + "?" + full, env: map[string]string{"SERVER_NAME": "127.0.0.1"}},
		"unknown":       {url: "rediss://" + addr, want: "ca_file"},
		"trusting":      {url: "rediss://" + addr + "?skip_verify=1&" + cert + "&" + key},
		"no client":     {url: "rediss://" + addr + "?" + ca, want: "cert_file and key_file"},
		"no TLS there":  {url: "rediss://" + speaker(t, "-ERR what?\r\n", true) + "?" + full, want: "does not speak TLS"},
		"plain there":   {url: "rediss://" + plain.Addr() + "?" + full, want: "does not speak TLS: write redis instead of rediss"},
		"silence there": {url: "rediss://" + silent(t) + "?" + full, want: "no TLS handshake within 3s"},
		"no TLS here":   {url: "redis://" + addr, want: "wants TLS"},
		"not for plain": {url: "redis://" + plain.Addr(), env: map[string]string{"CA_FILE": "/nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range test.env {
				t.Setenv("BERTH_TLS_"+variable, value)
			}
			err := ping(t, test.url)
			// A machine that does much else may be too slow for a handshake.
			for range 5 {
				if err == nil || !strings.Contains(err.Error(), handshake) || strings.Contains(test.want, handshake) {
					break
				}
				err = ping(t, test.url)
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

// TestFullServerWithTLS: Redis cannot tell a client over TLS that it has too many, so berth does.
func TestFullServerWithTLS(t *testing.T) {
	server, addr, _ := redistest.StartTLS(t, redistest.WithConfig("maxclients 1"))
	if err := server.Client(t).Ping(t.Context()).Err(); err != nil { // the one
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(server.CertDir(), name) }
	url := "rediss://" + addr + "?ca_file=" + file("ca.pem") + "&cert_file=" + file("cert.pem") + "&key_file=" + file("key.pem")
	for range 3 {
		if err := ping(t, url); err == nil || !strings.Contains(err.Error(), "maxclients") {
			t.Errorf("%v", err)
		}
	}
}

// TestTLSFiles: each problem with a file is one sentence, which names the setting
// and not what it holds.
func TestTLSFiles(t *testing.T) {
	server, _, _ := redistest.StartTLS(t)
	dir := server.CertDir()
	other, _, _ := redistest.StartTLS(t)
	empty := filepath.Join(t.TempDir(), "hunter2")
	if err := os.WriteFile(empty, []byte("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, test := range map[string]struct{ options, env, want string }{
		"no file":       {"ca_file=/nowhere/hunter2", "", "its ca_file names a file that cannot be read: no such file or directory"},
		"a directory":   {"ca_file=" + dir, "", "its ca_file names a file that cannot be read: is a directory"},
		"no authority":  {"ca_file=" + empty, "", "its ca_file names a file without a certificate in PEM form"},
		"outside":       {"", "CA_FILE=/nowhere/hunter2", "$BERTH_TLS_CA_FILE names a file that cannot be read: no such file or directory"},
		"no key":        {"cert_file=" + cert, "", "set its cert_file and $BERTH_TLS_KEY_FILE"},
		"no cert":       {"key_file=" + key, "", "set $BERTH_TLS_CERT_FILE and its key_file"},
		"not a key":     {"cert_file=" + cert + "&key_file=" + empty, "", "the files of its cert_file and its key_file are not a pair"},
		"another's key": {"cert_file=" + cert + "&key_file=" + filepath.Join(other.CertDir(), "key.pem"), "", "private key does not match"},
		"no such key":   {"cert_file=" + cert + "&key_file=/nowhere/hunter2", "", "its key_file names a file that cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			if variable, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv("BERTH_TLS_"+variable, value)
			}
			_, err := Parse("rediss://h?" + test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	for _, url := range []string{"redis://h?ca_file=" + cert, "unix:///s?cert_file=" + cert} {
		if _, err := Parse(url); err == nil || !strings.Contains(err.Error(), "with TLS (rediss…://) ca_file") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// speaker is a server that says one thing to all who come, and hangs up: at once,
// or once it has been asked.
func speaker(t *testing.T, text string, asked bool) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if asked {
				_, _ = conn.Read(make([]byte, 1024))
			}
			fmt.Fprint(conn, text)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// silent is a server that accepts connections, and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestOnlyAnotherURLHelps where the server speaks without TLS, or wants a certificate: that is
// final, and nobody asks again.
func TestOnlyAnotherURLHelps(t *testing.T) {
	server, secure, _ := redistest.StartTLS(t)
	plain := redistest.Start(t, redistest.WithTCP())
	ca := "?ca_file=" + filepath.Join(server.CertDir(), "ca.pem")
	for name, url := range map[string]string{
		"a Redis without TLS": "rediss://" + plain.Addr() + ca,
		"an answer in plain":  "rediss://" + speaker(t, "-ERR what?\r\n", true) + ca,
		"no certificate":      "rediss://" + secure + ca,
	} {
		if err := ping(t, url); !redis.HasErrorPrefix(err, "") {
			t.Errorf("%s: berth asks again after %v", name, err)
		}
	}
}

// TestServersOwnWords reach the user when the server lets nobody in.
func TestServersOwnWords(t *testing.T) {
	const protected = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
		"In this mode connections are only accepted from the loopback interface."
	const advice = " If you want to connect from external computers to Redis you may adopt one of the following solutions: " +
		"1) Just disable protected mode sending the command 'CONFIG SET protected-mode no'"
	for name, test := range map[string]struct{ text, want string }{
		"protected mode": {"-" + protected + advice + "\r\n", protected},
		"too many":       {"-ERR max number of clients reached\r\n", "ERR max number of clients reached"},
		"long word":      {"-ERR " + strings.Repeat("x", 1000) + "\r\n", "ERR " + strings.Repeat("x", mostWords-4) + "…"},
		"HTTP":           {"HTTP/1.1 400 Bad Request\r\n\r\n", `what answers there is not Redis: it begins with "HTTP/1.1 400 Bad Request"`},
		"garbage":        {"\x00\x01\x1b[2J", `what answers there is not Redis: it begins with "\x00\x01\x1b[2J"`},
	} {
		for _, asked := range []bool{false, true} {
			err := ping(t, "redis://"+speaker(t, test.text, asked))
			if err == nil || err.Error() != test.want {
				t.Errorf("%s, asked %v: %v", name, asked, err)
			}
			if refused := redis.Error(nil); !errors.As(err, &refused) {
				t.Errorf("%s, asked %v: berth will ask again after %T", name, asked, err)
			}
		}
	}
	if err := ping(t, "redis://"+speaker(t, "", false)); err == nil || redis.HasErrorPrefix(err, "") {
		t.Errorf("a server without words: %v", err)
	}
}

// TestOldWordsAreForgotten: an error that was an answer is not why a connection
// ends later.
func TestOldWordsAreForgotten(t *testing.T) {
	server := redistest.Start(t, redistest.WithConfig("requirepass secret"))
	target, err := Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := target.dial(context.Background(), "unix", server.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 100)
	for _, command := range []string{"PING\r\n", "AUTH secret\r\n", "NOSUCH\r\n"} {
		fmt.Fprint(conn, command)
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if _, err := conn.Read(answer); err == nil || redis.HasErrorPrefix(err, "") {
		t.Errorf("%v", err)
	}
}
