package report

import (
	"fmt"

	"github.com/berth-go/berth/dev/internal/chart"
)

// ms formats milliseconds with a sensible precision.
func ms(v float64) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.1f s", v/1000)
	case v >= 10:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.2f ms", v)
	}
}

func micros(us float64) string {
	if us >= 10_000 {
		return ms(us / 1000)
	}
	return chart.Group(us) + " µs"
}

// percent formats a share. It rounds neither up to 100 % nor down to 0 %.
func percent(share float64) string {
	switch p := share * 100; {
	case p == 0:
		return "0 %"
	case p < 0.1:
		return "< 0.1 %"
	case p < 10:
		return fmt.Sprintf("%.1f %%", p)
	case p > 99 && p < 100:
		return "> 99 %"
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// ratio formats a factor.
func ratio(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f times", x)
	}
	return fmt.Sprintf("%.1f times", x)
}

// times formats a count of events.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return chart.Group(n) + " times"
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return chart.Group(n) + " " + noun + "s"
}
