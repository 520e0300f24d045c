package agent

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// badInput are bodies, and the fields that are wrong with each; "-": it is no request at all.
var badInput = []struct{ body, wrong string }{
	{`{}`, "name"},
	{`{"limit":1}`, "name"},
	{`{"name":""}`, "name"},
	{`{"name":" "}`, "name"},
	{`{"name":5}`, "name"},
	{`{"name":null}`, "name"},
	{`{"name":["s"]}`, "name"},
	{`{"name":"a{b}"}`, "name"},
	{`{"name":"a\u0000"}`, "name"},
	{`{"name":"` + strings.Repeat("x", berth.MaxName+1) + `"}`, "name"},
	{`{"name":"s","name":"s"}`, "name"},
	{`{"name":"s","limit":-1}`, "limit"},
	{`{"name":"s","limit":"1"}`, "limit"},
	{`{"name":"s","limit":1.5}`, "limit"},
	{`{"name":"s","limit":1e30}`, "limit"},
	{`{"name":"s","limit":1e999}`, "limit"},
	{`{"name":"s","limit":15e-1}`, "limit"},
	{`{"name":"s","limit":null}`, "limit"},
	{`{"name":"s","limit":true}`, "limit"},
	{`{"name":"s","limit":99999999999999999999}`, "limit"},
	{`{"name":"s","limit":1073741825}`, "limit"},
	{`{"name":"s","weight":0}`, "weight"},
	{`{"name":"s","queue_limit":-1}`, "queue_limit"},
	{`{"name":"s","ttl_ms":9}`, "ttl_ms"},
	{`{"name":"s","ttl_ms":2592000001}`, "ttl_ms"},
	{`{"name":"s","max_hold_ms":1}`, "max_hold_ms"},
	{`{"name":"s","head_start_ms":-1}`, "head_start_ms"},
	{`{"name":"s","fail_early":true}`, "wait_ms"},
	{`{"name":"s","fail_early":1,"wait_ms":1}`, "fail_early"},
	{`{"name":"s","wait_ms":-1}`, "wait_ms"},
	{`{"name":"s","beat_ms":1}`, "beat_ms"},
	{`{"name":"s","label":"a\nb"}`, "label"},
	{`{"name":"s","label":{}}`, "label"},
	{`{"name":"s","label":"` + strings.Repeat("x", berth.MaxLabel+1) + `"}`, "label"},
	{`{"name":"s","Limit":1}`, "Limit"},
	{`{"name":"s","rate":1}`, "per_ms"},
	{`{"name":"s","per_ms":1000}`, "rate"},
	{`{"name":"s","rate":0,"per_ms":1000}`, "rate"},
	{`{"name":"s","rate":1073741825,"per_ms":1000}`, "rate"},
	{`{"name":"s","rate":1,"per_ms":9}`, "per_ms"},
	{`{"name":"s","rates":[]}`, "rates"},
	{`{"name":"s","rates":{"n":1,"per_ms":1000}}`, "rates"},
	{`{"name":"s","rates":[{"n":1}]}`, "rates"},
	{`{"name":"s","rates":[{"n":1,"per_ms":1000,"unit":"None!"}]}`, "rates"},
	{`{"name":"s","rates":[{"n":1,"per_ms":1000,"more":1}]}`, "rates"},
	{`{"name":"s","rates":[{"n":1,"per_ms":1000},{"n":2,"per_ms":1000}]}`, "rates"},
	{`{"name":"s","rates":[{"n":1,"per_ms":1000}],"rate":1,"per_ms":1000}`, "rate"},
	{`{"name":"s","costs":[]}`, "costs"},
	{`{"name":"s","costs":{}}`, "costs"},
	{`{"name":"s","costs":{"":0}}`, "costs"},
	{`{"name":"s","costs":{"Tokens":1}}`, "costs"},
	{`{"name":"s","costs":{"tokens":1,"tokens":2}}`, "costs"},
	{`{"name":"s","costs":{"tokens":1},"cost":1}`, "cost"},
	{`{"name":"s","rate":1,"per_ms":2592000001}`, "per_ms"},
	{`{"name":"s","cost":0}`, "cost"},
	{`{"name":"s","tenant":""}`, "tenant"},
	{`{"name":"s","tenant":"a b"}`, "tenant"},
	{`{"name":"s","tenant":"` + strings.Repeat("x", berth.MaxTenant+1) + `"}`, "tenant"},
	{`{"name":"s","tenant":"a","share":0}`, "share"},
	{`{"name":"s","tenant":"a","share":101}`, "share"},
	{`{"name":"s","share":10}`, "tenant"},
	{`{"name":"s","":1}`, ""},
	{`{"name":"s","pid":0}`, "pid"},
	{`{"all":[]}`, "all"},
	{`{"all":{"name":"s"}}`, "all"},
	{`{"all":null}`, "all"},
	{`{"all":["s"]}`, "all[0]"},
	{`{"all":[{"name":"s"}],"all":[{"name":"s"}]}`, "all"},
	{`{"all":[{"name":"s"},{"name":"s"}]}`, "all[1].name"},
	{`{"all":[{"name":"s","ttl_ms":1000},{"limit":1}]}`, "all[0].ttl_ms,all[1].name"},
	{`{"all":[{"name":"s","rate":1}],"limit":1,"wait_ms":-1}`, "all[0].per_ms,limit,wait_ms"},
	{`{"all":[` + strings.Repeat(`{"name":"s"},`, mostLimits) + `{"name":"s"}]}`, "all"},
	{`{"nosuch":1,"limit":-1,"weight":0,"wait_ms":"x"}`, "limit,name,nosuch,wait_ms,weight"},
	{``, "-"},
	{`null`, "-"},
	{`[]`, "-"},
	{`"name"`, "-"},
	{`{"name":"s"`, "-"},
	{`{"name":"s"}}`, "-"},
	{`{"name":"s"} {"name":"s"}`, "-"},
	{`{"name":}`, "-"},
	{`{name:"s"}`, "-"},
	{"{\"name\":\"\xff\"}", "-"},
	{`name=s&limit=1`, "-"},
}

