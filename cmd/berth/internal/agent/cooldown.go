package agent

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/rules"
)

// cooldown is a request for a pause that ends by itself.
type cooldown struct {
	name  string
	lasts time.Duration
	client
}

var cooldownFields = []field[cooldown]{
	{"name", text(berth.MaxName, rules.Name, func(c *cooldown, s string) { c.name = s })},
	{"for_ms", millis(berth.MinTTL, berth.MaxTTL, func(c *cooldown, d time.Duration) { c.lasts = d })},
	{"label", text(berth.MaxLabel, rules.Text, func(c *cooldown, s string) { c.label = s })},
	{"pid", number(1, math.MaxInt32, func(c *cooldown, n int) { c.pid = n })},
}

// parseAll reads a request, of which each field must be there unless it says more of the client.
func parseAll[T any](body []byte, fields []field[T], into *T) *refusal {
	given, err := object(body)
	if err != nil {
		return invalid(err.Error(), nil)
	}
	wrong := wrongs{}
	fill(given, fields, into, wrong, "")
	for name := range given.values {
		if !has(fields, name) {
			wrong.add(name, "there is no such field")
		}
	}
	for _, f := range fields {
		if _, ok := given.values[f.name]; !ok && f.name != "label" && f.name != "pid" {
			wrong.add(f.name, "it is missing")
		}
	}
	if len(wrong) > 0 {
		return invalid("", wrong)
	}
	return nil
}

// cool pauses a semaphore for all programs, for a time.
func (a *Agent) cool(w http.ResponseWriter, r *http.Request) {
	body, refused := readAll(w, r)
	c := &cooldown{}
	if refused == nil {
		refused = parseAll(body, cooldownFields, c)
	}
	if refused == nil {
		refused = a.enter(c.name)
	}
	if refused != nil {
		refused.write(w)
		return
	}
	defer a.leave(c.name)
	sem, err := a.client.Semaphore(c.name, 0)
	if err == nil {
		c.introduce(peerOf(connOf(r)))
		err = a.options.Health.UnlessRefused(r.Context(), func(ctx context.Context, _ func()) error {
			return internals.Cooldown(ctx, sem, c.lasts, c.label, c.pid)
		})
		a.learn(err)
	}
	answer(w, map[string]string{"event": "paused"}, err)
}
