package browser

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// hostile is a name of somebody who means harm.
const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>`

// furnish makes semaphores of all kinds: contended, paused, pinned, damaged, of hostile names.
func furnish(e *testenv.Env) {
	e.Helper()
	p := e.Peer()
	for _, c := range []struct {
		name             string
		limit, hold, que int
	}{
		{"github-api", 5, 5, 4}, {"deploy/production", 1, 1, 2}, {"db/reports", 8, 3, 0}, {"thumbnails", 12, 7, 0}, {hostile, 3, 2, 0}, {strings.Repeat("averylongname", 12), 2, 1, 0},
	} {
		for i := range c.hold {
			e.Hold(p.Named(c.name, c.limit, berth.Label(fmt.Sprint("worker-", i+1))))
		}
		for i := range c.que {
			e.Queue(p.Named(c.name, c.limit, berth.Label(fmt.Sprint("next-", i+1))))
		}
	}
	ann := e.Inspector.Because("ann@ops-1", "API migration")
	e.Must(ann.Pause(e.Ctx, "search/reindex"))
	e.Must(ann.Pin(e.Ctx, "thumbnails", 9))
	e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{broken}", "x", 0).Err())
}

// TestEveryPage has no error in the console, follows the policy, and fits: at the width of a
// telephone and of a desk, light and dark.
func TestEveryPage(t *testing.T) {
	e := testenv.Shared(t)
	furnish(e)
	s := serve(e, e.Inspector.Inspector)
	in := browser(t)
	pages := []struct{ name, path, says string }{
		{"list", "", "deploy/production"},
		{"filtered", "?state=contended", "github-api"},
		{"semaphore", "s?name=github-api", "next-4"},
		{"paused", "s?name=search/reindex", "API migration"},
		{"damaged", "s?name=broken", "damaged"},
		{"hostile", "s?name=" + "%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E%3Cscript%3Ealert(2)%3C%2Fscript%3E", "onerror"},
		{"audit", "audit", "API migration"},
		{"doctor", "doctor", "append-only"},
		{"about", "about", "looked at"},
		{"question", "act?verb=purge&name=github-api", "berth purge github-api"},
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1440} {
			b := newTab(in, t)
			b.run(
				chromedp.EmulateViewport(width, 900),
				call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}),
			)
			for _, p := range pages {
				b.run(chromedp.Navigate(s.url + p.path))
				b.says(p.says)
				if over := eval[int64](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
					t.Errorf("%s is %d px wider than %d", p.name, over, width)
				}
				if n := eval[int](b, "document.querySelectorAll('img, script:not([src$=\"static/app.js\"]), [style], [onerror]').length"); n > 0 {
					t.Errorf("%s has %d elements that are not ours", p.name, n)
				}
				if n := eval[int](b, "[...document.querySelectorAll('input:not([type=hidden])')].filter(f => !f.labels.length).length"); n > 0 {
					t.Errorf("%s has %d fields without a label", p.name, n)
				}
				b.shot(fmt.Sprintf("%s-%d-%s", p.name, width, scheme))
				b.silent()
			}
			dark := eval[bool](b, "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0] < 128")
			if dark != (scheme == "dark") {
				t.Errorf("%s looks dark: %v", scheme, dark)
			}
		}
	}
}

// focus is the id of what has the focus.
const focus = "(document.activeElement.id || document.activeElement.value || '')"

// key presses keys, one after the other.
func (b *tab) key(keys string) {
	b.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// taken presses a key that the page takes for itself: it types nothing.
func (b *tab) taken(name string) {
	b.Helper()
	b.run(call(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: name}))
}

// tabTo presses Tab until something has the focus.
func (b *tab) tabTo(id string) {
	b.Helper()
	for range 40 {
		if eval[string](b, focus) == id {
			return
		}
		b.key(kb.Tab)
	}
	b.Fatalf("%s is not reached by the keyboard", id)
}

// TestKeyboardAlone goes from the filter to a semaphore, and pauses it.
func TestKeyboardAlone(t *testing.T) {
	e := testenv.Shared(t)
	e.Must(e.Inspector.Pin(e.Ctx, "other", 1))
	e.Hold(e.Peer().Named("github-api", 5))
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(chromedp.Navigate(s.url))
	b.says("other")
	b.taken("/")
	b.until("the filter has the focus", focus+" === 'q'")
	b.key("git")
	b.until("the list is filtered", "document.querySelectorAll('a.row').length === 1")
	b.key(kb.ArrowDown)
	b.until("the row has the focus", focus+" === 's-github-api'")
	b.key(kb.Enter)
	b.says("1 of 5 in use")

	b.answersNo()
	if st, err := e.Inspector.Show(e.Ctx, "github-api"); err != nil || st.Paused {
		t.Fatalf("it is paused, although the answer was No: %+v, %v", st, err)
	}
	b.answersYes()
	if st, err := e.Inspector.Show(e.Ctx, "github-api"); err != nil || !st.Paused {
		t.Errorf("it is not paused: %+v, %v", st, err)
	}
	b.tabTo("act-pause") // it says Resume now
	b.key(kb.Enter)
	b.until("it asks", "document.getElementById('dialog').open")
	b.says("berth resume github-api")
}

// answersNo asks for a pause twice, and answers No, which has the focus, and Escape.
func (b *tab) answersNo() {
	b.Helper()
	b.tabTo("act-pause")
	for _, enter := range kb.Encode('\r') { // down, what it types, and up
		b.run(call(input.DispatchKeyEvent, *enter))
		// A key that is held longer than the server takes does not answer.
		b.until("the question is here", "performance.getEntriesByType('resource').some((e) => e.name.includes('pause') && e.responseEnd > 0)")
	}
	b.until("it asks", "document.getElementById('dialog').open")
	b.until("the answer is No", focus+" === 'no'")
	b.shot("dialog")
	b.key(kb.Enter)
	b.until("it does not ask any more", "!document.getElementById('dialog').open")
	b.until("the focus is where it was", focus+" === 'act-pause'")
	b.key(kb.Enter)
	b.until("it asks again", "document.getElementById('dialog').open && "+focus+" === 'no'")
	b.key(kb.Escape)
	b.until("Escape is No", "!document.getElementById('dialog').open")
}

// answersYes asks for a pause, gives a reason and answers Yes.
func (b *tab) answersYes() {
	b.Helper()
	b.until("the focus is where it was", focus+" === 'act-pause'")
	b.key(kb.Enter)
	b.until("it asks a third time", "document.getElementById('dialog').open && "+focus+" === 'no'")
	b.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	b.until("the reason has the focus", focus+" === 'reason'")
	b.key("it's stuck")
	if got := eval[string](b, "document.getElementById('command').textContent"); got != `berth pause --reason 'it'\''s stuck' github-api` {
		b.Errorf("the command is %q", got)
	}
	b.taken("Enter")
	b.until("Enter goes on to No", focus+" === 'no'")
	b.key(kb.Tab)
	b.until("and then to Yes", focus+" === 'yes'")
	b.key(kb.Enter)
	b.says("It is paused.")
	b.says("Paused by ann@ops-1")
}

