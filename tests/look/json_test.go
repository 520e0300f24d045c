package look_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// TestStateIsReadBackFromJSON, with its rates and costs by unit, and with no limit, which is no number.
func TestStateIsReadBackFromJSON(t *testing.T) {
	t.Parallel()
	tokens := berthadmin.Rate{Unit: "tokens", N: 90_000, Per: time.Minute, Spent: 89_000}
	state := berthadmin.State{
		Summary: berthadmin.Summary{
			Name: "llm", Limit: 7, Declared: berth.NoLimit, Pinned: true, Holders: 1, Waiting: 1, RetryAfter: 3 * time.Second,
			Rates: []berthadmin.Rate{{N: 2, Per: time.Second, Burst: 40, Spent: 3}, tokens},
		},
		Leases: []berthadmin.Holder{{ID: "a", Weight: 1, TTL: time.Minute}},
		Queue:  []berthadmin.Waiter{{ID: "b", Weight: 1, Costs: map[string]int{"": 1, "tokens": 1200}, KeptBy: &tokens, Waited: time.Second}},
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"limit":7`, `"declared":null`, `"retry_after_ms":3000`, `"costs":{"":1,"tokens":1200}`,
		`"rates":[{"unit":"","n":2,"burst":40,"spent":3,"per_ms":1000},{"unit":"tokens","n":90000,"burst":0,"spent":89000,"per_ms":60000}]`,
		`"kept_by":{"unit":"tokens",`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	var got berthadmin.State
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, state) {
		t.Errorf("read back as %+v, %v, want %+v", got, err, state)
	}
	var sum berthadmin.Summary
	if err := json.Unmarshal(text, &sum); err != nil || !reflect.DeepEqual(sum, state.Summary) {
		t.Errorf("the summary: %+v, %v", sum, err)
	}
}
