package berthhttp_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// blocked is a log that blocks until it is closed.
type blocked chan struct{}

// Enabled, Handle, WithAttrs and WithGroup implement slog.Handler.
func (b blocked) Enabled(context.Context, slog.Level) bool { return true }

func (b blocked) Handle(context.Context, slog.Record) error {
	<-b
	return nil
}

func (b blocked) WithAttrs([]slog.Attr) slog.Handler { return b }
func (b blocked) WithGroup(string) slog.Handler      { return b }

// TestBlockedLogDelaysNoRequest: neither in an outage, of which the log is to tell, nor after it.
func TestBlockedLogDelaysNoRequest(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		log, client := make(blocked), store.Client()
		defer close(log)
		h := newHandler(t, client, 1, http.NotFoundHandler(), berthhttp.FailOpen(nil), berthhttp.Logger(slog.New(log)))
		store.Down()
		for i, most := range []time.Duration{berthhttp.DefaultAnswerWithin + lookTime, 0, 0} {
			began := time.Now()
			rec, served := serve(t, h, get(t.Context(), t, "/"))
			<-served
			if took := time.Since(began); rec.Code != http.StatusNotFound || took > most {
				t.Errorf("request %d of the outage was answered %d after %v, want %v", i, rec.Code, took, most)
			}
		}
		store.Up()
		<-time.After(2 * time.Second)
		_, served := serve(t, h, get(t.Context(), t, "/"))
		<-served
	})
}

// TestBlockedFailOpenDoesNotWait: a request that its function holds up leaves the room of MaxWaiting
// to others.
func TestBlockedFailOpenDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		unblock, g := make(chan struct{}), make(gate)
		h := newHandler(t, store.Client(), 1, g, berthhttp.MaxWaiting(1), berthhttp.FailOpen(func(*http.Request, error) { <-unblock }))
		store.Down()
		_, opened := serve(t, h, get(t.Context(), t, "/"))
		<-time.After(berthhttp.DefaultAnswerWithin + lookTime)
		store.Up()
		<-time.After(2 * time.Second)
		_, holds := serve(t, h, get(t.Context(), t, "/"))
		synctest.Wait()
		waits, served := serve(t, h, get(t.Context(), t, "/"))
		synctest.Wait()
		close(g)
		<-holds
		<-served
		if waits.Code != http.StatusAccepted {
			t.Errorf("a request that was to wait was answered %d", waits.Code)
		}
		close(unblock)
		<-opened
	})
}
