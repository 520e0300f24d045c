package promise_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

const second, minute, hour, day = time.Second, time.Minute, time.Hour, 24 * time.Hour

// one is a use of 1 of each unit.
func one(units ...string) map[string]int {
	of := map[string]int{}
	for _, u := range units {
		of[u] = 1
	}
	return of
}

// contracts are those of docs/limits.md, by what its table calls them. Numbers are smaller where as
// many calls would take long.
var contracts = map[string]func(e *testenv.Env){
	"20 at once; 60 calls, 90,000 tokens a minute": model,
	"100 at once and 5,000 an hour": (&contract{
		limit:   100,
		options: []berth.Option{berth.Rate(5000, hour)},
		asks:    []berth.AcquireOption{berth.Cost(50)}, // 50 calls in a row
		uses:    map[string]int{"calls": 50},
		api:     api{atOnce: 100, rules: []rule{{unit: "calls", n: 5000, per: hour}}},
		takes:   10 * second, lasts: 3*hour - minute, least: 300, again: true,
	}).holds,
	"14 a second and 50,000 a day": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(14, second), berth.Rate(200, day)},
		uses:    one("mails"),
		api:     api{rules: []rule{{unit: "mails", n: 14, per: second}, {unit: "mails", n: 200, per: day}}},
		takes:   second / 10, lasts: day + hour, least: 400, again: true,
	}).holds,
	"a bucket of 40, 2 come back a second": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(2, second).Burst(40)},
		uses:    one("calls"),
		api:     api{rules: []rule{{unit: "calls", n: 2, per: second, burst: 40}}},
		takes:   second / 10, lasts: minute, least: 40 + 118,
	}).holds,
	"10 at first, then 1 a second": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(1, second).Burst(10)},
		uses:    one("calls"),
		api:     api{rules: []rule{{unit: "calls", n: 1, per: second, burst: 10}}},
		takes:   second / 10, lasts: minute, least: 10 + 58,
	}).holds,
	"one call every 100 ms": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(1, second/10)},
		uses:    one("calls"),
		api:     api{rules: []rule{{unit: "calls", n: 1, per: second / 10}}},
		takes:   second, lasts: 10 * second, least: 95,
	}).holds,
	"5 a second, however long each takes": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(5, second)},
		uses:    one("mails"),
		api:     api{rules: []rule{{unit: "mails", n: 5, per: second}}},
		takes:   3 * second, lasts: 20 * second, least: 95, callers: 10,
	}).holds,
	"2,000 points a minute, by the query": (&contract{
		limit:   berth.NoLimit,
		options: []berth.Option{berth.Rate(2000, minute)},
		asks:    []berth.AcquireOption{berth.Cost(100)},
		settle:  map[string]int{"": 20},
		uses:    map[string]int{"points": 20},
		api:     api{rules: []rule{{unit: "points", n: 2000, per: minute}}},
		takes:   second, lasts: 2*minute - second, least: 180,
	}).holds,
	"reads and writes apart, 10 at once":     readsAndWrites,
	"one page every 10 s of each host":       eachHost,
	"10 at once for a customer, 200 for all": customers,
	"stop for all when one is told to":       retryAfter,
	"people before batch jobs":               people,
	"only at night":                          nights,
	"1,000 a day, from midnight UTC":         dailyQuota,
}

func TestContracts(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, holds := range contracts {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(page), "\n| "+name+" |") {
				t.Error("docs/limits.md does not say how to keep to it")
			}
			testenv.Embedded(t, holds)
		})
	}
}

// Once the calls are what keeps others out, and once the tokens, which only the answers tell.
func model(e *testenv.Env) {
	for tokens, least := range map[int]int{1400: 90, 1600: 70} {
		(&contract{
			limit:   20,
			options: []berth.Option{berth.Rate(60, minute), berth.Rate(90_000, minute).Of("tokens")},
			asks:    []berth.AcquireOption{berth.Cost(3000).Of("tokens")},
			settle:  map[string]int{"tokens": tokens},
			uses:    map[string]int{"calls": 1, "tokens": tokens},
			api:     api{atOnce: 20, rules: []rule{{unit: "calls", n: 60, per: minute}, {unit: "tokens", n: 90_000, per: minute}}},
			takes:   2 * second, lasts: 3*minute - second, least: least, callers: 12,
		}).holds(e)
		<-time.After(minute) // nothing counts any more
	}
}

// Two rates of different units, and one limit for both.
func readsAndWrites(e *testenv.Env) {
	rules := []rule{{unit: "reads", n: 100, per: second}, {unit: "writes", n: 9, per: second}}
	c := &contract{
		limit:   10,
		options: []berth.Option{berth.Rate(100, second).Of("reads"), berth.Rate(9, second).Of("writes")},
		asks:    []berth.AcquireOption{berth.Cost(1).Of("reads"), berth.Cost(0).Of("writes")},
		uses:    one("reads"),
		api:     api{atOnce: 10, rules: rules},
		takes:   second / 20, lasts: 2 * second, least: 180,
	}
	c.holds(e)
	c.asks, c.uses, c.least = []berth.AcquireOption{berth.Cost(0).Of("reads"), berth.Cost(1).Of("writes")}, one("writes"), 16
	c.api = api{atOnce: 10, rules: rules}
	c.holds(e)
}