// TestTypedThingsStay while the page follows what happens: the limit that somebody types, and
// the focus.
func TestTypedThingsStay(t *testing.T) {
	s, sem, l, b := oneHeld(t)
	b.focus("#limit")
	b.run(chromedp.KeyEvent("7"))
	typed := eval[string](b, "document.getElementById('limit').value")
	s.Hold(sem)
	b.says("2 of 5")
	if got := eval[string](b, focus+" + document.getElementById('limit').value"); got != "limit"+typed {
		t.Errorf("afterwards %q, want limit%s", got, typed)
	}
	b.set("#limit", "3")
	b.click("#act-pin")
	b.says("berth pin api 3")
	b.click("#dialog [value=yes]")
	b.says("It is pinned.")
	b.says("2 of 3")
	b.click("#evict-" + strings.ReplaceAll(l.ID(), ".", `\.`))
	b.says("berth evict api " + l.ID())
	b.click("#dialog [value=yes]")
	b.says("told to stop")
}

// TestWithoutScript everything works that changes something.
func TestWithoutScript(t *testing.T) {
	e := testenv.Shared(t)
	e.Hold(e.Peer().Named("api", 5))
	e.Must(e.Inspector.Pin(e.Ctx, "other", 1))
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(s.url))
	b.run(chromedp.SendKeys("#q", "ap"+kb.Enter), chromedp.WaitNotPresent("#s-other"))
	s.knows("api")
	b.run(chromedp.Click("#s-api"), chromedp.WaitVisible("#act-pause"))
	b.run(chromedp.Click("#act-pause"), chromedp.WaitVisible("#question"))
	b.run(chromedp.SendKeys("#reason", "moving"+kb.Enter), chromedp.WaitVisible("#act-pause")) // Enter is No
	if st, err := e.Inspector.Show(e.Ctx, "api"); err != nil || st.Paused {
		t.Fatalf("it is paused: %+v, %v", st, err)
	}
	b.run(chromedp.Click("#act-pause"), chromedp.WaitVisible("#question"))
	b.run(chromedp.SendKeys("#reason", "moving"), chromedp.Click("[value=yes]"), chromedp.WaitVisible(".note"))
	if st, err := e.Inspector.Show(e.Ctx, "api"); err != nil || !st.Paused {
		t.Errorf("it is not paused: %+v, %v", st, err)
	}
}

