package berthprom

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/words"
)

// metric is a metric that is exported.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// all metrics, for Describe.
var all []metric

func gauge(name, help string, labels ...string) metric {
	return describe(prometheus.GaugeValue, name, help, labels)
}

func histogram(name, help string) metric { return describe(0, name, help, nil) }

func counter(name, help string, labels ...string) metric {
	return describe(prometheus.CounterValue, name, help, labels)
}

func describe(kind prometheus.ValueType, name, help string, labels []string) metric {
	m := metric{prometheus.NewDesc("berth_"+name, help, labels, nil), kind}
	all = append(all, m)
	return m
}

// nameLabel is also that of berthotel, as Prometheus writes it.
const nameLabel = "berth_semaphore_name"

// Of a semaphore, or of several that are counted together.
var (
	permitsLimit    = gauge("permits_limit", "Permits that may be out at once: the pin, or what was last declared. Absent while there is none, and for no limit.", nameLabel)
	permitsDeclared = gauge("permits_declared", "Limit that programs have last declared. Absent while there is none, and for no limit.", nameLabel)
	permitsInUse    = gauge("permits_in_use", "Permits that are out.", nameLabel)
	leases          = gauge("leases", "Leases that are out.", nameLabel)
	requestsWaiting = gauge("requests_waiting", "Requests in the queue.", nameLabel)
	oldestWait      = gauge("queue_oldest_wait_seconds", "How long the first in the queue has waited. Absent when nobody waits; where several are counted together, without those that are paused or frozen.", nameLabel)
	oldestLease     = gauge("lease_oldest_seconds", "How long the oldest lease has been held. Absent above 500 holders and waiters.", nameLabel)
	leaseCeiling    = gauge("lease_ceiling_seconds", "Time until the next lease comes to its MaxHold. Absent where none has one, and above 500 holders and waiters.", nameLabel)
	paused          = gauge("paused", "Whether an operator has paused it.", nameLabel)
	pauseRemaining  = gauge("pause_remaining_seconds", "Time until its pause ends by itself. Absent where none does.", nameLabel)
	pinned          = gauge("pinned", "Whether an operator has pinned its limit or its rates.", nameLabel)
	rateCosts       = gauge("rate_costs", "Costs that may be granted in any window of a rate or, with a burst, at once.", nameLabel, "unit", "window")
	rateWindow      = gauge("rate_window_seconds", "Length of the window of a rate.", nameLabel, "unit", "window")
	rateSpent       = gauge("rate_spent", "Costs of the grants that count for a rate.", nameLabel, "unit", "window")
	limitChanges    = counter("limit_changes_total", "Declarations that have changed the limit or the rate, as far as the exporter has seen.", nameLabel)
)

// Of the server, and of the exporter.
var (
	semaphores     = gauge("semaphores", "Semaphores in use, by state. One may have several states.", "state")
	events         = counter("events_total", "Events that were heard since the exporter began. Absent while it does not hear any.", "event")
	up             = gauge("up", "Whether Redis answers, however late, is sampled, and may be searched for names. It is 0 within 3 seconds of an outage.")
	sampleAge      = gauge("sample_age_seconds", "Time since the sample that the other metrics are made of.")
	roundTrip      = histogram("redis_round_trip_seconds", "Round trips of a PING about each second, as the exporter sees them.")
	sampleDuration = gauge("sample_duration_seconds", "Time that Redis spends on a sample.")
	namesAge       = gauge("names_age_seconds", "Time since the last complete search for names began: semaphores that came into use since may be missing. Absent where names are given.")
	scanDuration   = gauge("scan_duration_seconds", "Time that the last search for names took, with its pauses; 0 where they are given.")
	dropped        = gauge("names_dropped", "Semaphores that are not looked at, because there are too many.")
	redisInfo      = gauge("redis_info", "What Redis says of itself; in a Cluster, one of its nodes.", "version", "policy", "role")
	redisRefusals  = counter("redis_refusals_total", "Errors by which Redis has refused to write, for whatever client, since it started; in a Cluster, one of its nodes. At most a minute old.", "error_type")
	buildInfo      = gauge("build_info", "What the exporter was built from.", "version", "goversion")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range all {
		ch <- m.desc
	}
}

