package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/examples/internal/store"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestLimitHoldsOverReplicas(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t, func(*redis.Options) {})
	j := job{Replicas: 3, Callers: 9, Calls: 5, Limit: 2, Takes: time.Millisecond}
	for _, way := range ways {
		s, err := j.in(t.Context(), &store.Store{Client: rdb}, way)
		if err != nil {
			t.Fatal(err)
		}
		if s.answered.Load() != 45 || s.refused.Load() != 0 {
			t.Errorf("%s: %d answered, %d refused", way, s.answered.Load(), s.refused.Load())
		}
		if way == "enforced" && s.peak > j.Limit {
			t.Errorf("%d at once", s.peak)
		}
		if all := s.granted.Load() + s.waits.Load(); way == "observed" && all != 45 || way != "observed" && all != 0 {
			t.Errorf("%s: %d observed", way, all)
		}
	}
}

func TestProgramOnTheEmbeddedStore(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out, job{Replicas: 2, Callers: 4, Calls: 3, Limit: 2, Takes: time.Millisecond})
	if err != nil || !strings.Contains(out.String(), "enforced") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run(t.Context(), &out, job{}); err == nil {
		t.Error("numbers of 0")
	}
}
