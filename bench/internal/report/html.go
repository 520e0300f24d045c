package report

import (
	_ "embed"
	"io"

	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/internal/chart"
)

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

// view is what the page shows.
type view struct {
	*result.Report
	Conditions []string
	Met, All   int
	Targets    Table
	Sections   []section
	Missing    []string
}

type section struct {
	Key, Title, About string
	Charts            []*chart.Chart
	Tables            []Table
}

// HTML writes the report as one page that needs nothing else, no scripts and no
// network.
func HTML(w io.Writer, r *result.Report) error {
	v := view{Report: r, Conditions: conditions(r), Targets: verdictTable(r)}
	for _, verdict := range r.Verdicts {
		if verdict.Result != result.Unmeasured {
			v.All++
		}
		if verdict.Result == result.Met {
			v.Met++
		}
	}
	for _, s := range r.Scenes {
		sec := section{Key: s.Key, Title: s.Title, About: s.About, Tables: tables(r, s)}
		if len(sec.Tables) == 0 {
			continue
		}
		for _, c := range charts(r, s.Key) {
			if c != nil {
				sec.Charts = append(sec.Charts, c)
			}
		}
		v.Sections = append(v.Sections, sec)
	}
	for _, s := range r.Skipped {
		v.Missing = append(v.Missing, skipped(r, s))
	}
	return page.Execute(w, v)
}

// charts returns the pictures of a scenario; nil ones have nothing to show.
func charts(r *result.Report, scenario string) []*chart.Chart {
	switch scenario {
	case "pair":
		return []*chart.Chart{distribution(r, scenario, "1", "p50 µs", "How long a pair takes, up to the 99th percentile", "µs, at most")}
	case "hot", "spread":
		return []*chart.Chart{growth(r, scenario, "pairs/s", "Throughput", "goroutines")}
	case "cpu":
		return []*chart.Chart{bars(r, scenario, "batched", "cpu µs", "CPU time of the server for a pair, 256 goroutines on one name")}
	case "contended":
		return []*chart.Chart{
			bars(r, scenario, "5", "commands", "Commands sent for each acquire, 5 permits"),
			bars(r, scenario, "1", "commands", "Commands sent for each acquire, 1 permit"),
			distribution(r, scenario, "5", "wait p50 µs", "Who waited how long, 5 permits, up to the 99th percentile", "µs, at most"),
		}
	case "handoff":
		return []*chart.Chart{distribution(r, scenario, "3ms", "p50 µs", "From release to the waiter's return, up to the 99th percentile", "µs, at most")}
	case "holders":
		return []*chart.Chart{growth(r, scenario, "server µs", "Server time for a pair", "live holders")}
	case "waiters":
		return []*chart.Chart{growth(r, scenario, "server µs", "Server time for a turn of the permit", "waiters")}
	default:
		return nil
	}
}