// TestBadInputIsRefused with 400 and the name of each field that is wrong, and changes nothing.
func TestBadInputIsRefused(t *testing.T) {
	each(t, func(w *world) {
		for _, c := range badInput {
			e := w.refused(post(c.body))
			if e.Status != http.StatusBadRequest || e.Error != "invalid" || e.Message == "" {
				w.Errorf("%.60s: %+v", c.body, e)
			}
			if got := strings.Join(sorted(e.Fields), ","); c.wrong != "-" && got != c.wrong || c.wrong == "-" && len(e.Fields) > 0 {
				w.Errorf("%.60s: wrong are %v, want %v", c.body, e.Fields, c.wrong)
			}
		}
		w.Idle()
		if keys := w.Keys(); len(keys) > 0 {
			w.Errorf("keys were made: %v", keys)
		}
	})
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// TestRateIsShared: the agent's programs get no more in a window than the rate, and a refusal says
// when there is room.
func TestRateIsShared(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		const terms = `{"name":"s","limit":9,"rate":5,"per_ms":10000,`
		for _, cost := range []string{"1", "4"} {
			p := w.send(post(terms + `"cost":` + cost + `}`))
			p.wants("granted")
			e.Must(p.conn.Close())
		}
		got := w.send(post(terms + `"wait_ms":0}`)).wants("refused")
		if retry := got.header.Get("Retry-After"); got.Status != 429 || got.Error != "busy" || retry != "10" && retry != "11" || got.Retry <= 9000 || got.Retry > 11000 {
			e.Errorf("it is told %+v, Retry-After %q", got, retry)
		}
		if got := w.send(post(terms + `"queue_limit":0}`)).wants("refused"); got.Status != 429 || got.Error != "queue_full" || got.header.Get("Retry-After") == "" {
			e.Errorf("with a full queue it is told %+v, Retry-After %q", got, got.header.Get("Retry-After"))
		}
		if got := w.send(post(terms + `"cost":6}`)).wants("refused"); got.Status != 409 || got.Error != "too_heavy" {
			e.Errorf("a cost above the rate is told %+v", got)
		}
	})
}