// TestSixteenTabs all follow what happens: none waits for another's connection.
func TestSixteenTabs(t *testing.T) {
	e := testenv.Shared(t)
	e.Must(e.Inspector.Pin(e.Ctx, "first", 1))
	s := serve(e, e.Inspector.Inspector)
	in := browser(t)
	var tabs []*tab
	for range 16 {
		b := newTab(in, t)
		// A tab in the background is hidden: here, all are looked at.
		b.run(call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}), chromedp.Navigate(s.url))
		tabs = append(tabs, b)
	}
	for round := range 3 {
		e.Hold(e.Peer().Named("first", 1+round))
		e.Must(e.Inspector.Pin(e.Ctx, "first", 10+round))
		var wg sync.WaitGroup
		for _, b := range tabs {
			wg.Go(func() { b.says(fmt.Sprintf("/%d", 10+round)) })
		}
		wg.Wait()
	}
}

// TestHiddenPagesAskForNothing, while another that is looked at asks again and again.
func TestHiddenPagesAskForNothing(t *testing.T) {
	e := testenv.Shared(t)
	e.Must(e.Inspector.Pin(e.Ctx, "api", 1))
	s := serve(e, e.Inspector.Inspector)
	in := browser(t)
	hidden, seen := newTab(in, t), newTab(in, t)
	hidden.run(chromedp.Navigate(s.url + "?q=api"))
	hidden.says("0/1")
	const hide = "Object.defineProperty(document, 'hidden', {value: %v, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
	eval[bool](hidden, fmt.Sprintf(hide, true))
	seen.run(call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}), chromedp.Navigate(s.url+"?q=ap"))
	s.asks("ap", 1) // what was under way has ended
	before := s.count("api")
	s.asks("ap", 3)
	if n := s.count("api") - before; n > 0 {
		t.Errorf("%d requests while the page is hidden", n)
	}
	e.Must(e.Inspector.Pin(e.Ctx, "api", 2))
	eval[bool](hidden, fmt.Sprintf(hide, false))
	hidden.says("0/2")
}

// TestRedisGoesAndComesBack under a page that stays: it says how old it is, and recovers.
func TestRedisGoesAndComesBack(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		e.Must(e.Inspector.Pin(e.Ctx, "api", 4))
		p := e.Peer()
		s := serve(e, p.Inspector())
		b := newTab(browser(e.T), e.T)
		b.run(chromedp.Navigate(s.url))
		b.says("0/4")
		e.Server.Kill()
		b.says("As of ")
		b.says("ago: redis is unreachable")
		b.says("0/4")
		b.shot("away")
		e.Server.Restart(e.T)
		b.until("it is up to date again", "!document.querySelector('#live .stale')")
	})
}

// pinned is the list of one semaphore, which is pinned to 4.
func pinned(t *testing.T) (*testenv.Env, *tab) {
	t.Helper()
	e := testenv.Shared(t)
	e.Must(e.Inspector.Pin(e.Ctx, "api", 4))
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(chromedp.Navigate(s.url))
	b.says("0/4")
	return e, b
}

// oneHeld opens the page of a semaphore of which one of five permits is held.
func oneHeld(t *testing.T) (*served, *berth.Semaphore, *berth.Lease, *tab) {
	t.Helper()
	e := testenv.Shared(t)
	sem := e.Peer().Named("api", 5)
	l := e.Hold(sem)
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(chromedp.Navigate(s.url + "s?name=api"))
	b.says("1 of 5")
	return s, sem, l, b
}

// TestPagesOfOthersAreNotShown: while a proxy or a login answers in the server's place, the page
// stays, and says that it is not up to date.
func TestPagesOfOthersAreNotShown(t *testing.T) {
	e, b := pinned(t)
	const instead = "window.realFetch ??= window.fetch; window.fetch = async () => new Response('<h1>foreign</h1>', {status: %d, headers: {'Content-Type': 'text/html'}}), true"
	for status, says := range map[int]string{502: "its server says 502", 200: "log in again, by loading it again"} {
		eval[bool](b, fmt.Sprintf(instead, status))
		b.says("This page is not up to date: " + says)
		if text := eval[string](b, "document.body.innerText"); !strings.Contains(text, "0/4") || strings.Contains(text, "foreign") {
			t.Errorf("status %d: the page says:\n%s", status, text)
		}
	}
	e.Must(e.Inspector.Pin(e.Ctx, "api", 5))
	eval[bool](b, "window.fetch = window.realFetch, true")
	b.says("0/5")
	b.until("it says no more", "document.getElementById('lost').hidden")
}

