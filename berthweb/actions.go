package berthweb

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

// mostAct bounds a change: a look before it, the change, and its record.
const mostAct = 6 * time.Second

// verbs are the actions, with the message for each when it is done.
var verbs = map[string]string{
	"pause": "It is paused.", "resume": "It is resumed.", "pin": "It is pinned.", "unpin": "It is no longer pinned.",
	"resize": "It is declared.", "evict": "The eviction is done.", "purge": "Everything of the semaphore is deleted.",
}

// order is a requested change: the body of a request.
type order struct {
	Verb    string `json:"-"`
	Name    string `json:"name"`
	Limit   *int   `json:"limit"`
	Rates   string `json:"rates"` // pin, resize: rates instead of the limit, as in "60/1m tokens=none"
	Rated   bool   `json:"rated"` // unpin: the rates, and not the limit
	For     string `json:"for"`   // pause: how long, as in "10m"; "": until resumed
	ID      string `json:"id"`
	Force   bool   `json:"force"`
	Reason  string `json:"reason"`
	Confirm string `json:"confirm"` // the name again, for changes that cannot be undone
}

// formOrder reads an order from a form or a link.
func formOrder(v url.Values) (o order, err error) {
	o = order{Verb: v.Get("verb"), Name: v.Get("name"), For: v.Get("for"), Rates: v.Get("rates"), Rated: v.Get("rated") == "1", ID: v.Get("id"), Force: v.Get("force") == "1", Reason: v.Get("reason"), Confirm: v.Get("confirm")}
	if v.Get("limit") != "" {
		n, err := number(v, "limit", 0, 0, berth.MaxLimit)
		if err != nil {
			return o, err
		}
		o.Limit = &n
	}
	if verbs[o.Verb] == "" {
		return o, &badRequest{http.StatusBadRequest, "verb", "There is no such action.", ""}
	}
	return o, validName(o.Name)
}

// action returns the order in the words of the command line, as far as it can be carried out.
func (o *order) action() (a berthwatch.Action, err error) {
	a = berthwatch.Action{Verb: o.Verb, Name: o.Name, Reason: o.Reason}
	switch {
	case (o.Verb == "pin" || o.Verb == "resize") && o.Rates != "":
		a.Rates, err = o.Rates, berthwatch.CheckRates(o.Rates)
	case o.Verb == "pin", o.Verb == "resize":
		if o.Limit == nil {
			return a, &badRequest{http.StatusBadRequest, "limit", "The limit is missing.", ""}
		}
		a.Limit = *o.Limit
	case o.Verb == "unpin":
		a.Rated = o.Rated
	case o.Verb == "pause":
		a.For, err = berthwatch.ParseFor(o.For)
	case o.Verb == "evict":
		if o.ID == "" {
			return a, &badRequest{http.StatusBadRequest, "id", "The id of the lease or request is missing.", ""}
		}
		a.ID, a.Force = o.ID, o.Force
	}
	return a, err
}

// mayWrite refuses users who may only look.
func (s *site) mayWrite(r *http.Request) (who string, err error) {
	who, may := s.User(r)
	if !may {
		return who, &badRequest{http.StatusForbidden, "read_only", "Nothing was changed: you may only look.", "berth serve --allow-write, and the role operate, allow changes."}
	}
	return who, nil
}

// act carries out what was confirmed.
func (s *site) act(r *http.Request, o *order) error {
	who, err := s.mayWrite(r)
	if err != nil {
		return err
	}
	a, err := o.action()
	if err != nil {
		return err
	}
	switch {
	case a.WantsName() && o.Confirm != o.Name:
		return &badRequest{http.StatusBadRequest, "confirm", "Nothing was changed: the name was not typed as it is.", "Type the name of the semaphore."}
	case s.RequireReason && o.Reason == "":
		return &badRequest{http.StatusBadRequest, "reason", "Nothing was changed: a reason is required.", "Say why."}
	}
	// The change is made even if the browser does not wait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), mostAct)
	defer cancel()
	err = a.DoInUse(ctx, s.in.Because(who, a.Reason))
	s.Logger.Info("berth: an operator's action", "verb", a.Verb, "semaphore", a.Name, "limit", a.Limit, "rates", a.Rates, "for", a.For, "id", a.ID, "force", a.Force,
		"who", who, "why", a.Reason, "error", err)
	s.audited.forget()
	s.sampler.Refresh(a.Name)
	return err
}

