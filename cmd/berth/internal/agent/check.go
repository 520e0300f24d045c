package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// checkTimeout is how long an agent has to answer a check. It asks Redis before that.
const checkTimeout = 10 * time.Second

// Check asks the agent that listens at a path or an address whether it takes requests. It fails
// if no agent does. If it does, and Redis does not answer it or does not let it in, away is what the agent says of
// that: another agent could do no better.
func Check(ctx context.Context, where string) (away string, err error) {
	network := "unix"
	if IsAddress(where) {
		network = "tcp"
	}
	client := http.Client{Timeout: checkTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, where)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/healthz", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // whose URL stands for nothing
		}
		return "", fmt.Errorf("no agent answers: %w: is berth agent running?", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return "", nil
	}
	var r refusal
	if err := json.NewDecoder(answer.Body).Decode(&r); err != nil || r.Code != refusedRedis && r.Code != refusedRight {
		return "", fmt.Errorf("the agent answers %s: %s", answer.Status, r.Message)
	}
	return r.Message, nil
}
