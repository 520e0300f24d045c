package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestMain lets the test binary be a process of a scenario.
func TestMain(m *testing.M) {
	if role, _ := child.Role(); role != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	redistest.Main(m)
}

// tiny is enough to find a figure, and for nothing else.
func tiny() trial.Scale {
	return trial.Scale{
		Slice: 20 * time.Millisecond, Contended: 60 * time.Millisecond, Workers: []int{1, 4}, Crowd: []int{2, 20},
		Memory: 40, Processes: 2, Idle: 100 * time.Millisecond, Leases: 20, LeaseTTL: 3 * time.Second,
		Watch: 200 * time.Millisecond, Handoffs: 5,
		PoolTTL: 10 * time.Second, Elsewhere: 200 * time.Millisecond, Flow: time.Second,
	}
}

func parsed(t *testing.T, args ...string) *options {
	t.Helper()
	var stderr bytes.Buffer
	o, err := parse(args, &stderr)
	if err != nil {
		t.Fatalf("%v: %v %s", args, err, stderr.String())
	}
	o.scale = tiny()
	return o
}

// start runs a Redis that is reached as a user's is.
func start(t *testing.T) (s *redistest.Server, url string) {
	t.Helper()
	s = redistest.Start(t, redistest.WithTCP())
	return s, "redis://" + s.Addr()
}

func noKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	if keys := s.Do(t, "KEYS", "*"); len(keys.([]any)) > 0 {
		t.Errorf("keys are left: %v", keys)
	}
}

// read returns the names of what was measured.
func read(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := benchfmt.NewReader(f, file)
	for in.Scan() {
		res, ok := in.Result().(*benchfmt.Result)
		if !ok {
			t.Fatal(in.Result())
		}
		names = append(names, res.Name.String())
	}
	return names
}

// Every contestant has a figure in every scenario that it takes part in, or the
// report says why not; and no key is left.
func TestEveryContestantHasFigures(t *testing.T) {
	t.Parallel()
	for _, s := range trial.All() {
		t.Run(s.Key, func(t *testing.T) {
			t.Parallel()
			server, url := start(t)
			file := filepath.Join(t.TempDir(), "j")
			var table string
			var names []string
			// A contestant for whom Redis was too slow has no figure, and gets another chance.
			for try := 0; try < attempts && (try == 0 || len(missing(s, names)) > 0); try++ {
				o := parsed(t, "--redis", url, "--only", s.Key, "--rounds", "1", "--out", file)
				table += insist(t, o)
				names = append(names, read(t, file)...)
			}
			for _, name := range missing(s, names) {
				t.Errorf("no figure of %s", name)
			}
			for _, title := range []string{"berth", s.Title} {
				if !strings.Contains(table, title) {
					t.Errorf("%q is not in the table", title)
				}
			}
			noKeys(t, server)
		})
	}
}

// attempts is how often something is measured that a slow machine may keep from being measured.
const attempts = 5