// askData is the page that asks before an action.
type askData struct {
	page
	Order         order
	Action        berthwatch.Action
	Command       string
	Head, Tail    string // of the command; a time and a reason go between
	Sentences     []string
	WantsReason   bool
	Problem, Hint string
}

func (s *site) askPage(w http.ResponseWriter, r *http.Request) {
	o, err := formOrder(r.URL.Query())
	if err == nil {
		_, err = s.mayWrite(r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.ask(w, r, &o, nil)
}

// ask shows what the action would do, and why the last attempt failed.
func (s *site) ask(w http.ResponseWriter, r *http.Request, o *order, failed error) {
	a, err := o.action()
	if err != nil && failed == nil {
		s.fail(w, r, err)
		return
	}
	if a.Verb == "evict" {
		_, detail := s.look(r, a.Name)
		if a.Who = whose(detail.State, a.ID); a.Who == "" {
			a.Who = a.ID + ", who neither holds nor waits any more"
		}
	}
	d := askData{page: s.page(r, a.Verb+" "+a.Name, "act"), Order: *o, Action: a, Sentences: a.Effect(), WantsReason: s.RequireReason}
	d.Command = s.Command + " " + berthwatch.Quote(a.Args())
	bare := a
	bare.Reason, bare.For = "", 0
	words := bare.Args()
	head := 1
	if a.Force {
		head = 2
	}
	d.Head, d.Tail = s.Command+" "+berthwatch.Quote(words[:head]), berthwatch.Quote(words[head:])
	if failed != nil {
		_, d.Hint, d.Problem = codeOf(failed)
	}
	s.render(w, r, statusOf(failed), "act", &d)
}

// whose returns who holds or waits with an id, or "".
func whose(st *berthadmin.State, id string) string {
	if st == nil {
		return ""
	}
	for _, h := range st.Leases {
		if h.ID == id {
			return berthwatch.Person(h.Label, h.Host, h.PID) + ", who holds"
		}
	}
	for _, w := range st.Queue {
		if w.ID == id {
			return berthwatch.Person(w.Label, w.Host, w.PID) + ", who waits"
		}
	}
	return ""
}

// actPage handles a form.
func (s *site) actPage(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		s.fail(w, r, &badRequest{http.StatusUnsupportedMediaType, "type", "This is not a form.", ""})
		return
	}
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, unreadable(err))
		return
	}
	o, err := formOrder(r.PostForm)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	to := "s?" + url.Values{"name": {o.Name}}.Encode()
	if r.PostForm.Get("answer") == "yes" {
		err := s.act(r, &o)
		if statusOf(err) == http.StatusForbidden {
			s.fail(w, r, err)
			return
		}
		if err != nil {
			s.ask(w, r, &o, err)
			return
		}
		if to += "&done=" + o.Verb; o.Verb == "purge" {
			to = "./?done=purge"
		}
	}
	w.Header().Set("Location", to) // relative, as all our links
	w.WriteHeader(http.StatusSeeOther)
}

// actJSON handles an order of a program.
func (s *site) actJSON(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(r)
	if err == nil {
		err = s.act(r, &o)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, http.StatusOK, struct {
		Done string `json:"done"`
		Name string `json:"name"`
	}{o.Verb, o.Name})
}

// readOrder reads an order in JSON, and refuses unknown fields.
func readOrder(r *http.Request) (o order, err error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return o, &badRequest{http.StatusUnsupportedMediaType, "type", "The body is not JSON.", "Send Content-Type: application/json."}
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, unreadable(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return o, unreadable(err)
	}
	o.Verb = r.URL.Path[len("/api/v1/"):]
	if o.Limit != nil && (*o.Limit < 0 || *o.Limit > berth.MaxLimit) {
		return o, &badRequest{http.StatusBadRequest, "limit", "The limit is out of bounds.", "From 0 to " + strconv.Itoa(berth.MaxLimit) + "."}
	}
	return o, validName(o.Name)
}

// unreadable is the error for a body that is too long, late or malformed.
func unreadable(err error) error {
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &badRequest{http.StatusRequestEntityTooLarge, "length", "The body is longer than " + strconv.FormatInt(tooLong.Limit, 10) + " bytes.", ""}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &badRequest{http.StatusRequestTimeout, "timeout", "The body did not arrive in time.", "Send it again."}
	}
	return &badRequest{http.StatusBadRequest, "body", "The body cannot be read.", ""}
}