// sink is where metrics go.
type sink chan<- prometheus.Metric

// add sends a metric. A server may report anything about itself, and Prometheus refuses a
// whole scrape if any of it is not UTF-8.
func (out sink) add(m metric, value float64, labels ...string) {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// trips sends the histogram of round trips.
func (out sink) trips(r *berthwatch.RoundTrips) {
	buckets := map[float64]uint64{}
	for i, n := range r.Within {
		buckets[berthwatch.TripBounds[i].Seconds()] = n
	}
	out <- prometheus.MustNewConstHistogram(roundTrip.desc, r.Count, r.Sum.Seconds(), buckets)
}

// series sends the metrics of a label, as of at.
func (out sink) series(label string, s *series, at time.Time) {
	if s.limited { // else its 0 would mean that it is frozen
		out.add(permitsLimit, float64(s.limit), label)
	}
	if s.declares {
		out.add(permitsDeclared, float64(s.declared), label)
	}
	out.add(permitsInUse, float64(s.permits), label)
	out.add(leases, float64(s.leases), label)
	out.add(requestsWaiting, float64(s.waiting), label)
	wait := s.oldestWait
	if s.several { // others are not stuck because one is to wait
		wait = s.openWait
	}
	if s.waiting > 0 && (wait > 0 || !s.several) {
		out.add(oldestWait, wait.Seconds(), label)
	}
	if !s.oldest.IsZero() {
		out.add(oldestLease, at.Sub(s.oldest).Seconds(), label)
	}
	if !s.ceiling.IsZero() {
		out.add(leaseCeiling, max(s.ceiling.Sub(at).Seconds(), 0), label)
	}
	for _, r := range s.rates {
		window := words.Duration(r.window)
		out.add(rateCosts, float64(r.most), label, r.unit, window)
		out.add(rateWindow, r.window.Seconds(), label, r.unit, window)
		out.add(rateSpent, float64(r.spent), label, r.unit, window)
	}
	out.add(paused, number(s.paused), label)
	if s.pauseFor > 0 && !s.endless {
		out.add(pauseRemaining, s.pauseFor.Seconds(), label)
	}
	out.add(pinned, number(s.pinned), label)
	out.add(limitChanges, s.changes, label)
}

// refusals sends what the server has refused, by the code of its error.
func (out sink) refusals(r berthadmin.Refusals) {
	for code, n := range map[string]int64{"OOM": r.OOM, "READONLY": r.ReadOnly, "MISCONF": r.Misconf, "NOREPLICAS": r.NoReplicas} {
		out.add(redisRefusals, float64(n), code)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var eventKinds = []berthadmin.EventKind{berthadmin.EventHandoff, berthadmin.EventExpired, berthadmin.EventEvicted, berthadmin.EventTooHeavy}

// count counts semaphores by state.
func count(rows []berthwatch.Row) map[string]int {
	n := map[string]int{"all": 0, "contended": 0, "paused": 0, "pinned": 0, "damaged": 0, "newer": 0}
	for _, r := range rows {
		if !r.Idle && !errors.Is(r.Err, berth.ErrInvalid) {
			n["all"]++
		}
		var damage *berth.CorruptError
		switch {
		case errors.As(r.Err, &damage) && damage.Newer:
			n["newer"]++
		case r.Err != nil && !errors.Is(r.Err, berth.ErrInvalid): // for which there are no keys
			n["damaged"]++
		}
		for state, is := range map[string]bool{"contended": r.Waiting > 0, "paused": r.Paused, "pinned": r.Pinned || r.RatesPinned} {
			if is {
				n[state]++
			}
		}
	}
	return n
}

// What this program was built from.
var version, goVersion = built(), runtime.Version()

func built() string {
	const library = "github.com/berth-go/berth"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == library && m.Version != "(devel)" { // as it is in a checkout
			return m.Version
		}
	}
	return info.Main.Version
}
