package berthhttp

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

// deadlines is a ResponseWriter whose connection may already serve the next request.
type deadlines struct {
	*httptest.ResponseRecorder

	set int
}

func (d *deadlines) SetReadDeadline(time.Time) error  { d.set++; return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error { d.set++; return nil }

// TestLateLoss: a lease that is lost when its handler has returned leaves the
// connection alone.
func TestLateLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		h, err := NewHandler(store.Client(), "work", 1, http.NotFoundHandler(), Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		p, why := h.limiter.take(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body")))
		if why != nil {
			t.Fatal(why)
		}
		ctx, unbind := p.Bind(t.Context(), nil)
		defer unbind()
		lease, ok := berth.FromContext(ctx)
		if !ok {
			t.Fatal("no lease")
		}
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		s := &service{permit: p, log: h.limiter.Logger, writer: w, body: true}
		store.Lose(lease)
		s.end()
		s.lose()
		if w.set != 0 {
			t.Errorf("%d deadlines were set", w.set)
		}
	})
}
