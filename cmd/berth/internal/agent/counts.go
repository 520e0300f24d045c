package agent

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// counts are the agent's metrics. None has a semaphore's name: there may be thousands, and
// berth serve has those.
type counts struct {
	registry         *prometheus.Registry
	connections      prometheus.Gauge
	holding, waiting prometheus.Gauge
	requests         *prometheus.CounterVec // by outcome
	ends             *prometheus.CounterVec // by reason
}

func newCounts() *counts {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	c := &counts{
		registry:    prometheus.NewRegistry(),
		connections: gauge("berth_agent_connections", "Open connections."),
		holding:     gauge("berth_agent_holding", "Requests that hold a permit."),
		waiting:     gauge("berth_agent_waiting", "Requests in a queue."),
		requests:    vec("berth_agent_requests_total", "Requests for a permit, by outcome: granted, gone, or the error of the refusal.", "outcome"),
		ends:        vec("berth_agent_holds_ended_total", "Permits that clients had, by how that ended.", "reason"),
	}
	c.registry.MustRegister(
		c.connections, c.holding, c.waiting, c.requests, c.ends,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return c
}

func (c *counts) handler() http.Handler {
	return promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{})
}

// waits notes whether h is in a queue.
func (c *counts) waits(h *hold, queued bool) {
	if h.queued == queued {
		return
	}
	if h.queued = queued; queued {
		c.waiting.Inc()
	} else {
		c.waiting.Dec()
	}
}

func (c *counts) granted() {
	c.requests.WithLabelValues("granted").Inc()
	c.holding.Inc()
}

// refused counts a request that got nothing; nil: its client had gone.
func (c *counts) refused(r *refusal) {
	outcome := gone
	if r != nil {
		outcome = r.Code
	}
	c.requests.WithLabelValues(outcome).Inc()
}

// ended counts the end of a hold.
func (c *counts) ended(why error) {
	c.holding.Dec()
	c.ends.WithLabelValues(endReason(why)).Inc()
}

// endReason is a word for the cause of an end: few, whatever happens.
func endReason(why error) string {
	switch {
	case errors.Is(why, errDone):
		return "released"
	case errors.Is(why, errSilent):
		return "silent"
	case errors.Is(why, errSlow):
		return "slow"
	case errors.Is(why, errGone):
		return "gone"
	case errors.Is(why, errStopping):
		return "shutdown"
	}
	return lostTo(why).Reason
}
