package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/testkit/redisserver"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// berth runs the program and returns its exit code and standard error.
func berth(url string, args ...string) (int, string) {
	cmd := exec.Command("berth", args...)
	cmd.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "GORACE=atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return exitCode(cmd.Run()), stderr.String()
}

// served is berth on a Redis that serves it, if not always in time.
func served(url string, args ...string) (code int, stderr string) {
	patiently(func() (bool, string) {
		code, stderr = berth(url, args...)
		return code == 0, stderr
	})
	return code, stderr
}

// Whatever answers in Redis's place, berth says that Redis cannot be used, soon
// and without the password.
func TestStrangeServers(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"silent":      "",
		"hangs up":    "close",
		"http":        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
		"tls":         "\x15\x03\x01\x00\x02\x02\x0a",
		"garbage":     "\x00\xff\xfe garbage\r\n",
		"huge bulk":   "$1073741824\r\n",
		"wrong reply": "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
	}
	for name, greeting := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "redis://user:hunter2@" + strange(t, greeting)
			for _, args := range [][]string{{"ls"}, {"run", "--no-wait", "s", "--", "true"}, {"run", "s", "--", "true"}} {
				strange := name == "http" && args[0] == "run"
				var code int
				var stderr string
				patiently(func() (bool, string) {
					code, stderr = berth(url, args...)
					return !strange || strings.Contains(stderr, "is not Redis"), stderr
				})
				if strange && !strings.Contains(stderr, "is not Redis") {
					t.Errorf("berth %v: %s", args, stderr)
				}
				if code != 69 || strings.Contains(stderr, "hunter2") || strings.Count(stderr, "\n") != 1 {
					t.Errorf("berth %v: exit code %d, want 69 with one line: %s", args, code, stderr)
				}
			}
		})
	}
}

// strange listens, and says the same to everybody.
func strange(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
			t.Cleanup(func() { conn.Close() })
			if greeting == "close" {
				conn.Close()
				continue
			}
			_, _ = conn.Write([]byte(greeting))
		}
	}()
	return l.Addr().String()
}

// A server that does not let us in, or do anything.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig(
		"user default on >secret ~* &* +@all", "user poor on >hunter2 -@all"))
	for name, url := range map[string]string{
		"no password":    server.URL(),
		"wrong password": strings.Replace(server.URL(), "unix://", "unix://:hunter2@", 1),
		"no rights":      strings.Replace(server.URL(), "unix://", "unix://poor:hunter2@", 1),
		"no database":    strings.Replace(server.URL(), "unix://", "unix://:secret@", 1) + "?db=99",
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"ls"}, {"run", "--no-wait", "s", "--", "true"}, {"run", "-w", "1m", "s", "--", "true"}} {
				code, stderr := berth(url, args...)
				if code != 69 || strings.Contains(stderr, "hunter2") || strings.Contains(stderr, "secret") || strings.Count(stderr, "\n") != 1 {
					t.Errorf("berth %v: exit code %d, want 69 with one line: %s", args, code, stderr)
				}
			}
		})
	}
}

