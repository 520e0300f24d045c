package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// model are the terms of a limit with two rates and a bucket.
const model = `{"name":"s","limit":9,"rates":[{"n":10,"per_ms":10000},{"unit":"tokens","n":1000,"per_ms":10000},` +
	`{"unit":"api","n":2,"per_ms":1000,"burst":4}],`

// spends is what is spent of the tokens of s, by a request that is too costly for them.
func (w *world) spends() int {
	w.Helper()
	got := w.refused(post(model + `"wait_ms":0,"costs":{"tokens":1001}}`))
	if got.Error != "too_heavy" || got.Rate == nil || got.Rate.Unit != "tokens" || got.Rate.N != 1000 || got.Rate.Per != 10000 {
		w.Fatalf("it is told %+v", got)
	}
	return got.Rate.Spent
}

// untilSpent waits until so many tokens are spent: a settled cost is sent in the background.
func (w *world) untilSpent(tokens int) {
	w.Helper()
	for n := w.spends(); n != tokens; n = w.spends() {
		w.Pass(w.Tick())
		if w.Ctx.Err() != nil {
			w.Fatalf("%d are spent, want %d", n, tokens)
		}
	}
}

// chunk is a piece of a body whose length is not said.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// write sends a piece of the body.
func (p *program) write(text string) {
	p.w.Helper()
	_, err := p.conn.Write([]byte(text))
	p.w.Must(err)
}

// TestSeveralRatesAndUnits: a hold is charged to each rate, and a refusal tells the one that keeps it
// out, and for how long.
func TestSeveralRatesAndUnits(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		for range 2 {
			p := w.send(post(model + `"costs":{"":5,"tokens":400,"api":0}}`))
			p.wants("granted")
			e.Must(p.conn.Close())
		}
		if got := w.refused(post(model + `"wait_ms":0,"costs":{"":1,"tokens":0,"api":0}}`)); got.Status != 429 || got.Rate == nil || got.Rate.Unit != "" || got.Rate.Spent != 10 || got.Retry < 9000 {
			e.Errorf("with all calls spent it is told %+v, rate %+v", got, got.Rate)
		}
		e.Pass(11 * time.Second)
		for range 4 {
			w.send(post(model + `"costs":{"tokens":1}}`)).wants("granted")
		}
		if got := w.refused(post(model + `"wait_ms":0}`)); got.Rate == nil || got.Rate.Unit != "api" || got.Rate.Burst != 4 || got.Retry != 500 {
			e.Errorf("with an empty bucket it is told %+v, rate %+v", got, got.Rate)
		}
		p := w.send(post(model + `"costs":{"":1,"tokens":999}}`))
		if got := p.wants("queued"); got.Rate == nil || got.Rate.Unit != "tokens" || got.Retry == 0 {
			e.Errorf("while it waits it is told %+v, rate %+v", got, got.Rate)
		}
		if got := w.send(post(model + `"wait_ms":1000,"costs":{"":1,"tokens":999}}`)).until("refused"); got.Error != "timeout" || got.Rate == nil || got.Retry == 0 {
			e.Errorf("after a wait it is told %+v, rate %+v", got, got.Rate)
		}
	})
}

// TestHoldFailsEarly: with fail_early a request that a rate, or a pause, keeps out for longer than
// wait_ms is told when there can be room, at once, and is not in anybody's way.
func TestHoldFailsEarly(t *testing.T) {
	each(t, func(w *world) {
		const terms = `{"name":"s","limit":9,"rate":3,"per_ms":3600000,`
		w.insists(post(terms+`"cost":2}`), "granted")
		got := w.refused(post(terms + `"cost":2,"wait_ms":60000,"fail_early":true}`))
		if got.Status != 429 || got.Error != "busy" || got.Rate == nil || got.Rate.Spent != 2 || got.Retry < 3000000 || got.Retry > 3700000 || got.header.Get("Retry-After") == "" {
			w.Errorf("it is told %+v, rate %+v", got, got.Rate)
		}
		w.insists(post(terms+`"cost":1,"wait_ms":60000,"fail_early":true}`), "granted")
		w.send(post(terms + `"cost":1,"wait_ms":60000,"fail_early":false}`)).wants("queued")
	})
}

// TestHoldIsSettled by a line, also by the last one before the end; what cannot be settled is told.
func TestHoldIsSettled(t *testing.T) {
	each(t, func(w *world) {
		p := w.insists("POST /v1/hold HTTP/1.1\r\nHost: agent\r\nTransfer-Encoding: chunked\r\n\r\n"+
			chunk(model+`"costs":{"tokens":900}}`+"\n"), "granted")
		if n := w.spends(); n != 900 {
			w.Errorf("%d are spent at first, want 900", n)
		}
		p.write(chunk(`{"settle":{"tokens":300}}` + "\n"))
		w.untilSpent(300)
		for line, why := range map[string]string{
			`{"settle":{"token":1}}`:   "no rate",
			`{"settle":{"tokens":-1}}`: "tokens",
			`{"settle":7}`:             "object",
		} {
			p.write(chunk(line + "\n"))
			if got := p.wants("unsettled"); !strings.Contains(got.Message, why) {
				w.Errorf("%s: it is told %+v", line, got)
			}
		}
		// Signs of life, and the last word.
		p.write(chunk("\n"+strings.Repeat("x", 2*mostLine)+"\n{}\n"+`{"settle":{"tokens":100,"":0}}`) + "0\r\n\r\n")
		p.until("released")
		if n := w.spends(); n != 100 {
			w.Errorf("%d are spent at the end, want 100", n)
		}
	})
}

// TestSettleFindsTheLimitWithTheRate where there are several.
func TestSettleFindsTheLimitWithTheRate(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		wide := strings.TrimSuffix(model, ",")
		p := w.send(post(`{"all":[{"name":"narrow","limit":1},` + wide + `,"costs":{"tokens":900}}]}`))
		id := p.wants("granted").ID
		p.write(`{"settle":{"tokens":5}}` + "\n")
		w.untilSpent(5)

		// Who cannot write to the connection has the id.
		ask := w.keptAlive()
		for body, status := range map[string]int{
			`{"id":"` + id + `","settle":{"tokens":7}}`:  200,
			`{"id":"` + id + `","settle":{"token":7}}`:   400,
			`{"id":"` + id + `","settle":{"tokens":-1}}`: 400,
			`{"id":"` + id + `"}`:                        400,
			`{"id":"other","settle":{"tokens":7}}`:       404,
		} {
			if got := ask("POST", "/v1/settle", body); got != status {
				w.Errorf("%s is answered %d, want %d", body, got, status)
			}
		}
		w.untilSpent(7)
	})
}

// TestNoLimitIsNoNumber in what the agent says.
func TestNoLimitIsNoNumber(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		p := e.Peer().Named("s", berth.NoLimit, berth.Rate(9, time.Second))
		e.Hold(p)
		if got := w.send(post(`{"name":"s"}`)).wants("granted"); got.Limit != 0 {
			e.Errorf("it is told %+v", got)
		}
		for range 2 { // nor one at once, where a new name has but a rate
			if got := w.send(post(`{"name":"new","rates":[{"n":9,"per_ms":1000}]}`)).wants("granted"); got.Limit != 0 {
				e.Errorf("of a new name it is told %+v", got)
			}
		}
	})
}