// insist runs a benchmark, and runs it again where the server did not answer in time. It
// returns the table.
func insist(t *testing.T, o *options) string {
	t.Helper()
	var err error
	var stdout, stderr bytes.Buffer
	for range attempts {
		stdout.Reset()
		if err = o.run(t.Context(), &stdout, &stderr); err == nil || measure.Code(t.Context(), err) != measure.Unavailable {
			break
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return stdout.String()
}

// missing returns the contestants in cases of a scenario that have no figure.
func missing(s *trial.Trial, names []string) (missing []string) {
	for _, c := range s.Cases(tiny()) {
		for _, p := range peer.All() {
			name := strings.ToUpper(s.Key[:1]) + s.Key[1:] + "/" + c.Key + "/" + p.Key
			if s.Takes(p, c) && p.Missing() == "" && !slices.Contains(names, name) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// cancelling calls cancel when a line that contains a word is written.
type cancelling struct {
	bytes.Buffer
	word   string
	cancel context.CancelFunc
}

func (c *cancelling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.word)) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}

func TestInterruptedRunLeavesAPartialReportAndNoKeys(t *testing.T) {
	t.Parallel()
	server, url := start(t)
	dir := t.TempDir()
	var stdout bytes.Buffer
	var names []string
	// On a slow machine berth may have no figure of the first scenario.
	for try := 0; try < attempts && !slices.Contains(names, "Pair/1/berth"); try++ {
		o := parsed(t, "--redis", url, "--only", "pair,contended,holders", "--peers", "redislock", "--rounds", "3",
			"--out", filepath.Join(dir, "j"))
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &cancelling{word: "contended", cancel: cancel} // in the second scenario
		stdout.Reset()
		err := o.run(ctx, &stdout, stderr)
		cancel()
		if !errors.Is(err, context.Canceled) {
			if measure.Code(t.Context(), err) == measure.Unavailable { // before it began
				continue
			}
			t.Errorf("error %v", err)
		}
		names = read(t, filepath.Join(dir, "j"))
	}
	if !slices.Contains(names, "Pair/1/berth") {
		t.Errorf("measured: %q", names)
	}
	if !strings.Contains(stdout.String(), "PARTIAL") {
		t.Error("the table does not say that it is partial")
	}
	noKeys(t, server)
}

func TestRedisThatCannotBeReached(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url  string
		code int
	}{
		{"redis://user:hunter2@127.0.0.1:1", measure.Unavailable},
		{"unix://user:hunter2@/nowhere/at/all", measure.Unavailable},
		{"redis://user:hunter2@h:port", measure.Usage},
		{"http://user:hunter2@h", measure.Usage},
		{"hunter2", measure.Usage},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main([]string{"--redis", tt.url, "--only", "pair"}, nil, &stdout, &stderr); code != tt.code {
			t.Errorf("%s: exit code %d, want %d: %s", tt.url, code, tt.code, stderr.String())
		}
		if text := stdout.String() + stderr.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "cannot be used") {
			t.Errorf("%s: %s", tt.url, text)
		}
	}
}

func TestOwnServerAnswersAndKeepsNothing(t *testing.T) {
	t.Parallel()
	url, stop, err := (&options{}).redis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisd.Client(url)
	defer rdb.Close()
	for name, want := range map[string]string{"save": "", "appendonly": "no"} {
		if got := rdb.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	stop()
	if err := redisd.Ping(t.Context(), url); err == nil {
		t.Error("it answers after its end")
	}
}

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "")
	_, _, err := (&options{}).redis(t.Context())
	if measure.Code(t.Context(), err) != measure.Unavailable || !strings.Contains(err.Error(), "install it with") {
		t.Errorf("error %v", err)
	}
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--only", "pear"},
		{"--peers", "nobody"},
		{"--rounds", "0"},
		{"--rounds", "x"},
		{"--what"},
		{"extra"},
		{"--check", "/nowhere.json"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(args, nil, &stdout, &stderr); code != measure.Usage || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, want %d: %s", args, code, measure.Usage, stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"--out", "/nowhere/at/all"}, nil, &stdout, &stderr); code != measure.Output {
		t.Errorf("a file that cannot be written: exit code %d, want %d", code, measure.Output)
	}
}

func TestListNamesEverything(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"--list"}, nil, &stdout, &stderr); code != measure.OK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, s := range trial.All() {
		if !strings.Contains(stdout.String(), s.Key) {
			t.Errorf("the scenario %s is missing", s.Key)
		}
	}
	for _, p := range peer.All() {
		if !strings.Contains(stdout.String(), p.Key) {
			t.Errorf("the contestant %s is missing", p.Key)
		}
	}
}