// An error of Redis names the server and where its URL comes from, and says what
// to do where the URL is of the wrong kind.
func TestErrorsNameTheServer(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("user berth on >hunter2 ~* &* +@all", "user poor on >hunter4 ~* &* +@all -time -scan"))
	_, port, _ := net.SplitHostPort(plain.Addr())
	sentinel := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("sentinel monitor main 127.0.0.1 "+port+" 1"),
		func(c *redisserver.Config) { c.Args = append(c.Args, "--sentinel") })
	for name, test := range map[string]struct{ url, where, want string }{
		"nobody":         {"redis://u:hunter2@127.0.0.1:1", "127.0.0.1:1", "connection refused"},
		"wrong password": {"redis://berth:hunter3@" + plain.Addr(), plain.Addr(), "check user and password in the URL"},
		"no right":       {"redis://poor:hunter4@" + plain.Addr(), plain.Addr(), `"berth doctor" names the rights that are missing`},
		"no TLS there":   {"rediss://" + plain.Addr(), plain.Addr(), "the server does not speak TLS: write redis instead of rediss"},
		"no Cluster":     {"redis+cluster://" + plain.Addr(), plain.Addr(), "it is not a Cluster: use redis://"},
		"no sentinel":    {"redis+sentinel://" + plain.Addr() + "/main", plain.Addr(), "it is not a sentinel: use redis://"},
		"a sentinel":     {"redis://" + sentinel.Addr(), sentinel.Addr(), "this is a sentinel: use redis+sentinel://" + sentinel.Addr() + "/main"},
		"wrong master":   {"redis+sentinel://" + sentinel.Addr() + "/nomaster", sentinel.Addr(), `berth: the sentinels know no master "nomaster"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"ls"}, {"run", "--no-wait", "s", "--", "true"}} {
				var code int
				var stderr string
				patiently(func() (bool, string) {
					code, stderr = berth(test.url, args...)
					return strings.Contains(stderr, test.want), stderr
				})
				where := "(" + test.where + ", from $BERTH_REDIS_URL)\n"
				if code != 69 || !strings.Contains(stderr, test.want) || !strings.HasSuffix(stderr, where) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "hunter") {
					t.Errorf("berth %v: exit code %d: %s", args, code, stderr)
				}
			}
		})
	}
}

// TestDoctorKnowsASentinel, which answers a PING as a server does.
func TestDoctorKnowsASentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("sentinel monitor main 127.0.0.1 1 1"),
		func(c *redisserver.Config) { c.Args = append(c.Args, "--sentinel") })
	code, stderr := berth("redis://"+sentinel.Addr(), "doctor")
	want := "use redis+sentinel://" + sentinel.Addr() + "/main (" + sentinel.Addr() + ", from $BERTH_REDIS_URL)\n"
	if code != 69 || !strings.HasPrefix(stderr, "berth: redis cannot be examined: this is a sentinel, and not one of the servers that it watches: ") || !strings.HasSuffix(stderr, want) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestFinalAnswersEndAWait without a bound: it is of no use to ask again, and the text says what to do.
func TestFinalAnswersEndAWait(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.WithTCP())
	down := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf"))
	for name, test := range map[string]struct{ url, want string }{
		"a Cluster that is down":   {"redis+cluster://" + down.Addr(), "CLUSTERDOWN Hash slot not served: a part of the Cluster has no master"},
		"a Cluster's node":         {"redis://" + down.Addr(), "a part of the Cluster has no master"},
		"no such database":         {"redis://" + plain.Addr() + "/99", "the server has no database of that number"},
		"TLS, where there is none": {"rediss://" + plain.Addr(), "the server does not speak TLS: write redis instead of rediss"},
		"TLS to a Cluster without": {"rediss+cluster://" + down.Addr(), "the server does not speak TLS: write redis instead of rediss"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var code int
			var stderr string
			patiently(func() (bool, string) {
				code, stderr = berth(test.url, "run", "s", "--", "true")
				return strings.Contains(stderr, test.want), stderr
			})
			if code != 69 || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}

// What the doctor is not allowed to do is in its report, and nowhere else.
func TestDoctorReportsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("user poor on >hunter2 ~* -@all +ping +eval +evalsha +del"))
	url := strings.Replace(server.URL(), "unix://", "unix://poor:hunter2@", 1)
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}} {
		if _, stderr := berth(url, args...); stderr != "" {
			t.Errorf("berth %v says beside its report: %s", args, stderr)
		}
	}
}

// A damaged semaphore is left out by a pattern that matches it, in the way of no other, and
// purged by its name.
func TestDamagedSemaphore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	server.Do(t, "HSET", "berth:{bad}", "state", "garbage")
	if code, stderr := served(url, "pin", "--create", "good", "3"); code != 0 {
		t.Fatal(stderr)
	}
	for pattern, want := range map[string]int{"*": 70, "b*": 70, "g*": 0} {
		code, stderr := served(url, "pause", "--yes", pattern)
		if code != want || (want != 0) != strings.Contains(stderr, `berth: left out: stored state is not berth's: semaphore "bad"`) {
			t.Errorf("pause %s: exit code %d: %s", pattern, code, stderr)
		}
		if stdout, _ := servedOutputs(url, "show", "good"); pattern != "b*" && !strings.Contains(stdout, "paused") {
			t.Errorf("pause %s: %s", pattern, stdout)
		}
		served(url, "resume", "good")
	}
	for _, args := range [][]string{{"pause", "bad"}, {"show", "bad"}, {"ls"}, {"run", "bad", "--", "true"}, {"acquire", "--no-wait", "bad"}} {
		if code, stderr := served(url, args...); code != 70 {
			t.Errorf("%v: exit code %d, want 70: %s", args, code, stderr)
		}
	}
	if stdout, stderr := servedOutputs(url, "purge", "--yes", "bad", "bad"); stdout != "bad: damaged → deleted\n" || stderr != "" {
		t.Errorf("purge: %s%s", stdout, stderr)
	}
}

// What a newer berth wrote is in order, and in use: a pattern that should have stopped it fails,
// and purge leaves it alone.
func TestNewerSemaphoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	server.Do(t, "HSET", "berth:{newer}", "state", "4 x")
	for _, args := range [][]string{{"pin", "--yes", "*", "0"}, {"evict", "--yes", "--label", "x", "*"}, {"purge", "--yes", "newer"}} {
		if code, stderr := served(url, args...); code != 70 || !strings.Contains(stderr, "upgrade this client") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	if n := server.Do(t, "EXISTS", "berth:{newer}"); n != int64(1) {
		t.Errorf("it is gone: %v", n)
	}
}
