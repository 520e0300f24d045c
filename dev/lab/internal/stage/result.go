package stage

import (
	"time"

	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// Result is the result of one algorithm in one scenario. Fields that the scenario does
// not measure are zero, or nil where zero would be a good result.
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

	// The rest is for the charts. Window is the part of the run that the timeline shows.
	Requests []judge.Request `json:"-"`
	Moments  []judge.Excess  `json:"-"`
	Sorted   []time.Duration `json:"-"` // waits
	Window   judge.Span      `json:"-"`
}

// Limits says whether the limit was kept, judged by what the clients believed.
type Limits struct {
	Moments   int     `json:"moments_over"`
	WorstOver int     `json:"worst_over"`
	OverMS    float64 `json:"over_ms"`
	OverShare float64 `json:"over_share"` // of the time
	Stolen    int     `json:"permits_stolen"`
	MostHeld  int     `json:"most_held"`
}

// Rate says how much was done, and what it cost Redis.
type Rate struct {
	Acquires  int     `json:"acquires"`
	PerSecond float64 `json:"per_second"`
	Ideal     float64 `json:"ideal_per_second"`
	// Sent counts the commands that clients sent; Executed counts those that a real
	// server executed, including those in scripts.
	Sent     float64  `json:"commands_sent_per_acquire"`
	Executed *float64 `json:"commands_executed_per_acquire,omitempty"`
}

// Waits says how long clients waited and how often one overtook another.
type Waits struct {
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	Requests  int     `json:"requests"`
	Overtaken int     `json:"overtaken"`
	MostBy    int     `json:"most_overtaken_by"`
}

// Crash says what became of the permits of killed processes.
type Crash struct {
	BackMS []float64 `json:"back_ms"` // until each permit was in use again
	// Early counts those that were granted again long before they had timed out.
	Early int `json:"early"`
	// StallMS is how long the next client waited, although permits were free, after a
	// process had been killed in the middle of its acquire.
	StallMS float64 `json:"stall_ms"`
}

// Pause says what a process did after it had been stopped for longer than its time-out.
type Pause struct {
	StoppedMS float64 `json:"stopped_ms"`
	Told      bool    `json:"told"`      // it learned of its loss before it had finished
	AwakeMS   float64 `json:"awake_ms"`  // from waking until it was told, or released
	Reported  bool    `json:"reported"`  // its release reported that the permit was held
	OthersMS  float64 `json:"others_ms"` // from the stop until another client had the permit
}

// Cut says what became of releases during which the connection was cut.
type Cut struct {
	Lost       int     `json:"requests_lost"`
	LostBackMS float64 `json:"lost_back_max_ms"` // until the next client had the permit
	Replies    int     `json:"replies_lost"`
	BackMS     float64 `json:"reply_back_max_ms"`
	Wrong      int     `json:"wrong_reports"` // releases whose repetition reported a time-out
}

// Point is the cost of an acquire and release with so many other holders.
type Point struct {
	Holders  int      `json:"holders"`
	Pairs    int      `json:"pairs"`
	P50US    float64  `json:"pair_p50_us"`
	ServerUS *float64 `json:"server_us_per_pair,omitempty"`
}

// judged fills in what follows from the beliefs.
func (r *Result) judged(requests []judge.Request, run time.Duration) {
	r.Seconds = run.Seconds()
	r.Requests = requests
	v := judge.Limit(requests, r.Limit)
	r.Moments = v.Moments
	r.Limits = &Limits{
		Moments: len(v.Moments), WorstOver: v.Worst, OverMS: Millis(v.Over),
		OverShare: v.Over.Seconds() / run.Seconds(), Stolen: v.Stolen, MostHeld: v.Held,
	}
	r.Window = judge.Span{To: run}
}

// waited fills in what follows from the waits.
func (r *Result) waited() {
	r.Sorted = judge.Waits(r.Requests)
	o := judge.Overtakings(r.Requests)
	r.Waits = &Waits{
		P50MS: Millis(quantile.Of(r.Sorted, 0.5)), P99MS: Millis(quantile.Of(r.Sorted, 0.99)),
		MaxMS:    Millis(quantile.Of(r.Sorted, 1)),
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

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