// TestTenantsShareTheQueue: a tenant's burst leaves room between its requests for others', and
// operators see whose they are.
func TestTenantsShareTheQueue(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		const terms = `{"name":"s","limit":1,"tenant":`
		first := w.send(post(terms + `"greedy"}`))
		first.wants("granted")
		for _, tenant := range []string{`"greedy"}`, `"greedy"}`, `"greedy"}`, `"small"}`} {
			w.send(post(terms + tenant)).wants("queued")
		}
		st := e.Show()
		var queue []string
		for _, waiter := range st.Queue {
			queue = append(queue, waiter.Tenant)
		}
		if got := strings.Join(queue, " "); got != "greedy greedy small greedy" || st.Leases[0].Tenant != "greedy" {
			e.Errorf("in the queue are %s behind %q", got, st.Leases[0].Tenant)
		}
		full := w.send(post(`{"name":"s","limit":1,"queue_limit":4,"tenant":"greedy"}`)).wants("refused")
		if full.Error != "queue_full" || full.Tenant != "greedy" || !strings.Contains(full.Message, `is full for tenant "greedy"`) {
			e.Errorf("it is told %+v", full)
		}
	})
}

// goNames matches names of the library's API.
var goNames = regexp.MustCompile(`Acquire|QueueLimit|MaxHold|HeadStart|MinReplicas|PoolSize`)

// TestRefusals have the status that HTTP has for them, and say what to do.
func TestRefusals(t *testing.T) {
	each(t, func(w *world) {
		w.holds(1)
		long := strings.Repeat(" ", mostBody)
		for _, c := range []struct {
			text   string
			status int
			code   string
		}{
			{post(`{"name":"s","limit":1,"wait_ms":0}`), 409, "busy"},
			{post(`{"name":"s","limit":1,"queue_limit":0}`), 409, "queue_full"},
			{post(`{"name":"s","limit":1,"weight":2}`), 409, "too_heavy"},
			{post(`{"name":"s","limit":1}` + long), 413, "too_large"},
			{"POST /v1/hold HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n{", 413, "too_large"},
			{"POST /v1/hold HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat("x", 0x20000), 413, "too_large"},
			{"POST /v1/hold HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid"},
			{"GET /v1/hold HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method"},
			{"PUT /v1/hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, "method"},
			{"DELETE /v1/semaphores/s HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method"},
			{"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, "method"},
			{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no_such_path"},
			{"POST /v1/hold/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 404, "no_such_path"},
			{"GET /v1/cooldown HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method"},
			{cools(`{"name":"s"}`), 400, "invalid"},
			{cools(`{"name":"s","for_ms":9}`), 400, "invalid"},
			{cools(`{"name":"s","for_ms":1000,"limit":1}`), 400, "invalid"},
			{cools(long + long), 413, "too_large"},
			{"POST /v1/pause HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 404, "no_such_path"},
			{"GET /v1/semaphores/nosuch HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_in_use"},
			{"GET /v1/semaphores/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid"},
			{"GET /v1/semaphores/a%7Bb HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid"},
		} {
			e := w.refused(c.text)
			if e.Status != c.status || e.Error != c.code || e.Message == "" || c.status == 405 && e.header.Get("Allow") == "" {
				w.Errorf("%.60q: %+v", c.text, e)
			}
			if goNames.MatchString(e.Message) {
				w.Errorf("%.60q: it names what only Go has: %s", c.text, e.Message)
			}
		}
		w.untilHeld(1)
	})
}

// TestAHalfRequestIsEnded: a connection that sends a part of a request does not stay.
func TestAHalfRequestIsEnded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		for text, status := range map[string]int{
			"":          0,
			"POST /v1/": 0,
			"POST /v1/hold HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n{":               408,
			"POST /v1/hold HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{": 408,
		} {
			start := time.Now()
			p := w.send(text)
			if got := p.next(); got.Status != status {
				w.Errorf("%q: %+v", text, got)
			}
			w.Within(start, readTimeout, readTimeout+time.Second, "the end")
		}
	})
}

// TestNoRight is 403, and names the right.
func TestNoRight(t *testing.T) {
	t.Parallel()
	w := newWorld(testenv.Shared(t), Options{})
	w.Must(w.Redis.Do(w.Ctx, "ACL", "SETUSER", "agent-looks", "on", ">x", "~*", "&*", "+@all", "-evalsha", "-eval", "-fcall").Err())
	w.Options.Username, w.Options.Password = "agent-looks", "x"
	other := newWorld(w.Env, Options{})
	if e := other.refused(asks(1)); e.Status != http.StatusForbidden || e.Error != "forbidden" || !strings.Contains(e.Message, "NOPERM") {
		w.Errorf("without the right: %+v", e)
	}
}

// TestDamagedKeys are no reason to hang.
func TestDamagedKeys(t *testing.T) {
	each(t, func(w *world) {
		w.holds(2)
		for key := range w.Keys() {
			w.Must(w.Redis.Set(w.Ctx, key, "x", 0).Err())
		}
		if e := w.refused(asks(2)); e.Status != http.StatusInternalServerError || e.Error != "damaged" {
			w.Errorf("with foreign keys: %+v", e)
		}
	})
}

// TestTokenIsNeeded for everything but the health, where one is set.
func TestTokenIsNeeded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{Token: "secret"})
		request := func(path, header string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + header + "\r\n" }
		for text, status := range map[string]int{
			request("/v1/semaphores", ""):                                 401,
			request("/v1/semaphores", "Authorization: Bearer secre\r\n"):  401,
			request("/v1/semaphores", "Authorization: Basic secret\r\n"):  401,
			request("/v1/semaphores", "Authorization: Bearer secret\r\n"): 200,
			request("/metrics", ""):                                       401,
			request("/nosuch", ""):                                        401,
			request("/healthz", ""):                                       200,
			post(`{"name":"s"}`):                                          401,
			"POST /v1/hold HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nContent-Length: 12\r\n\r\n{\"name\":\"s\"}": 200,
		} {
			if got := w.status(text); got != status {
				w.Errorf("%q: %d, want %d", text, got, status)
			}
		}
	})
}