// TestServerGoesAndComesBack: the page says so, and asks less often.
func TestServerGoesAndComesBack(t *testing.T) {
	e, b := pinned(t)
	b.expect = "Failed to load resource"
	const swap = "window.realFetch ??= window.fetch; window.fetch = %s"
	const silence = "This page is not up to date: its server does not answer. It tries again "
	// What it said stays known, however late this test looks: after how many tries, too.
	eval[bool](b, `window.tries = 0, window.said = [], new MutationObserver(() => {
		const lost = document.getElementById('lost');
		if (!lost.hidden) said.push(tries + ': ' + lost.textContent);
	}).observe(document.getElementById('lost'), {attributes: true, childList: true}), true`)
	eval[bool](b, fmt.Sprintf(swap, "() => { window.tries++; return Promise.reject(new TypeError('away')); }")+", true")
	b.until("it says that it tries less often", "said.some((s) => s.includes('every 8 s'))")
	if got := eval[string](b, "said.slice(0, 2).join(' ')"); got != "1: "+silence+"every 4 s. 2: "+silence+"every 8 s." {
		t.Errorf("it said: %s", got)
	}
	e.Must(e.Inspector.Pin(e.Ctx, "api", 5))
	eval[bool](b, fmt.Sprintf(swap, "window.realFetch")+", true")
	b.says("0/5")
	b.until("it says no more", "document.getElementById('lost').hidden")
}

// TestMarkedTextStays, and the page says that it stands still.
func TestMarkedTextStays(t *testing.T) {
	e, b := pinned(t)
	eval[bool](b, "getSelection().selectAllChildren(document.querySelector('a.row')), true")
	e.Must(e.Inspector.Pin(e.Ctx, "api", 5))
	b.says("This page stands still while text in it is marked.")
	b.says("0/4")
	eval[bool](b, "getSelection().removeAllRanges(), true")
	b.says("0/5")
	b.until("it says no more", "document.getElementById('lost').hidden")
}

// TestTheLastQuestionCounts: the answer to an earlier one, which comes late, changes nothing in
// the dialog that is open.
func TestTheLastQuestionCounts(t *testing.T) {
	s, _, _, b := oneHeld(t)
	eval[bool](b, `window.realFetch = window.fetch, window.fetch = (url, o) => !String(url).includes("verb=pause") ? realFetch(url, o) :
		new Promise((answer, fail) => {
			window.late = () => realFetch(url).then(answer);
			o.signal.addEventListener("abort", () => fail(o.signal.reason));
		}), true`)
	b.click("#act-pause")
	b.set("#limit", "3")
	b.click("#act-pin")
	b.says("berth pin api 3")
	eval[bool](b, "late(), true")
	s.asks("", 3) // the late answer is there, and then looks at the page
	b.says("berth pin api 3")
	if text := eval[string](b, "document.getElementById('dialog').innerText"); strings.Contains(text, "pause") {
		t.Errorf("the question has become another:\n%s", text)
	}
}

// TestChartTellsItsValues at the pointer and where the arrow keys lead, and goes on to do so while
// the page follows what happens.
func TestChartTellsItsValues(t *testing.T) {
	s, sem, _, b := oneHeld(t)
	const told = `document.querySelector("output[for=chart-5]").textContent`
	b.until("the chart has points", `document.getElementById("chart-5").dataset.now > 0`)
	b.focus("#chart-5")
	b.until("it tells the last value", told+`.endsWith(": 1 of 5 in use, 0 waiting")`)
	s.Hold(sem)
	b.until("it tells the new one", told+`.endsWith(": 2 of 5 in use, 0 waiting")`)
	if got := eval[string](b, focus); got != "chart-5" {
		t.Errorf("the focus is on %q", got)
	}
	b.run(chromedp.KeyEvent(kb.Home))
	b.until("nothing is known of five minutes ago", told+`.endsWith(": not known")`)
	eval[bool](b, `document.activeElement.blur() === undefined`)
	b.until("nothing is told any more", told+` === ""`)
	box := `document.getElementById("chart-5").getBoundingClientRect()`
	x, y := eval[float64](b, box+".right - 1"), eval[float64](b, box+".top + 20")
	b.run(call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y}))
	b.until("the pointer has it told", told+`.endsWith(": 2 of 5 in use, 0 waiting")`)
	b.shot("chart")
}

// TestCommandsCanBeCopied, with the limit in force.
func TestCommandsCanBeCopied(t *testing.T) {
	_, _, _, b := oneHeld(t)
	eval[bool](b, `!!(navigator.clipboard.writeText = async (text) => { window.copied = text })`)
	b.click(".commands summary")
	b.click(".commands li:nth-child(5) [data-copy]")
	b.until("it is copied", `window.copied === "berth pin --reason REASON api 5"`)
}
