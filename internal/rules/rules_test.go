package rules_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/rules"
)

// TestWhatIsRefused: each bound holds on both of its sides.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	var noClient *redis.Client
	id := "abcdefgh.234567abcdefghijkl"
	for what, tt := range map[string]struct {
		good, bad []string // reasons
	}{
		"context": {[]string{rules.Context(t.Context())}, []string{rules.Context(nil)}}, //nolint:staticcheck // that is the mistake
		"client": {
			[]string{rules.Client(&redis.Client{}), rules.Client(&redis.ClusterClient{})},
			[]string{rules.Client(nil), rules.Client(noClient), rules.Client(&redis.Ring{}), rules.Client(struct{ *redis.Client }{})},
		},
		"limit": {[]string{rules.Limit(1, 1, 9), rules.Limit(9, 1, 9)}, []string{rules.Limit(0, 1, 9), rules.Limit(10, 1, 9)}},
		"name": {
			[]string{rules.Name("a", 3), rules.Name("å b", 4)},
			[]string{rules.Name("", 3), rules.Name("abcd", 3), rules.Name("{", 3), rules.Name("a}", 3), rules.Name(" ", 3)},
		},
		"text": {
			[]string{rules.Text("", 3), rules.Text("a b", 3), rules.Text("{}", 3)},
			[]string{rules.Text("å b", 3), rules.Text("\xff", 3), rules.Text("\n", 3), rules.Text("a\x1b", 3), rules.Text("\u202e", 3), rules.Text("\u2003", 3)},
		},
		"prefix": {
			[]string{rules.Prefix("a"), rules.Prefix("Z9._:-"), rules.Prefix(strings.Repeat("a", 64))},
			[]string{rules.Prefix(""), rules.Prefix(strings.Repeat("a", 65)), rules.Prefix("a b"), rules.Prefix("{a}"), rules.Prefix("å")},
		},
		"id": {
			[]string{rules.ID(id), rules.ID(id + "-1z")},
			[]string{rules.ID(""), rules.ID(id + "-"), rules.ID(id + "-12345678901234"), rules.ID(id[1:]), rules.ID(" " + id), rules.ID(id + "\n")},
		},
	} {
		for i, reason := range tt.good {
			if reason != "" {
				t.Errorf("%s %d is refused: %s", what, i, reason)
			}
		}
		for i, reason := range tt.bad {
			if reason == "" {
				t.Errorf("bad %s %d is not refused", what, i)
			}
		}
	}
}
