package report

import (
	_ "embed"
	"io"

	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/scene"
	"github.com/berth-go/berth/dev/internal/chart"
)

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

// view is the data of the page.
type view struct {
	*result.Report
	Conditions []string
	Met, All   int
	Targets    chart.Table
	Sections   []section
}

type section struct {
	*scene.Scenario
	Charts []*chart.Chart
	Tables []chart.Table
}

// HTML writes the report as a single page without scripts or external resources.
func HTML(w io.Writer, r *result.Report) error {
	v := view{Report: r, Conditions: conditions(r), Targets: Verdicts(r)}
	for _, verdict := range r.Verdicts {
		if verdict.Result != result.Unmeasured {
			v.All++
		}
		if verdict.Result == result.Met {
			v.Met++
		}
	}
	for _, s := range r.Scenarios {
		sec := section{Scenario: s, Tables: tables(r, s)}
		if len(sec.Tables) == 0 {
			continue
		}
		for _, c := range charts(r, s) {
			if c != nil {
				sec.Charts = append(sec.Charts, c)
			}
		}
		v.Sections = append(v.Sections, sec)
	}
	return page.Execute(w, v)
}

// charts returns the charts of a scenario. A chart without data is nil.
func charts(r *result.Report, s *scene.Scenario) []*chart.Chart {
	switch s.Key {
	case "pair":
		return []*chart.Chart{distribution(r, s.Key, "1", "p50-µs", "How long a pair takes")}
	case "hot", "spread":
		return []*chart.Chart{growth(r, s, "pairs/s", "Throughput", "goroutines")}
	case "cpu":
		return []*chart.Chart{bars(r, s.Key, "batched", "cpu-µs", "CPU time of the server for a pair, 256 goroutines on one name")}
	case "contended":
		return []*chart.Chart{
			bars(r, s.Key, "5", "commands", "Commands sent for each acquire, 5 permits"),
			bars(r, s.Key, "1", "commands", "Commands sent for each acquire, 1 permit"),
			distribution(r, s.Key, "5", "wait-p50-µs", "Who waited how long, 5 permits"),
		}
	case "handoff":
		return []*chart.Chart{distribution(r, s.Key, "3ms", "p50-µs", "From release to the waiter's return")}
	case "holders":
		return []*chart.Chart{growth(r, s, "server-µs", "Server time for a pair", "live holders")}
	case "waiters":
		return []*chart.Chart{growth(r, s, "server-µs", "Server time for a turn of the permit", "waiters")}
	case "rate":
		return []*chart.Chart{bars(r, s.Key, "100", "commands", "Commands sent for each grant")}
	default:
		return nil
	}
}
