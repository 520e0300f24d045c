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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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

// severity orders the statuses.
func (s Status) severity() int { return slices.Index([]Status{OK, Warn, Fail}, s) }

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

// ownName is how the names of throw-away semaphores begin.
const ownName = "berth-doctor-"

// patient is the Redis that is being examined.
type patient struct {
	Config
	nodes   []node // the masters of a cluster, or the one server; at least one
	infoErr error  // why INFO could not be read
	own     string // the throw-away semaphore's name
}

// node is one server.
type node struct {
	addr string
	rdb  redis.Cmdable
	info map[string]string
}

// check is one of the doctor's checks.
type check struct {
	name string
	of   scope
	run  func(*patient, context.Context, node) Finding
}

// scope tells what a check is about.
type scope int

const (
	once     scope = 0         // the whole
	each     scope = 1 << iota // each server by itself
	settings                   // not of this machine's own store, which has none
	tries                      // it does more than look
)

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
	p := &patient{Config: cfg, own: ownName + strings.ToLower(rand.Text()), nodes: []node{{rdb: cfg.Redis}}}
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	report := &Report{}
	if cfg.Local {
		report.add("server", found("this machine's own store: it keeps nothing on disk, and every process that uses it is this user's"))
	} else {
		p.meet(ctx)
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

// ask runs a check. Of several servers it returns the answers that are not OK, or
// else the first.
func (p *patient) ask(ctx context.Context, c check) []Finding {
	one := func(n node) Finding {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		return c.run(p, ctx, n)
	}
	if len(p.nodes) == 1 || c.of&each == 0 {
		return []Finding{one(p.nodes[0])}
	}
	var all []Finding
	for _, n := range p.nodes {
		f := one(n)
		f.Found = n.addr + ": " + f.Found
		all = append(all, f)
	}
	if bad := slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Status == OK }); len(bad) > 0 {
		return bad
	}
	return all[:1]
}

func (r *Report) add(check string, findings ...Finding) {
	for _, f := range findings {
		f.Check = check
		r.Findings = append(r.Findings, f)
		*map[Status]*int{OK: &r.OK, Warn: &r.Warn, Fail: &r.Fail}[f.Status]++
	}
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
	if b.Status.severity() > a.Status.severity() {
		return b
	}
	return a
}

// short returns an error in a few words: the server's, or that it did not answer.
func short(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if failure, ok := errors.AsType[*protocol.Failure](err); ok && failure.Detail == nil {
		err = failure.Err
	}
	return strings.TrimPrefix(err.Error(), "berth: ")
}
