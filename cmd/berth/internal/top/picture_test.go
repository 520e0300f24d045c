package top

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-go/berth/berthwatch"
	scr "github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var picture = flag.String("picture", "", "write the picture for the README into this `FILE`")

// workers are those of one semaphore.
type workers struct {
	name        string
	limit, size int
	work, rest  time.Duration
	weight      int
}

// TestPicture records the screen after a minute of real semaphores in an embedded store:
//
//	go test ./cmd/berth/internal/top -run TestPicture -picture "$PWD/docs/img/top.svg"
func TestPicture(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		ctx, stop := context.WithCancel(e.Ctx)
		var working sync.WaitGroup
		t.Cleanup(func() { stop(); working.Wait() })
		for _, c := range []workers{
			{"github-api", 5, 9, 3 * time.Second, 2 * time.Second, 1},
			{"deploy/production", 1, 4, 25 * time.Second, time.Minute, 1},
			{"db/reports", 8, 4, 7 * time.Second, 5 * time.Second, 3},
			{"thumbnails", 12, 7, 2 * time.Second, time.Second, 1},
			{"mail/outgoing", 4, 3, 5 * time.Second, 9 * time.Second, 1},
			{"search/reindex", 2, 3, 4 * time.Second, 4 * time.Second, 1},
		} {
			for i := range c.size {
				working.Go(func() { c.worker(ctx, e, i) })
			}
		}
		s := berthwatch.New(e.Inspector.Inspector, berthwatch.Options{})
		working.Go(func() { s.Run(ctx) })
		m := New(Config{
			Look: s.Look, Detail: s.Detail, Refresh: s.Refresh, History: s.History, Flow: s.Flow, Command: "berth",
			Server: func(context.Context) string { return "redis 7.0.15" },
			Do:     func(context.Context, berthwatch.Action) error { return nil },
		})
		m.Update(m.askServer())
		m.Update(tea.WindowSizeMsg{Width: 104, Height: 15})
		step := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); e.Pass(frame) {
				m.Update(tickMsg(time.Now()))
			}
		}
		e.Pass(15 * time.Second) // everybody has begun
		step(40 * time.Second)
		e.Must(e.Inspector.Pause(ctx, "search/reindex"))
		e.Must(e.Inspector.Pin(ctx, "mail/outgoing", 2))
		step(22 * time.Second)
		screens := []string{m.View().Content}
		m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
		m.Update(tea.WindowSizeMsg{Width: 104, Height: 20})
		step(3 * time.Second)
		screens = append(screens, m.View().Content)
		text := svg(screens, 104)
		for _, want := range []string{"deploy/production", "paused", "pinned", "web-3:", "has held longest"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in the picture", want)
			}
		}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if *picture != "" {
			e.Must(os.WriteFile(*picture, []byte(text), 0o644))
		}
	})
}

// worker takes permits, works and rests, again and again, as a process of its own.
func (c workers) worker(ctx context.Context, e *testenv.Env, i int) {
	channel := fmt.Sprintf("%.4s%03d", strings.ReplaceAll(c.name, "/", "")+"xxxx", i)
	store := protocol.NewStore(e.Redis, e.Prefix, channel, 4000+17*i+len(c.name), fmt.Sprint("web-", i%4+1))
	key := store.Key(c.name)
	terms := &protocol.Terms{
		Wait: true, Weight: c.weight, TTL: 30 * time.Second, Heartbeat: 10 * time.Second, QueueLimit: 100, Limit: c.limit,
		Label: fmt.Sprint(strings.SplitN(c.name, "/", 2)[0], "-", i),
	}
	pass := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for n := 0; pass(c.rest * time.Duration(i+1) / time.Duration(c.size)); n++ {
		op := protocol.Op{Verb: protocol.Acquire, ID: fmt.Sprintf("%s.%x%04x-%d", channel, 40961*(i+7), 7919*(i+3), n), Terms: terms}
		for {
			ops := []protocol.Op{op}
			if _, err := store.Do(ctx, key, 0, ops); err != nil || ops[0].Result.Code == protocol.Granted {
				break
			}
			if !pass(time.Second) {
				return
			}
		}
		if !pass(c.work + time.Duration(i)*300*time.Millisecond) {
			return
		}
		_, _ = store.Do(ctx, key, 0, []protocol.Op{{Verb: protocol.Release, ID: op.ID}})
	}
}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// colour is how a terminal with a dark background shows what an escape asks for.
var colour = map[string]string{
	"1": `font-weight="bold" fill="#ffffff"`, "2": `fill="#8b949e"`, "7": `fill="#0d1117"`, "31": `fill="#ff7b72"`,
	"32": `fill="#7ee787"`, "33": `fill="#e3b341"`, "1;31": `font-weight="bold" fill="#ff7b72"`,
}

// svg draws screens of so many columns, one below the other. Each text asks for its spaces by
// itself: browsers do not take xml:space from the root, which is for other viewers.
func svg(screens []string, columns int) string {
	const w, h, edge = 8.4, 18.0, 14.0
	var b strings.Builder
	y := edge
	for _, s := range screens {
		top := y
		var body strings.Builder
		for l := range strings.SplitSeq(s, "\n") {
			x, look := edge, ""
			text := func(s string) {
				if look == "7" {
					fmt.Fprintf(&body, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#c9d1d9\"/>\n", x, y+4, w*float64(scr.Columns(s)), h)
				}
				if trimmed := strings.TrimRight(s, " "); trimmed != "" {
					fmt.Fprintf(&body, "<text x=\"%.1f\" y=\"%.1f\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\" style=\"white-space:pre\" %s>%s</text>\n", x, y+h, w*float64(scr.Columns(trimmed)), colour[look], html.EscapeString(trimmed))
				}
				x += w * float64(scr.Columns(s))
			}
			for {
				at := escape.FindStringSubmatchIndex(l)
				if at == nil {
					text(l)
					break
				}
				text(l[:at[0]])
				look, l = l[at[2]:at[3]], l[at[1]:]
			}
			y += h
		}
		fmt.Fprintf(&b, "<rect x=\"0\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" fill=\"#0d1117\"/>\n%s", top-edge, w*float64(columns)+2*edge, y-top+2*edge, body.String())
		y += 3 * edge
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.1f %.1f\" font-family=\"ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace\" font-size=\"14\" fill=\"#c9d1d9\" xml:space=\"preserve\">\n<title>berth top: a list of semaphores, and one of them in detail</title>\n%s</svg>\n",
		w*float64(columns)+2*edge, y-2*edge, b.String())
}
