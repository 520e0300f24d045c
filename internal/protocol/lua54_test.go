//go:build testall

package protocol

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Some servers run scripts in Lua 5.4. There 3 / 1 is 3.0, and unpack has another place.

// TestLua54: the script answers and stores the same in Lua 5.4, without a server, as on the
// embedded store, whose Lua is 5.1.
func TestLua54(t *testing.T) {
	t.Parallel()
	lua, err := exec.LookPath("lua5.4")
	if err != nil {
		lua, err = exec.LookPath("lua") // of Homebrew
	}
	if err != nil {
		t.Fatal("lua5.4 is missing: scripts/setup installs it")
	}
	r := embedded(t, true)
	for seed := range 8 {
		r.reset(t)
		clock := start
		var calls strings.Builder
		var want []string
		for i := range 120 {
			args := genRequest.Example(1000*seed + i)
			clock = clock.Add([]time.Duration{0, time.Microsecond, 3 * time.Millisecond, 12 * time.Second}[i%4])
			r.mr.SetTime(clock)
			answer, err := r.send(args...)
			if err != nil {
				answer = regexp.MustCompile(`BERTH[A-Z]+`).FindString(err.Error())
			}
			want = append(want, answer)
			fmt.Fprintln(&calls, hexed(fmt.Sprint(clock.UnixMicro())), hexed(args...))
		}
		want = append(want, r.storedText(t))
		cmd := exec.CommandContext(t.Context(), lua, "testdata/redis.lua", "transition.lua")
		cmd.Stdin = strings.NewReader(calls.String())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %.2000s", err, out)
		}
		got := strings.Fields(string(out))
		for i, line := range strings.Split(strings.TrimSpace(calls.String()), "\n") {
			if i < len(got) && unhexed(t, got[i]) != want[i] {
				t.Fatalf("seed %d, call %d, %q:\nLua 5.4 %q\nLua 5.1 %q", seed, i, unhexed(t, line), unhexed(t, got[i]), want[i])
			}
		}
		if len(got) != len(want) || unhexed(t, got[len(got)-1]) != want[len(want)-1] {
			t.Fatalf("seed %d: stored by Lua 5.4\n%s\nby Lua 5.1\n%s", seed, unhexed(t, got[len(got)-1]), want[len(want)-1])
		}
	}
}

// storedText is what is stored, as testdata/redis.lua prints it.
func (r *rig) storedText(t failer) string {
	t.Helper()
	var lines []string
	fields, _ := r.rdb.HGetAll(t.(*testing.T).Context(), r.key.State).Result()
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		lines = append(lines, f+" = "+fields[f])
	}
	members, _ := r.rdb.ZRangeWithScores(t.(*testing.T).Context(), r.key.Order(), 0, -1).Result()
	for _, z := range members {
		lines = append(lines, fmt.Sprintf("%v @ %.17g", z.Member, z.Score))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func hexed(args ...string) string {
	var words []string
	for _, a := range args {
		if a == "" {
			a = "-"
		} else {
			a = hex.EncodeToString([]byte(a))
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

func unhexed(t failer, line string) string {
	t.Helper()
	var words []string
	for word := range strings.FieldsSeq(line) {
		text, err := hex.DecodeString(strings.TrimPrefix(word, "-"))
		if err != nil {
			t.Fatalf("%q: %v", word, err)
		}
		words = append(words, string(text))
	}
	return strings.Join(words, " ")
}
