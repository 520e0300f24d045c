package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCheckIsContentWithAnAgentThatTakesRequests, even if Redis does not answer it, and with
// nothing else.
func TestCheckIsContentWithAnAgentThatTakesRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused     *refusal // nil: it is healthy
		away, fails bool
	}{
		"healthy":       {},
		"without Redis": {refused: &refusal{Status: http.StatusServiceUnavailable, Code: refusedRedis, Message: "no answer"}, away: true},
		"stopping":      {refused: refusedStopping, fails: true},
		"crowded":       {refused: refusedCrowd, fails: true},
		"no agent":      {refused: refusedPath, fails: true},
		"no word":       {refused: &refusal{Status: http.StatusBadGateway}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.refused == nil {
					answer(w, map[string]string{"status": "ok"}, nil)
				} else {
					c.refused.write(w)
				}
			}))
			t.Cleanup(server.Close)
			away, err := Check(t.Context(), server.Listener.Addr().String())
			if (away != "") != c.away || (err != nil) != c.fails {
				t.Errorf("away %q, error %v", away, err)
			}
		})
	}
}
