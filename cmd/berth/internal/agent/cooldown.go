package agent

import (
	"errors"
	"io"
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

// parseCooldown reads one. The refusal names each field that is wrong.
func parseCooldown(body []byte) (*cooldown, *refusal) {
	given, err := object(body)
	if err != nil {
		return nil, invalid(err.Error(), nil)
	}
	c, wrong := &cooldown{}, wrongs{}
	fill(given, cooldownFields, c, wrong, "")
	for name := range given.values {
		if !has(cooldownFields, name) {
			wrong.add(name, "there is no such field")
		}
	}
	for _, name := range []string{"name", "for_ms"} {
		if _, ok := given.values[name]; !ok {
			wrong.add(name, "it is missing")
		}
	}
	if len(wrong) > 0 {
		return nil, invalid("", wrong)
	}
	return c, nil
}

// cool pauses a semaphore for all programs, for a time.
func (a *Agent) cool(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		refusedSize.write(w)
		return
	case err != nil:
		refusedLate.write(w)
		return
	}
	c, refused := parseCooldown(body)
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
		err = internals.Cooldown(r.Context(), sem, c.lasts, c.label, c.pid)
		a.learn(err)
	}
	answer(w, map[string]string{"event": "paused"}, err)
}