// A name for each host.
func eachHost(e *testenv.Env) {
	ctx, cancel := context.WithTimeout(e.Ctx, minute)
	defer cancel()
	hosts := map[string]*contract{}
	var all sync.WaitGroup
	for _, host := range []string{"a.example", "b.example"} {
		c := &contract{uses: one("pages"), api: api{atOnce: 1, rules: []rule{{unit: "pages", n: 1, per: 10 * second}}}, takes: second}
		hosts[host] = c
		for range 2 {
			sem := e.Peer().Named("crawl/"+host, 1, berth.Rate(1, 10*second))
			all.Go(func() {
				for c.callOnce(ctx, e.T, sem) {
				}
			})
		}
	}
	all.Wait()
	for host, c := range hosts {
		if len(c.api.refused) > 0 || len(c.api.began) < 6 {
			e.Errorf("%s: %d pages, refused %v", host, len(c.api.began), c.api.refused)
		}
	}
}

// A narrow limit for each, and a wide one for all.
func customers(e *testenv.Env) {
	ctx, cancel := context.WithTimeout(e.Ctx, 3*second)
	defer cancel()
	all, each := api{atOnce: 200}, map[string]*api{}
	var done sync.WaitGroup
	p := e.Peer()
	wide := p.Named("all", 200, berth.Level(1))
	for n := range 21 {
		customer := "customer/" + string(rune('a'+n))
		each[customer] = &api{atOnce: 10}
		narrow := p.Named(customer, 10)
		for range 12 {
			done.Go(func() {
				for ctx.Err() == nil {
					leases, err := berth.AcquireAll(ctx, wide, narrow)
					if err != nil {
						return
					}
					each[customer].call(0, nil)
					all.call(second, nil)
					if err := leases.Release(); err != nil {
						e.Error(err)
					}
				}
			})
		}
	}
	done.Wait()
	for customer, a := range each {
		if len(a.refused) > 0 || len(a.began) < 10 {
			e.Errorf("%s: %d calls, refused %v", customer, len(a.began), a.refused)
		}
	}
	if len(all.refused) > 0 || len(all.began) < 500 {
		e.Errorf("%d calls, refused %v", len(all.began), all.refused)
	}
}

// Whoever is refused tells all others.
func retryAfter(e *testenv.Env) {
	a := &api{closed: time.Now().Add(10 * second)}
	ctx, cancel := context.WithTimeout(e.Ctx, minute)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		sem := e.Peer().Sem(1)
		all.Go(func() {
			for {
				lease, err := sem.Acquire(ctx)
				if err != nil {
					return
				}
				if !a.call(second, nil) {
					e.Must(sem.Cooldown(ctx, time.Until(a.closed)))
				}
				e.Release(lease)
			}
		})
	}
	all.Wait()
	if len(a.refused) != 1 || len(a.began) < 45 {
		e.Errorf("refused %d times, want once, and called %d times", len(a.refused), len(a.began))
	}
}

// A head start moves a request ahead of those that came a little before.
func people(e *testenv.Env) {
	sem := e.Peer().Sem(1)
	batch := []*testenv.Request{}
	lease := e.Hold(sem)
	for range 3 {
		batch = append(batch, e.Queue(sem))
	}
	person := e.Queue(e.Peer().Sem(1), berth.HeadStart(10*minute))
	e.Release(lease)
	e.Release(person.Granted())
	for _, b := range batch {
		e.Release(b.Granted())
	}
}

// An operator's pause in the morning, and the end of it in the evening.
func nights(e *testenv.Env) {
	sem := e.Peer().Sem(2)
	e.Must(e.Inspector.Pause(e.Ctx, testenv.Name)) // cron, in the morning
	waits := e.Queue(sem)
	e.Pass(minute)
	waits.Waits()
	e.WantErr(e.Try(sem), berth.ErrBusy)
	e.Must(e.Inspector.Resume(e.Ctx, testenv.Name)) // and in the evening
	e.Release(waits.Granted())
}

// A name that has the date of the day in UTC.
func dailyQuota(e *testenv.Env) {
	p := e.Peer()
	ctx := context.WithoutCancel(e.Ctx)
	try := func() error {
		name := "quota/" + time.Now().UTC().Format(time.DateOnly)
		lease, err := p.Named(name, berth.NoLimit, berth.Rate(3, day)).TryAcquire(ctx)
		if err == nil {
			e.Release(lease)
		}
		return err
	}
	<-time.After(time.Until(time.Now().UTC().Truncate(day).Add(day - minute))) // a minute before midnight
	for range 3 {
		e.Must(try())
	}
	e.WantErr(try(), berth.ErrBusy)
	<-time.After(minute)
	e.Must(try())
}
