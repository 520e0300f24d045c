package berthweb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

// problem is the JSON of an error.
type problem struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	Hint  string `json:"hint,omitempty"`
}

// answer sends JSON.
func (s *site) answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.Logger.Error("berthweb: an answer could not be made", "error", err)
		plain(w, http.StatusInternalServerError, "This answer could not be made.")
		return
	}
	send(w, r, status, "application/json", append(body, '\n'))
}

// fail answers with an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, hint, text := codeOf(err)
	s.refuse(w, r, statusOf(err), code, text, hint)
}

// statusOf is the status for an error; 200 for none.
func statusOf(err error) int {
	var bad *badRequest
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &bad):
		return bad.status
	case errors.Is(err, berth.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, berthadmin.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, berth.ErrCorrupt), errors.Is(err, berthadmin.ErrPinned):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// codeOf returns a stable word for an error, advice what to do, and the error's text.
func codeOf(err error) (code, hint, text string) {
	var bad *badRequest
	corrupt, _ := errors.AsType[*berth.CorruptError](err)
	switch {
	case errors.As(err, &bad):
		return bad.code, bad.hint, bad.text
	case errors.Is(err, berth.ErrInvalid):
		return "invalid", "", short(err)
	case errors.Is(err, berthadmin.ErrNotFound):
		return "not_found", "It may be idle: nobody holds and nobody waits.", short(err)
	case errors.Is(err, berthadmin.ErrPinned):
		return "pinned", "Pin the rates that are to be in force, or unpin those that are.", short(err)
	case corrupt != nil && corrupt.Newer: // its permits are in use
		return "newer", "Upgrade this berth; leave the keys alone.", short(err)
	case corrupt != nil && corrupt.Older:
		return "older", "End the programs of the older version, then purge it.", short(err)
	case corrupt != nil && corrupt.Heals > 0:
		return "damaged", "It heals by itself: wait, and leave the keys alone.", short(err)
	case errors.Is(err, berth.ErrCorrupt):
		return "damaged", "See what wrote to its keys; purge is the way out.", short(err)
	case errors.Is(err, berth.ErrRefused) && (strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "NOAUTH")):
		return "refused", "Check user and password in the URL of Redis.", short(err)
	case errors.Is(err, berth.ErrRefused):
		return "refused", "The user of Redis needs the rights in docs/operations.md.", short(err)
	}
	return "unreachable", "Redis did not answer in time: try again.", short(err)
}

// short is an error in one line, without the name of the program.
func short(err error) string {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, berth.ErrUnreachable) {
		return "Redis does not answer"
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "berth: "), "\n")
	return text
}

// listing is what "berth top --json" prints, for the rows that were asked for.
type listing struct {
	berthwatch.Sample
	Total int    `json:"total"`          // that were asked for, on all pages
	Next  string `json:"next,omitempty"` // the cursor of the next page
}

func (s *site) listJSON(w http.ResponseWriter, r *http.Request) {
	c, err := chosen(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, _ := s.look(r, "")
	if err := v.Err; err != nil || !v.Whole { // a part of the list would look like all of it
		s.fail(w, r, cmp.Or[error](err, v.SearchErr, errNotYet))
		return
	}
	inUse := make([]berthwatch.Row, 0, len(v.Rows))
	for _, row := range v.Rows {
		if !row.Idle {
			inUse = append(inUse, row)
		}
	}
	rows, _ := s.choose(inUse, c)
	from, to := c.slice(len(rows))
	v.Rows = rows[from:to]
	l := listing{Sample: v.Sample(), Total: len(rows)}
	if to < len(rows) {
		l.Next = strconv.Itoa(to)
	}
	s.answer(w, r, http.StatusOK, l)
}

var errNotYet = &badRequest{http.StatusServiceUnavailable, "not_yet", "It is not read yet.", "Try again in a moment."}

// semaphoreJSON is what "berth show --json" prints.
func (s *site) semaphoreJSON(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("name")
	holders, errH := number(q, "holders", recordsPage, 0, mostLimit)
	waiters, errW := number(q, "waiters", recordsPage, 0, mostLimit)
	find, errQ := filterIn(q)
	err := errors.Join(validName(name), errH, errW, errQ)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, d := s.look(r, name)
	if err := v.Err; err != nil || d.Old || d.Err != nil || d.State == nil {
		if !d.Old {
			err = errors.Join(d.Err, err)
		}
		s.fail(w, r, cmp.Or[error](err, errNotYet))
		return
	}
	st := *d.State
	st.Leases, st.Queue = first(finder(find).holders(st.Leases), holders), first(finder(find).waiters(st.Queue), waiters)
	s.answer(w, r, http.StatusOK, st)
}

// first returns the first n of all; it is never nil, which JSON would show.
func first[T any](all []T, n int) []T { return append([]T{}, all[:min(n, len(all))]...) }

func (s *site) historyJSON(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("name")
	minutes, err := number(q, "minutes", 5, 1, 60)
	if err := errors.Join(validName(name), err); err != nil {
		s.fail(w, r, err)
		return
	}
	v, _ := s.look(r, "")
	points := s.sampler.History(name, time.Now().Add(-time.Duration(minutes)*time.Minute))
	if err := v.Err; err != nil || !v.Whole && (len(points) == 0 || old(&v, v.At)) {
		s.fail(w, r, cmp.Or[error](err, v.SearchErr, errNotYet))
		return
	}
	s.answer(w, r, http.StatusOK, struct {
		Name   string             `json:"name"`
		Points []berthwatch.Point `json:"points"`
	}{name, append([]berthwatch.Point{}, points...)})
}

func (s *site) auditJSON(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := number(q, "limit", pageSize, 1, mostLimit)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	entries, err := s.audit(r, q.Get("name"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, http.StatusOK, entries[:min(limit, len(entries))])
}

func (s *site) doctorJSON(w http.ResponseWriter, r *http.Request) {
	if s.Doctor == nil {
		s.refuse(w, r, http.StatusNotFound, "not_found", "There is no such page.", "")
		return
	}
	findings, err := s.examined.get(r.Context(), doctorFor, mostExamine, s.Doctor)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, http.StatusOK, struct {
		Findings []Finding `json:"findings"`
	}{findings})
}