// expecting writes expectations that SET+DEL, which is fast, and berth meet or not.
func expecting(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "expectations.json")
	if err := os.WriteFile(file, []byte(`{"expectations": [`+text+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	possible   = `{"scenario": "pair", "case": "1", "metric": "p50-µs", "against": "setdel", "at_most": 1000}`
	impossible = `{"scenario": "cpu", "case": "alone", "metric": "commands", "at_most": 0.5, "why": "planted"}`
	unknown    = `{"scenario": "cpu", "case": "nowhere", "metric": "commands", "at_most": 1000}`
)

// tooSlow matches a contestant that has no figure, because Redis did not answer it in time.
var tooSlow = regexp.MustCompile(`not measured: (pair|cpu) `)

func TestCheckPassesWhatIsMetAndFailsWhatIsNot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		expectations, says string
		tries              int
		passes             bool
	}{
		"met":      {possible, "met", 1, true},
		"violated": {possible + "," + impossible, "missed", tries, false},
		"unknown":  {unknown, "not measured", tries, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := start(t)
			var err error
			var stdout, stderr bytes.Buffer
			for range attempts {
				o := parsed(t, "--redis", url, "--check", expecting(t, tt.expectations), "--rounds", "1")
				stdout.Reset()
				stderr.Reset()
				err = o.run(t.Context(), &stdout, &stderr)
				if measure.Code(t.Context(), err) != measure.Unavailable && !tooSlow.MatchString(stderr.String()) {
					break
				}
			}
			if (err == nil) != tt.passes || !strings.Contains(stdout.String(), tt.says) {
				t.Errorf("%v\n%s%s", err, stdout.String(), stderr.String())
			}
			if err != nil && measure.Code(t.Context(), err) != measure.Failure {
				t.Errorf("the exit code is not %d: %v", measure.Failure, err)
			}
			if got := 1 + strings.Count(stderr.String(), "did not meet its expectations"); got != tt.tries {
				t.Errorf("%d tries, want %d: %s", got, tt.tries, stderr.String())
			}
		})
	}
}

func TestCheckRefusesExpectationsThatAlwaysHold(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{"scenario": "pair", "case": "1", "metric": "p50-µs"}`, `{"scenario": "pair", "atmost": 1}`, `{`} {
		o := parsed(t, "--check", expecting(t, text))
		err := o.run(t.Context(), &bytes.Buffer{}, &bytes.Buffer{})
		if measure.Code(t.Context(), err) != measure.Usage {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckRefusesGoTimers(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := Main([]string{"--go-timers", "--check", expecting(t, possible)}, nil, &stdout, &stderr)
	if code != measure.Usage || !strings.Contains(stderr.String(), "--go-timers: not with --check") {
		t.Errorf("exit code %d, want %d: %s", code, measure.Usage, stderr.String())
	}
}

// The committed expectations are about things that exist, at the size at which
// they are checked.
func TestCommittedExpectationsCanBeMeasured(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../expectations.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bounds, err := result.ReadBounds(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []struct {
		scale  trial.Scale
		bounds []result.Bound
	}{{trial.Quick(), bounds}, {trial.Full(), result.Targets()}} {
		for _, b := range list.bounds {
			measurable(t, list.scale, b)
		}
	}
}

func measurable(t *testing.T, scale trial.Scale, b result.Bound) {
	t.Helper()
	i := slices.IndexFunc(trial.All(), func(s *trial.Trial) bool { return s.Key == b.Scenario })
	if i < 0 {
		t.Errorf("%+v: no such scenario", b)
		return
	}
	s := trial.All()[i]
	for _, key := range b.Cases() {
		j := slices.IndexFunc(s.Cases(scale), func(c trial.Case) bool { return c.Key == key })
		if j < 0 {
			t.Errorf("%+v: no case %q", b, key)
			continue
		}
		for _, name := range b.Names() {
			takes := func(p *peer.Peer) bool { return p.Key == name && s.Takes(p, s.Cases(scale)[j]) }
			if !slices.ContainsFunc(peer.All(), takes) {
				t.Errorf("%+v: %s does not take part", b, name)
			}
		}
	}
}
