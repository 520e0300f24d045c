// Package doctor checks whether a Redis meets berth's assumptions, and explains each finding
// and what to do.
//
// It reads, and tries one semaphore of its own with a random name, which it removes
// afterwards. It changes nothing else, not even a setting.
package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/protocol"
)

// Status is how bad a finding is.
type Status string

// The statuses. A Fail must be mended: a guarantee does not hold, or something does not
// work. A Warn names a condition under which a guarantee can fail.
const (
	OK   Status = "OK"
	Warn Status = "WARN"
	Fail Status = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`            // what is so, and what follows from it
	Advice string `json:"advice,omitempty"` // what to do; empty when OK
}

// Report is the result of all checks.
type Report struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warn     int       `json:"warn"`
	Fail     int       `json:"fail"`
}

// Config tells what to examine.
type Config struct {
	Redis  redis.UniversalClient
	Prefix string
	Local  bool // it is this machine's own store, which has no settings
	Look   bool // nothing is tried: nothing is written or published, and no keys are searched
}

const (
	// checkTimeout bounds a check of a server, which ends if that is slower.
	checkTimeout = 6 * time.Second
	// reachTimeout bounds the first sign of life.
	reachTimeout = 4 * time.Second
)

// errSentinel: what answers has no data. The command line says how to use it.
var errSentinel = errors.New("this is a sentinel, and not one of the servers that it watches")

// ownName is how the names of throw-away semaphores begin.
const ownName = "berth-doctor-"

// patient is the Redis that is being examined.
type patient struct {
	Config
	client  *berth.Client
	nodes   []node // the masters of a cluster, or the one server; at least one
	infoErr error  // why INFO could not be read
	own     string // the throw-away semaphore's name
	looks   bool   // the user may only look; the rights told so
}

// clustered reports whether it is used as a Cluster.
func (p *patient) clustered() bool {
	_, ok := p.Redis.(*redis.ClusterClient)
	return ok
}

func (p *patient) store() *protocol.Store {
	return protocol.NewStore(p.Redis, p.Prefix, p.own, os.Getpid(), "")
}

// node is one server.
type node struct {
	addr string
	rdb  redis.Cmdable
	info map[string]string
}

// scope tells what a check is about.
type scope int

const (
	once     scope = 0         // the whole
	each     scope = 1 << iota // each server by itself
	settings                   // not of this machine's own store, which has none
	tries                      // it does more than look
)

// check is one of the doctor's checks.
type check struct {
	name string
	of   scope
	run  func(*patient, context.Context, node) Finding
}

// checks are in the order in which people should read them.
var checks = []check{
	{"version", each | settings, (*patient).version},
	{"cluster", settings, (*patient).cluster},
	{"rights", settings | tries, (*patient).rights},
	{"semaphore", once | tries, (*patient).semaphore},
	{"scripts", once | tries, (*patient).scripts},
	{"messages", once | tries, (*patient).messages},
	{"memory", each | settings, (*patient).memory},
	{"persistence", each | settings, (*patient).persistence},
	{"replication", each | settings, (*patient).replication},
	{"clock", each, (*patient).clock},
	{"latency", each, (*patient).latency},
	{"keyspace", once | tries, (*patient).keyspace},
}

// Examine runs all checks. It fails only if there is no Redis to examine, or ctx has ended;
// all other errors are findings.
func Examine(ctx context.Context, cfg Config) (*Report, error) {
	// The findings tell everything that this client would log.
	client, err := berth.New(cfg.Redis, berth.Prefix(cfg.Prefix), berth.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	p := &patient{Config: cfg, client: client, own: ownName + strings.ToLower(rand.Text()), nodes: []node{{rdb: cfg.Redis}}}
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	report := &Report{}
	if cfg.Local {
		report.add("server", found("this machine's own store: it keeps nothing on disk, and every process that uses it is this user's"))
	} else {
		p.meet(ctx)
		if p.nodes[0].info["redis_mode"] == "sentinel" {
			return nil, errSentinel
		}
	}
	for _, c := range checks {
		if cfg.Local && c.of&settings != 0 || cfg.Look && c.of&tries != 0 {
			continue
		}
		report.add(c.name, p.ask(ctx, c)...)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return report, nil
}

// ask runs a check, of all servers at once. Of several it returns the answers that are not OK, or
// else the first.
func (p *patient) ask(ctx context.Context, c check) []Finding {
	nodes := p.nodes
	if c.of&each == 0 {
		nodes = nodes[:1]
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answers := make([]Finding, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { answers[i] = c.run(p, ctx, n) })
	}
	asking.Wait()
	var good, bad []Finding
	for i, f := range answers {
		if len(nodes) > 1 {
			f.Found = nodes[i].addr + ": " + f.Found
		}
		if f.Status == OK {
			good = append(good, f)
		} else {
			bad = append(bad, f)
		}
	}
	if len(bad) > 0 {
		return bad
	}
	return good[:1]
}

func (r *Report) add(check string, findings ...Finding) {
	for _, f := range findings {
		f.Check = check
		r.Findings = append(r.Findings, f)
		*map[Status]*int{OK: &r.OK, Warn: &r.Warn, Fail: &r.Fail}[f.Status]++
	}
}

// Text lays the report out for people, in lines of at most width columns: the findings, and
// below each that is not OK what to do. The words of servers, which may be anything, are
// cleaned. With color the statuses have colours.
func (r *Report) Text(width int, color bool) string {
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, len(f.Check))
	}
	indent := strings.Repeat(" ", len("FAIL  ")+widest+2)
	room := max(width-len(indent), 30)
	var b strings.Builder
	for _, f := range r.Findings {
		head := f.Status.paint(color) + strings.Repeat(" ", len("FAIL  ")-len(f.Status))
		fmt.Fprintf(&b, "%s%-*s  ", head, widest, f.Check)
		lines := screen.Wrap(screen.Clean(f.Found), room, 0)
		if f.Advice != "" {
			lines = append(lines, screen.Wrap("→ "+screen.Clean(f.Advice), room, 0)...)
		}
		b.WriteString(strings.Join(lines, "\n"+indent) + "\n")
	}
	fmt.Fprintf(&b, "\n%d OK, %d WARN, %d FAIL\n", r.OK, r.Warn, r.Fail)
	return b.String()
}

func (s Status) paint(color bool) string {
	if !color {
		return string(s)
	}
	code := map[Status]int{OK: 32, Warn: 33, Fail: 31}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, s)
}

// reach asks for a sign of life. A refusal is one, unless it refuses the login.
func (p *patient) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := p.Redis.Ping(ctx).Err()
	switch {
	case err == nil, redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "LOADING"),
		redis.HasErrorPrefix(err, "MASTERDOWN"), redis.HasErrorPrefix(err, "BUSY"), redis.HasErrorPrefix(err, "MISCONF"):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redis has not answered within %v", reachTimeout)
	}
	return err
}

// meet finds the servers and reads their INFO.
func (p *patient) meet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if c, ok := p.Redis.(*redis.ClusterClient); ok {
		var mu sync.Mutex
		var masters []node
		p.infoErr = c.ForEachMaster(ctx, func(_ context.Context, rdb *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, node{addr: rdb.Options().Addr, rdb: rdb})
			return nil
		})
		slices.SortFunc(masters, func(a, b node) int { return cmp.Compare(a.addr, b.addr) })
		if len(masters) > 0 {
			p.nodes = masters
		}
	}
	for i := range p.nodes {
		text, err := p.nodes[i].rdb.Info(ctx).Result()
		p.nodes[i].info, p.infoErr = fields(text), cmp.Or(p.infoErr, err)
	}
}

// fields reads what INFO and CLUSTER INFO tell: a line "name:value" for each thing.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// setting returns a setting of the server; false: it cannot be read, as with managed services
// and tight rights.
func (n node) setting(ctx context.Context, name string) (string, bool) {
	values, err := n.rdb.ConfigGet(ctx, name).Result()
	value, ok := values[name]
	return value, err == nil && ok
}

// found returns a finding that is OK.
func found(format string, args ...any) Finding {
	return Finding{Status: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) Finding {
	return Finding{Status: Warn, Found: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(advice, format string, args ...any) Finding {
	return Finding{Status: Fail, Found: fmt.Sprintf(format, args...), Advice: advice}
}

// worse returns the worse of two findings, the first if they are alike.
func worse(a, b Finding) Finding {
	order := []Status{OK, Warn, Fail}
	if slices.Index(order, b.Status) > slices.Index(order, a.Status) {
		return b
	}
	return a
}

// short returns an error in a few words: the server's, or that it did not answer.
func short(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if failure, ok := errors.AsType[*protocol.Failure](err); ok && failure.Detail == nil {
		err = failure.Err
	}
	return strings.TrimPrefix(err.Error(), "berth: ")
}
