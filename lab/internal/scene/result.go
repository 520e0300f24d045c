package scene

import (
	"time"

	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// Result is what one algorithm did in one scenario. Fields that the scenario
// does not measure are zero, or nil where zero would be a good result.
type Result struct {
	Scenario  string  `json:"scenario"`
	Algorithm string  `json:"algorithm"`
	Title     string  `json:"-"`
	Limit     int     `json:"limit"`
	Clients   int     `json:"clients"`
	Seconds   float64 `json:"seconds"`
	TimeoutMS float64 `json:"timeout_ms"`

	Limits *Limits `json:"limit_kept,omitempty"`
	Rate   *Rate   `json:"rate,omitempty"`
	Waits  *Waits  `json:"waits,omitempty"`
	Crash  *Crash  `json:"crash,omitempty"`
	Pause  *Pause  `json:"pause,omitempty"`
	Cut    *Cut    `json:"release,omitempty"`
	Growth []Point `json:"growth,omitempty"`

	// For the pictures. Window is the part of the run that is worth a look.
	Requests []judge.Request `json:"-"`
	Moments  []judge.Excess  `json:"-"`
	Sorted   []time.Duration `json:"-"` // waits
	Window   judge.Span      `json:"-"`
}

// Limits is whether the limit was kept, by what the clients believed.
type Limits struct {
	Moments   int     `json:"moments_over"`
	WorstOver int     `json:"worst_over"`
	OverMS    float64 `json:"over_ms"`
	OverShare float64 `json:"over_share"` // of the time
	Stolen    int     `json:"permits_stolen"`
	MostHeld  int     `json:"most_held"`
}

// Rate is how much got done, and what it cost Redis.
type Rate struct {
	Acquires  int     `json:"acquires"`
	PerSecond float64 `json:"per_second"`
	Ideal     float64 `json:"ideal_per_second"`
	// Sent counts the commands that clients sent, Executed those that a real
	// server says it executed, what scripts call included.
	Sent     float64  `json:"commands_sent_per_acquire"`
	Executed *float64 `json:"commands_executed_per_acquire,omitempty"`
}

// Waits is how long clients waited and who passed whom.
type Waits struct {
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	Requests  int     `json:"requests"`
	Overtaken int     `json:"overtaken"`
	MostBy    int     `json:"most_overtaken_by"`
}

// Crash is what became of the permits of killed processes.
type Crash struct {
	BackMS []float64 `json:"back_ms"` // until each permit was in use again
	// Early is how many of them were given away long before they had timed out.
	Early int `json:"early"`
	// StallMS is how long the next client waited after a process had been killed
	// in the middle of its acquire, with permits free.
	StallMS float64 `json:"stall_ms"`
}

// Pause is what a process did that had been stopped past its time-out.
type Pause struct {
	StoppedMS float64 `json:"stopped_ms"`
	Told      bool    `json:"told"`      // it heard of its loss before it was done
	AwakeMS   float64 `json:"awake_ms"`  // from waking until it was told, or released
	Reported  bool    `json:"reported"`  // its release said that all was well
	OthersMS  float64 `json:"others_ms"` // from the stop until another had the permit
}

// Cut is what came of releases during which the connection was cut.
type Cut struct {
	Lost       int     `json:"requests_lost"`
	LostBackMS float64 `json:"lost_back_max_ms"` // until the next client had the permit
	Replies    int     `json:"replies_lost"`
	BackMS     float64 `json:"reply_back_max_ms"`
	Wrong      int     `json:"wrong_reports"` // releases, repeated, said "it had timed out"
}

// Point is the cost of an acquire and release with so many other holders.
type Point struct {
	Holders  int      `json:"holders"`
	Pairs    int      `json:"pairs"`
	P50US    float64  `json:"pair_p50_us"`
	ServerUS *float64 `json:"server_us_per_pair,omitempty"`
}

// judged fills in what the beliefs say.
func (r *Result) judged(requests []judge.Request, run time.Duration) {
	r.Seconds = run.Seconds()
	r.Requests = requests
	v := judge.Limit(requests, r.Limit)
	r.Moments = v.Moments
	r.Limits = &Limits{
		Moments: len(v.Moments), WorstOver: v.Worst, OverMS: millis(v.Over),
		OverShare: v.Over.Seconds() / run.Seconds(), Stolen: v.Stolen, MostHeld: v.Held,
	}
	r.Window = judge.Span{To: run}
}

// waited fills in what the waits say.
func (r *Result) waited() {
	r.Sorted = judge.Waits(r.Requests)
	o := judge.Overtakings(r.Requests)
	r.Waits = &Waits{
		P50MS: millis(quantile.Of(r.Sorted, 0.5)), P99MS: millis(quantile.Of(r.Sorted, 0.99)),
		MaxMS:    millis(quantile.Of(r.Sorted, 1)),
		Requests: o.Requests, Overtaken: o.Overtaken, MostBy: o.Most,
	}
}

// granted counts the requests that got a permit.
func granted(requests []judge.Request) (n int) {
	for _, r := range requests {
		if r.Granted {
			n++
		}
	}
	return n
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