// TestBounds: too many connections and too many names are refused, and free again later.
func TestBounds(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{Connections: 3, Names: 2})
		ask := func(name string) *program { return w.send(post(fmt.Sprintf(`{"name":%q}`, name))) }
		a, b := ask("a"), ask("b")
		a.wants("granted")
		b.wants("granted")
		c := ask("c")
		if e := c.next(); e.Status != http.StatusTooManyRequests || e.Error != "too_many_names" || e.header.Get("Retry-After") != "1" {
			w.Errorf("a third name: %+v", e)
		}
		c.wants("") // until then it is one of the connections
		again := ask("a")
		again.wants("queued")
		if e := ask("a").next(); e.Status != http.StatusTooManyRequests || e.Error != "too_many_connections" {
			w.Errorf("a fourth connection: %+v", e)
		}
		b.conn.Close()
		for ask("c").next().Event != "granted" {
			w.Pass(w.Tick()) // the agent gives b's permit back
		}
	})
}

// TestRefusedConnectionReadsWhy: whoever comes when the agent is full reads the refusal, whatever it
// sends, and the health has a place.
func TestRefusedConnectionReadsWhy(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		full := newWorld(e, Options{Connections: 1})
		holder := full.holds(1)
		for range 20 {
			p := full.send(post(`{"name":"s","label":"` + strings.Repeat("x", mostBody/2) + `"}`))
			if got := p.next(); got.Status != http.StatusTooManyRequests || got.Error != "too_many_connections" || got.header.Get("Retry-After") != "1" {
				full.Fatalf("one too many is told %+v", got)
			}
			p.wants("") // it does not keep its place
		}
		if status, text := full.shown("/healthz"); status != http.StatusOK {
			full.Errorf("the health is %d, %s", status, text)
		}
		if got := full.count(`berth_agent_requests_total{outcome="too_many_connections"}`); got < 20 {
			full.Errorf("%v were counted as refused", got)
		}
		full.Must(holder.conn.Close())
		for full.ask(1).next().Event != "granted" {
			full.Pass(full.Tick()) // the agent learns that there is a place
		}
	})
}

// get asks for a page.
func (w *world) get(path string) (status int, text string) {
	w.Helper()
	conn := w.connect("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.Must(err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	w.Must(err)
	return answer.StatusCode, string(b)
}

// shown is get for a page that asks Redis, which a busy machine may not let answer in time.
func (w *world) shown(path string) (status int, text string) {
	w.Helper()
	for {
		if status, text = w.get(path); w.Exact || status != http.StatusServiceUnavailable {
			return status, text
		}
	}
}

// status sends a request and returns the status of the answer.
func (w *world) status(text string) int {
	w.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(w.connect(text)), nil)
	w.Must(err)
	defer answer.Body.Close()
	return answer.StatusCode
}
