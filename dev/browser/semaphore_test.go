package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestHoldersAreFilteredWhileOneTypes, and stay so while others come and go.
func TestHoldersAreFilteredWhileOneTypes(t *testing.T) {
	e := testenv.Shared(t)
	p := e.Peer()
	for i := range 4 {
		e.Hold(p.Named("api", 9, berth.Label(fmt.Sprint("red-", i))))
	}
	blue := p.Named("api", 9, berth.Label("blue"))
	e.Hold(blue)
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(chromedp.Navigate(s.url + "s?name=api"))
	b.says("5 of 9 in use")
	b.focus("#q")
	b.run(chromedp.KeyEvent("BLUE"))
	b.says("1 that pass the filter, of 5")
	if got := eval[string](b, "location.search"); got != "?name=api&q=BLUE" {
		t.Errorf("the address is %q", got)
	}
	e.Hold(blue)
	b.says("2 that pass the filter, of 6")
	b.says("6 of 9 in use")
	if got := eval[string](b, "[...document.querySelectorAll('tbody th')].map((th) => th.innerText.split(' ')[0]).join() + document.querySelector('#q').value"); got != "blue,blueBLUE" {
		t.Errorf("it shows %s", got)
	}
}

// TestPressedButtonActs, although what is new comes before it is let go; and that is shown then.
func TestPressedButtonActs(t *testing.T) {
	s, sem, _, b := oneHeld(t)
	// The first answer with something new is the last one for as long as the button is pressed.
	eval[bool](b, `addEventListener("pointerdown", () => { window.down = true; }), window.realFetch = window.fetch, window.fetch = async (...a) => {
		const answer = await realFetch(...a);
		if (window.down && answer.status === 200) setTimeout(() => { window.here = true; }, 200);
		return answer;
	}, true`)
	b.mouse(input.DispatchMouseEventTypeMousePressed, "#act-pause")
	s.Hold(sem)
	b.until("what is new has come", "window.here === true")
	b.mouse(input.DispatchMouseEventTypeMouseReleased, "#act-pause")
	b.says("berth pause api")
	b.says("2 of 5")
}

// TestAgeOfTheDataGrows until newer data is here, and is never left out.
func TestAgeOfTheDataGrows(t *testing.T) {
	e, b := pinned(t)
	b.expect = "Failed to load resource"
	const age = "document.getElementById('age').textContent"
	b.until("it is young", age+".match(/^as of [0-3] s ago$/) !== null")
	eval[bool](b, "window.realFetch = window.fetch, window.fetch = () => Promise.reject(new TypeError('away')), true")
	b.until("it grows", age+".match(/^as of ([4-9]|[1-9][0-9]+) s ago$/) !== null")
	eval[bool](b, "window.fetch = window.realFetch, dispatchEvent(new Event('online')), true")
	e.Must(e.Inspector.Pin(e.Ctx, "api", 5))
	b.says("0/5")
	b.until("it is young again", age+".match(/^as of [0-3] s ago$/) !== null")
}

// TestKeyedNamesAreGrouped and opened by the keyboard, and stay so while the page follows.
func TestKeyedNamesAreGrouped(t *testing.T) {
	e := testenv.Shared(t)
	p := e.Peer()
	for _, key := range []string{"acme", "globex", "hooli"} {
		e.Hold(p.Named("api/"+key, 3))
	}
	e.Hold(p.Named("deploy", 1))
	s := serve(e, e.Inspector.Inspector)
	b := newTab(browser(t), t)
	b.run(chromedp.Navigate(s.url))
	b.says("api/hooli")
	b.click("#group")
	b.says("4 semaphores in 2 rows")
	b.says("3/9")
	e.Hold(p.Named("api/acme", 3))
	b.says("4/9")
	b.shot("grouped")
	b.focus("a.row[id='s-api/*']")
	b.run(chromedp.KeyEvent(kb.Enter))
	b.says("api/hooli")
	if text := eval[string](b, "document.querySelector('#live').innerText + document.querySelector('#q').value"); strings.Contains(text, "deploy") || !strings.HasSuffix(text, "api/*") {
		t.Errorf("the page says:\n%s", text)
	}
}
