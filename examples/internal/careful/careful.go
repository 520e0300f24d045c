// Package careful calls APIs as a program does that knows nothing of the others: it asks again
// after growing, random pauses.
package careful

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Call sends req, which has no body, until it is not refused with 429. Pauses begin with about first
// and grow to most. read, unless nil, reads each answer. Call returns how often it has sent req, and
// fails for any other status but 200, if read does, and when the request's context ends.
func Call(caller *http.Client, req *http.Request, first, most time.Duration, read func(*http.Response) error) (sent int, err error) {
	for pause := first; ; pause = min(2*pause, most) {
		sent++
		status, err := send(caller, req, read)
		switch {
		case err != nil:
			return sent, err
		case status == http.StatusOK:
			return sent, nil
		case status != http.StatusTooManyRequests:
			return sent, fmt.Errorf("the API answers with status %d", status)
		}
		select {
		case <-req.Context().Done():
			return sent, req.Context().Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

func send(caller *http.Client, req *http.Request, read func(*http.Response) error) (status int, err error) {
	resp, err := caller.Do(req.Clone(req.Context()))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() // releases the permit, at the latest
	if read != nil {
		if err := read(resp); err != nil {
			return 0, err
		}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
