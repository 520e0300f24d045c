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
	"path/filepath"
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

var pictures = flag.String("pictures", "", "write the pictures of the docs into this `DIRECTORY`")

// columns is the width of a picture's screen.
const columns = 104

// workers are those of one semaphore.
type workers struct {
	name        string
	limit, size int
	work, rest  time.Duration
	weight      int
	rate        int // a minute; 0: none
}

// TestPicture records two screens after a minute of real semaphores in an embedded store, the
// list and one semaphore:
//
//	go test ./cmd/berth/internal/top -run TestPicture -pictures "$PWD/docs/img"
func TestPicture(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		ctx, stop := context.WithCancel(e.Ctx)
		var working sync.WaitGroup
		t.Cleanup(func() { stop(); working.Wait() })
		for _, c := range []workers{
			{"github-api", 5, 9, 3 * time.Second, 2 * time.Second, 1, 0},
			{"partner-api", 5, 5, 8 * time.Second, 3 * time.Second, 1, 8},
			{"deploy/production", 1, 4, 25 * time.Second, time.Minute, 1, 0},
			{"db/reports", 8, 4, 7 * time.Second, 5 * time.Second, 3, 0},
			{"thumbnails", 12, 7, 2 * time.Second, time.Second, 1, 0},
			{"mail/outgoing", 4, 3, 5 * time.Second, 9 * time.Second, 1, 0},
			{"search/reindex", 2, 3, 4 * time.Second, 4 * time.Second, 1, 0},
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
		m.Update(tea.WindowSizeMsg{Width: columns, Height: 13})
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
		list := draw("berth top: all semaphores", m.View().Content)
		m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
		m.Update(tea.WindowSizeMsg{Width: columns, Height: 20})
		step(3 * time.Second)
		one := draw("berth top: one semaphore", m.View().Content)
		list.has(e, "deploy/production", "paused", "pinned", "rate spent")
		one.has(e, "web-3:", "has held longest")
		if *pictures != "" {
			e.Must(os.WriteFile(filepath.Join(*pictures, "top.svg"), []byte(list), 0o644))
			e.Must(os.WriteFile(filepath.Join(*pictures, "top-semaphore.svg"), []byte(one), 0o644))
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
	if c.rate > 0 {
		terms.Rates, _ = protocol.JoinRates(protocol.Rate{N: c.rate, Per: time.Minute})
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

// picture is a screen as SVG.
type picture string

// has fails unless the picture is well formed and has these texts.
func (p picture) has(e *testenv.Env, texts ...string) {
	for _, want := range texts {
		if !strings.Contains(string(p), want) {
			e.Errorf("%q is not in the picture", want)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(string(p))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			e.Fatal(err)
		}
	}
}

// draw draws a screen. Each text asks for its spaces by itself: browsers do not take xml:space from
// the root, which is for other viewers.
func draw(title, screen string) picture {
	const w, h, edge = 8.4, 18.0, 14.0
	var body strings.Builder
	y := edge
	for l := range strings.SplitSeq(screen, "\n") {
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
	return picture(fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.1f %.1f\" font-family=\"ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace\" font-size=\"14\" fill=\"#c9d1d9\" xml:space=\"preserve\">\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#0d1117\"/>\n%s</svg>\n",
		w*columns+2*edge, y+edge, title, &body))
}
