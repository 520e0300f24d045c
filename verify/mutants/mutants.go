// Package mutants is a list of bugs to plant: changes of berth's own source that
// a build sees through -overlay, so that the library has no hooks for them and
// its files stay as they are. Each breaks one mechanism without which a promise
// does not hold, and a run must notice.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is a planted bug.
type Mutant struct {
	Name  string
	What  string
	Edits []Edit
	// Scenario is the storm that gives it an opportunity.
	Scenario string
	// Caught are the promises of which at least one must be seen to break.
	Caught []string
}

// Edit replaces every occurrence of Old in a file, of which there must be at least one.
type Edit struct{ File, Old, New string }

const (
	script   = "internal/protocol/transition/"
	begin    = script + "begin.lua"
	folded   = script + "folded.lua"
	short    = script + "short.lua"
	general  = script + "general.lua"
	apply    = script + "operations.lua"
	store    = "internal/protocol/store.go"
	settling = "internal/session/settle.go"
)

// notAlone closes the ways of single operations, so that what is changed behind them is what runs.
var notAlone = Edit{folded, "local quick = lone and (", "local quick = false and ("}

// All are the mutants.
var All = []Mutant{
	{
		Name: "no-reap", What: "what has run out is not removed", Scenario: "clients", Caught: []string{"L2", "linearizability"},
		Edits: []Edit{{general, "if nearest > 0 and nearest <= now then", "if false then"}},
	},
	{
		Name: "no-pump-on-release", What: "a release wakes nobody", Scenario: "clients", Caught: []string{"L1"},
		Edits: []Edit{
			notAlone,
			{short, " and few\n", " and few and sub(ARGV[2] or '', 1, 1) ~= 'L'\n"},
			{apply, "pump()\n\n-- ---- write", "if sub(ARGV[2] or '', 1, 1) ~= 'L' then pump() end\n\n-- ---- write"},
		},
	},
	{
		Name: "renew-recreates", What: "a renewal grants what it does not find", Scenario: "flush", Caught: []string{"S6"},
		Edits: []Edit{{
			apply, "      if sub(rec[id] or 'x', 1, 1) ~= 'h' then\n        gone(id)",
			`      if not rec[id] then
        grant(id, 1, 0, renewer .. ' ')
        due[id] = now + ttl
        out[n + 1], out[n + 2] = 7, ttl + 0
        n = n + 2
      elseif sub(rec[id], 1, 1) ~= 'h' then
        gone(id)`,
		}},
	},
	{
		Name: "token-counter", What: "tokens come from a counter that goes with the keys", Scenario: "clients", Caught: []string{"S2"},
		Edits: []Edit{
			notAlone,
			{general, "last = last < us and us or last + 1", "last = last + 1"},
			{apply, "last = last < us and us or last + 1", "last = last + 1"},
			{short, "if last < us then last, token = us, stamp else", "if false then else"},
			{short, "local first = last < us and us or last + 1", "local first = last + 1"},
		},
	},
	{
		Name: "wrong-waiter", What: "a permit is handed to the last in line", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{
			notAlone,
			{short, "  if plain and waiting > 0 and used < limit then\n", "  if waiting > 0 then plain = false end\n  if plain and waiting > 0 and used < limit then\n"},
			{
				general, "call('ZRANGE', ORDER, seen, seen + room - 1, 'WITHSCORES')",
				"call('ZRANGE', ORDER, before.waiting - seen - room, before.waiting - seen - 1, 'WITHSCORES')",
			},
		},
	},
	{
		Name: "barging", What: "a newcomer that fits passes the queue", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{
			notAlone,
			{short, "elseif waiting == 0 and used + wanted <= limit then", "elseif used + wanted <= limit then"},
			{apply, "elseif waiting == 0 and paused == 0 and used + weight <= limit then", "elseif paused == 0 and used + weight <= limit then"},
		},
	},
	{
		Name: "trust-from-reply", What: "the trust deadline is counted from the reply", Scenario: "clients", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{
			{settling, "s.hold(c, f.sent, f.landed, r.Remaining, whole)", "s.hold(c, clock.Now(), f.landed, r.Remaining, whole)"},
			{settling, "c.trust = trust(f.sent, o.Result.Remaining)", "c.trust = trust(clock.Now(), o.Result.Remaining)"},
		},
	},
	{
		Name: "full-ttl-on-reread", What: "a repeated request that finds its own grant gets the full TTL", Scenario: "clients", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{{apply, "if kind == 'h' then\n          holds(id)", "if kind == 'h' then\n          holds(id)\n          out[n - 1] = ttl"}},
	},
	{
		Name: "no-tombstone", What: "a release leaves no tombstone for late copies", Scenario: "clients", Caught: []string{"linearizability"},
		Edits: []Edit{
			{apply, "leave(id, RELEASED, param == '1' and now + LATE or 0)", "leave(id, RELEASED, 0)"},
			{apply, "if param == '1' and not rec[id] then", "if false then"},
		},
	},
	{
		Name: "no-tombstone-when-refused", What: "a refused request forgets its copies that are under way", Scenario: "clients", Caught: []string{"linearizability"},
		Edits: []Edit{{settling, "if clock.Now() < c.late {", "if false {"}},
	},
	{
		Name: "not-idempotent", What: "a repeated request takes its permits again", Scenario: "clients", Caught: []string{"linearizability", "L2", "S2"},
		Edits: []Edit{{apply, "      local r = rec[id]\n      if r then\n        local kind", "      local r = nil\n      if r then\n        local kind"}},
	},
	{
		Name: "client-clock", What: "the time is the client's, and clients differ by up to 2 s", Scenario: "clients", Caught: []string{"S1", "S3"},
		Edits: []Edit{
			{store, "\"fmt\"\n", "\"fmt\"\n\t\"os\"\n"},
			{
				store, "k.call...), notAfter)",
				"k.call...), time.Now().UnixMicro()+int64(os.Getpid()%5)*400_000)\n\t_ = notAfter",
			},
			{
				begin, "local clock = call('TIME')\nlocal us = clock[1] * 1000000 + clock[2]",
				"local us = ARGV[1] + 0\nlocal clock = { format('%d', (us - us % 1000000) / 1000000), format('%d', us % 1000000) }",
			},
			{begin, "if ARGV[1] ~= '0' and now > ARGV[1] + 0 then", "if false then"},
		},
	},
}

// Build builds the worker with the mutant in it, or, if m is nil, as it is. root
// is berth's directory, dir takes the program and the changed files.
func Build(root, dir string, m *Mutant) (program string, err error) {
	program = filepath.Join(dir, "worker")
	args := []string{"build", "-o", program}
	if m != nil {
		overlay, err := m.overlay(root, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./cmd/worker")...)
	cmd.Dir = filepath.Join(root, "verify")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, text)
	}
	return program, nil
}

// overlay writes the changed files and the list that tells the compiler of them.
func (m *Mutant) overlay(root, dir string) (string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		path := filepath.Join(root, e.File)
		text, ok := changed[path]
		if !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(raw)
		}
		if !strings.Contains(text, e.Old) {
			return "", fmt.Errorf("%s has changed: it has no %q to replace", e.File, e.Old)
		}
		changed[path] = strings.ReplaceAll(text, e.Old, e.New)
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range changed {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		list.Replace[path] = file
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, raw, 0o600)
}
