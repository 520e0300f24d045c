// Package mutants lists bugs to plant: changes of berth's source that a build sees
// through -overlay, so that the library needs no hooks for them and its files stay as
// they are. Each breaks one mechanism that a promise depends on, and a storm must
// notice it, or a test where no storm lasts long enough.
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
	// Scenario is the storm that must notice it.
	Scenario string
	// Caught lists the promises of which the storm must see at least one broken.
	Caught []string
	// Test is the one of tests/fault or tests/promise that must fail, if it is not for a storm.
	Test string
}

// Edit replaces every occurrence of Old in a file; there must be at least one.
type Edit struct{ File, Old, New string }

const (
	script  = "internal/protocol/transition.lua"
	store   = "internal/protocol/store.go"
	claim   = "internal/claim/claim.go"
	answer  = "internal/claim/answer.go"
	end     = "internal/claim/end.go"
	session = "internal/session/session.go"
	request = "internal/session/request.go"
	call    = "internal/session/call.go"
	reach   = "internal/session/reach.go"
	commit  = "internal/commit/commit.go"
)

// notAlone removes the script's short way for a lease on an otherwise idle semaphore,
// so that a change behind it takes effect.
var notAlone = Edit{script, "if ARGV[3] and not ARGV[4] then", "if false then"}

// settling lets every call settle what a lease has cost, for a change that does so.
var settling = Edit{script, "  if settles then\n", "  if true then\n"}

// movedTombstone is where a lease that moves leaves a tombstone.
const movedTombstone = `        others = others + 1
        put(id, 'x 5 ' .. second)
        expire(id, now + TOLD)
`

// All lists all mutants.
var All = []Mutant{
	// Which request is granted, when and for how long.
	{
		Name: "no-reap", What: "what has run out is not removed", Scenario: "clients", Caught: []string{"L2", "linearizability"},
		Edits: []Edit{{script, "if soon > 0 and soon <= now then\n", "if false then\n"}},
	},
	{
		Name: "no-pump-on-release", What: "a release wakes nobody", Scenario: "clients", Caught: []string{"L1"},
		Edits: []Edit{{
			script, "if better and status == 0 and waiting > 0",
			"if better and not (groups[1] and groups[1].verb == 'L') and status == 0 and waiting > 0",
		}},
	},
	{
		Name: "renew-recreates", What: "a renewal grants what it does not find, and is believed", Scenario: "flush", Caught: []string{"S6"},
		Edits: []Edit{{answer, "return c.State == Held && (r.Token != c.Lease.Token", "return false && (r.Token != c.Lease.Token"}, {
			script, "  elseif not record or kind == 'x' or",
			`  elseif verb == 'R' and not record then
    put(id, 'h 1 ' .. takeSlot() .. ' ' .. nextNumber() .. ' 0 ' .. param .. ' - 1/x;y z')
    expire(id, now + param)
    used, holders = used + 1, holders + 1
    answer = '7 0 ' .. last .. ' ' .. param
  elseif not record or kind == 'x' or`,
		}},
	},
	{
		Name: "token-counter", What: "tokens come from a counter that goes with the keys", Scenario: "clients", Caught: []string{"S2"},
		Edits: []Edit{
			notAlone,
			{
				script, "  if seq < us then\n    seq, last = us, stamp\n  else\n",
				"  if false then\n  else\n",
			},
		},
	},
	{
		Name: "wrong-waiter", What: "a permit is handed to the last in line", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{{
			script, "call('ZRANGE', ORDER, '0', math.min(room + left, stood - 1))",
			"call('ZREVRANGEBYSCORE', ORDER, '(0', '-inf', 'LIMIT', '0', math.min(room + left, stood - 1) + 1)",
		}},
	},
	{
		Name: "barging", What: "a newcomer that fits passes the queue", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{{script, "elseif waiting == 0 and used + size <= limit", "elseif used + size <= limit"}},
	},
	{
		Name: "trust-from-reply", What: "the trust deadline is counted from the reply", Scenario: "clients", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{
			{answer, "c.hold(a.Sent, a.Got,", "c.hold(a.Got, a.Got,"},
			{answer, "at := trust(a.Sent,", "at := trust(a.Got,"},
		},
	},
	{
		Name: "late-trust-from-reply", What: "a late answer is trusted from when it came", Scenario: "clients", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{{call, "	s.queue.AnsweredLate()\n", "	s.queue.AnsweredLate()\n	a.Sent = a.Got\n"}},
	},
	{
		Name: "client-clock", What: "the time is the client's, and clients differ by up to 2 s", Scenario: "clients", Caught: []string{"S1", "S3"},
		Edits: []Edit{
			{store, "\"fmt\"\n", "\"fmt\"\n\t\"os\"\n\t\"time\"\n"},
			{store, "s.Keys(k)...), &bound{latest: notAfter})", "s.Keys(k)...), time.Now().UnixMicro()+int64(os.Getpid()%5)*400_000)"},
			{script, "local time = call('TIME')\n", "local time = { '', ARGV[1] }\n"},
			{script, "if bound ~= '0' then", "if false then"},
		},
	},

	// Rates.
	{
		Name: "rate-lost-reply", What: "a grant is not counted when its reply is lost", Scenario: "clients", Caught: []string{"R1", "R4"},
		Edits: []Edit{settling, {
			script, "        answer = '1 ' .. grant .. ' ' .. format('%d', held)\n",
			`        answer = '1 ' .. grant .. ' ' .. format('%d', held)
        if rates then put(id, settle(record, '0')) end
`,
		}},
	},
	{
		Name: "rate-forgets", What: "a crash gives back what the lease has cost", Scenario: "clients", Caught: []string{"R1", "R4"},
		Edits: []Edit{
			settling,
			{script, "local better = false ", "local crashed, better = {}, false "},
			{script, "      leave(id, record, 2)\n", "      leave(id, record, 2)\n      crashed[#crashed + 1] = sub(record, 1, 1) ~= 'w' and record or nil\n"},
			{
				script, "local limitBefore, wantedSet",
				"for _, record in ipairs(rates and crashed or {}) do settle(record, '0') end\nlocal limitBefore, wantedSet",
			},
		},
	},
	{
		Name: "rate-overtaken", What: "a head that is too costly for now is overtaken", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{{
			script, "      elseif not fits then\n",
			"      elseif wait > 0 then\n        status = 0\n      elseif not fits then\n",
		}},
	},

	{
		Name: "dead-head-spends", What: "a dead waiter is granted, and spends of the rate", Test: "TestDeadHeadSpendsNoBudget",
		Edits: []Edit{{script, "elseif asking or age > LATELY then", "elseif asking then"}},
	},
	{
		Name: "old-window", What: "what was granted before the rate was changed counts for the old window", Scenario: "clients", Caught: []string{"R2", "R5"},
		Edits: []Edit{{
			script, "          roll(r)\n        elseif from and r.burst",
			"          local n = math.max(floor((from.per - r.per) / r.grain), 0)\n          r.oldest, r.newest = r.oldest + n, r.newest + n\n          roll(r)\n        elseif from and r.burst",
		}},
	},
	{
		Name: "change-forgets", What: "a change of the rates forgets what was spent of them", Scenario: "clients", Caught: []string{"R1", "R4"},
		Edits: []Edit{{script, "r.since = math.max(us, seq + 1)", "from, r.since = nil, math.max(us, seq + 1)"}},
	},
	{
		Name: "one-rate", What: "of several rates only the first is looked at", Scenario: "clients", Caught: []string{"R1", "R1b", "R4"},
		Edits: []Edit{{script, "      elseif r.spent + cost > r.n then", "      elseif k == 1 and r.spent + cost > r.n then"}},
	},
	{
		Name: "bucket-twice", What: "a bucket gives twice what it holds", Scenario: "clients", Caught: []string{"R1b"},
		Edits: []Edit{{script, "refill(r, cost) - refill(r, r.burst)", "refill(r, cost) - 2 * refill(r, r.burst)"}},
	},
	{
		Name: "bucket-given-more", What: "a bucket gets back more than it would have kept", Scenario: "clients", Caught: []string{"R1b"},
		Edits: []Edit{{script, "less = math.min(less, all[n] and all[n].lack or less, ", "less = math.min(less, "}, {script, "all[k].lack = all[k].lack - less", "all[k].lack = math.max(all[k].lack - less, 0)"}},
	},

	// Settled costs.
	{
		Name: "settled-twice", What: "a settlement is applied twice", Scenario: "clients", Caught: []string{"R1", "R1b", "R4"},
		Edits: []Edit{{script, "correct(unit, is + 0, cost + 0, since)", "for _ = 1, 2 do correct(unit, is + 0, cost + 0, since) end"}},
	},
	{
		Name: "surplus-free", What: "what a lease has cost more than was asked for does not count", Scenario: "clients", Caught: []string{"R4"},
		Edits: []Edit{{script, "if cost ~= is then", "if cost + 0 < is + 0 then"}},
	},
	{
		Name: "settled-unheeded", What: "nobody who waits is served when a lease is settled", Scenario: "clients", Caught: []string{"R4"},
		Edits: []Edit{{script, "recount, better = true, true", "recount = true"}},
	},
	{
		Name: "first-word", What: "what a holder says while the server is told something else is lost", Scenario: "clients", Caught: []string{"R4"},
		Edits: []Edit{{answer, "case settled && op.Costs != c.settle.costs:", "case false:"}},
	},
	{
		Name: "settled-too-late", What: "nobody learns that what was settled came after the lease's end", Test: "TestReleaseTellsOfALateSettlement",
		Edits: []Edit{{answer, "case c.settle.costs != \"\" && c.ranOut(r, a):", "case false:"}},
	},
	{
		Name: "settled-by-a-copy", What: "a late copy of a settlement has the last word", Test: "TestLateSettlement",
		Edits: []Edit{{answer, "case c.State == Held && a.Got < c.settle.until:", "case false:"}},
	},
	{
		Name: "settled-for-another-window", What: "less is not free where the row of a rate was sorted", Test: "TestSettledCostsServeWhoWaitsElsewhere",
		Edits: []Edit{{script, "if k >= n and sum >= is then", "if k == n and sum >= is then"}},
	},
	{
		Name: "settled-though-forgotten", What: "what a shorter window has forgotten is settled for less", Test: "TestSettlementOfWhatIsForgottenFreesNothing",
		Edits: []Edit{{script, "if r.per > from.per then", "if false then"}},
	},
	{
		Name: "settled-after-end", What: "a lease that is over can be settled", Scenario: "clients", Caught: []string{"R4"},
		Edits: []Edit{{request, "if r.claim.State != claim.Held {\n		return r.over()", "if r.claim.State != claim.Held {\n		return nil"}},
	},

	// Tenants.
	{
		Name: "grant-not-charged", What: "a grant does not move the line of its tenant on", Scenario: "clients", Caught: []string{"T2", "T3"},
		Edits: []Edit{{script, "l.place = l.place + line.step(weight, costs, share)", "l.place = l.place + 0"}},
	},
	{
		Name: "line-mirrored", What: "each further request of a tenant stands before the last one, not behind it", Scenario: "clients", Caught: []string{"T1"},
		Edits: []Edit{{script, "return l, l.number * STRETCH + l.pos - math.min", "return l, l.number * STRETCH + 3 * AMID - l.pos - math.min"}},
	},
	{
		Name: "untenanted-last", What: "those without a tenant are served when nobody else waits", Scenario: "clients", Caught: []string{"T3"},
		Edits: []Edit{{script, "local least = common.count > 0 and common or nil", "local least = common.count == waiting and common or nil"}},
	},
	{
		Name: "charged-in-vain", What: "a request that leaves without a grant moves the line of its tenant on", Scenario: "clients", Caught: []string{"T3"},
		Edits: []Edit{
			{script, "if epoch > 0 then line.leave(", "if epoch > 0 then line.vain("},
			{
				script, "function line.grant(record",
				"function line.vain(record)\n  local l = line.leave(record)\n  l.place = l.place + WHOLE\nend\n\nfunction line.grant(record",
			},
		},
	},
	{
		Name: "no-creep", What: "all new tenants stand at one place", Scenario: "clients", Caught: []string{"T6"},
		Edits: []Edit{{script, "fresh = fresh + math.max(", "fresh = fresh + 0 * math.max("}},
	},
	{
		Name: "line-head-not-told", What: "who becomes the head of the queue is not told when to look, if there are lines", Scenario: "clients", Caught: []string{"R2", "L2"},
		Edits: []Edit{{script, "if id then tell(id, record, 'n '", "if false then tell(id, record, 'n '"}},
	},

	// Pauses, and time that lets somebody in, in whatever process.
	{
		Name: "pause-endless", What: "a pause that should end by itself does not", Scenario: "clients", Caught: []string{"recovery"},
		Edits: []Edit{{script, "        paused, weighAll = '0', true\n", "        paused, weighAll = '1', true\n"}},
	},
	{
		Name: "pause-passed", What: "a newcomer that fits is granted within a pause", Scenario: "clients", Caught: []string{"L7"},
		Edits: []Edit{{script, "elseif waiting == 0 and used + size <= limit and paused == '0'", "elseif waiting == 0 and used + size <= limit"}},
	},
	{
		Name: "head-not-told", What: "who becomes the head of the queue is not told when to look", Scenario: "clients", Caught: []string{"R2", "L2", "L7"},
		Edits: []Edit{{script, "if k > 1 or lined or soon < known then", "if soon < known then"}},
	},
	{
		Name: "nearest-not-told", What: "the head of the queue is not told that it is to look earlier", Scenario: "clients", Caught: []string{"R2", "L7"},
		Edits: []Edit{{script, "if k > 1 or lined or soon < known then", "if k > 1 or lined then"}},
	},
	{
		Name: "maxhold-not-near", What: "nobody looks when a MaxHold is over that began with a hand-off", Scenario: "clients", Caught: []string{"L2"},
		Edits: []Edit{{script, "ceiling, caps = lookBy(now + maxhold), caps or {}", "ceiling, caps = format('%d', now + maxhold), caps or {}"}},
	},
	{
		Name: "head-deaf", What: "who is told that it is the head of the queue does not look", Scenario: "clients", Caught: []string{"R2", "L2", "L7"},
		Edits: []Edit{{end, "c.first, c.told, c.opens = true, now, now.Add(rest+time.Millisecond)", "_, _ = rest, now"}},
	},

	// Requests that are repeated or late.
	{
		Name: "full-ttl-on-reread", What: "a repeated request that finds its own grant gets the full TTL", Scenario: "clients", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{{script, "answer = '1 ' .. grant .. ' ' .. format('%d', held)", "answer = '1 ' .. grant .. lasting"}},
	},
	{
		Name: "no-tombstone", What: "a release leaves no tombstone for late copies", Scenario: "clients", Caught: []string{"L2", "linearizability"},
		Edits: []Edit{
			{script, "leave(id, record, 1, param == '1' and now + LATE or 0)", "leave(id, record, 1, 0)"},
			{script, "if param == '1' and not record then", "if param == '1' and not record and false then"},
			{script, "elseif param == '1' and remaining(id) < LATE then", "elseif param == '1' and record and remaining(id) < LATE then"},
		},
	},
	{
		Name: "no-tombstone-when-refused", What: "a refused request forgets its copies that are under way", Scenario: "clients", Caught: []string{"L2", "linearizability"},
		Edits: []Edit{{answer, "if a.Got < c.copyUntil {", "if false {"}},
	},
	{
		Name: "not-idempotent", What: "a repeated request takes its permits again", Scenario: "clients", Caught: []string{"L2", "linearizability", "recovery"},
		Edits: []Edit{{script, "if record then                                      -- a repetition", "if false then                                       -- a repetition"}},
	},
	{
		Name: "new-id", What: "a request whose outcome is not known is repeated with another id", Scenario: "clients", Caught: []string{"L2", "linearizability"},
		Edits: []Edit{{end, "case protocol.Acquire:\n\t\t\tc.copyUntil = now.Add(protocol.Late)", "case protocol.Acquire:\n\t\t\tc.ID, c.copyUntil = c.newID(), now.Add(protocol.Late)"}},
	},

	// Redis that answers, only late.
	{
		Name: "late-answer-dropped", What: "the answer to a call that was given up is dropped", Scenario: "clients", Caught: []string{"L6"},
		Edits: []Edit{{
			call, "	if reply.Now != 0 {\n		s.seeClock(",
			"	if s.queue.InFlight() != call {\n		s.queue.Return(call)\n		return\n	}\n	if reply.Now != 0 {\n		s.seeClock(",
		}},
	},
	{
		Name: "order-turned", What: "what a failed call carried goes behind what came meanwhile", Scenario: "clients", Caught: []string{"S4"},
		Edits: []Edit{{commit, "if op.came == 0 {", "if true {"}},
	},

	// Redis that does not answer, or seems to.
	{
		Name: "silence-endless", What: "silence ends no request", Test: "TestFirstRequestOnASlowLinkFails",
		Edits: []Edit{{claim, "if more := c.Alive.Add(Timeout); more > now && c.mayGoOn() {", "if more := now.Add(Timeout); c.mayGoOn() {"}},
	},
	{
		Name: "late-unheard", What: "an answer that comes late is no sign of life", Test: "TestRefusalsOfWhatWasGivenUpAreHeard",
		Edits: []Edit{{call, "	if reply.Now != 0 {\n		s.session.hearAt(got)", "	if reply.Now != 0 && s.queue.InFlight() == call {\n		s.session.hearAt(got)"}},
	},
	{
		Name: "idle-unasked", What: "idle connections are not asked whether they are dead", Test: "TestForgottenConnectionsLoseNoCall",
		Edits: []Edit{{reach, "		go s.session.store.CheckIdle(s.session.ctx, s.key, s.session.hearNow)\n", ""}},
	},
	{
		Name: "idle-suspected", What: "idle connections are asked whenever an answer is late", Test: "TestSlowAnswerIsNotADeadConnection",
		Edits: []Edit{{reach, "> deadAfter*s.queue.Took", "> 0"}},
	},

	// Leases that are given away.
	{
		Name: "move-copies", What: "the old id of a lease that has moved holds it too, and moves it again", Scenario: "clients", Caught: []string{"S5"},
		Edits: []Edit{{
			script, movedTombstone,
			"          used, holders, slots = used + size, holders + 1, slots + 1\n",
		}},
	},
	{
		Name: "move-not-idempotent", What: "a repeated move is told that the lease was moved before", Scenario: "clients", Caught: []string{"S5"},
		Edits: []Edit{{script, "if moved then                                     -- a repetition", "moved = nil\n      if moved then                                     -- a repetition"}},
	},
	{
		Name: "move-without-tombstone", What: "a lease that moves leaves no tombstone for late copies of its acquire", Scenario: "clients",
		Caught: []string{"L2", "linearizability"},
		Edits:  []Edit{{script, movedTombstone, "          goneIDs[#goneIDs + 1] = id\n"}},
	},
	{
		Name: "move-keeps-token", What: "a lease that moves keeps its token", Scenario: "clients", Caught: []string{"S2"},
		Edits: []Edit{
			{script, "match(record, '^h (%d+) (%d+) %d+ (%d+) (%d+) (%S+) (%S+) (.*)$')", "match(record, '^h (%d+) (%d+ %d+) (%d+) (%d+) (%S+) (%S+) (.*)$')"},
			{script, "place .. ' ' .. nextNumber() .. ' ' .. ceiling .. ' ' .. ttl .. ' ' .. charges", "place .. ' ' .. ceiling .. ' ' .. ttl .. ' ' .. charges"},
		},
	},

	// Clients that believe messages, which anyone may publish.
	{
		Name: "forged-grant", What: "a message of a grant is believed, whatever it says", Scenario: "clients", Caught: []string{"S2"},
		Edits: []Edit{{end, "if slot < 0 || slot >= limit || limit < c.Terms.Weight || token <= 0 || token/1000 > latest {", "if false {"}},
	},
	{
		Name: "forged-end", What: "a message of a lease's end ends it", Scenario: "clients", Caught: []string{"S6"},
		Edits: []Edit{{end, "c.due, c.renew, c.peek = clock.Never, c.renew || !c.Manual, c.Manual", "return c.lose(c.lost(Evicted), c.Trust)"}},
	},
	{
		Name: "guessable-ids", What: "who sees the channels can make up the ids", Scenario: "clients", Caught: []string{"S1", "S2", "S3", "S7"},
		Edits: []Edit{{session, "ids(channel + \".\" + secret)", "ids(channel + \".\" + secret[:0])"}},
	},

	// What follows the loss of one of the two keys.
	{
		Name: "hash-lost", What: "when the hash is lost, the rest is removed at once", Scenario: "half", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{{script, "if holdsUntil > now then error", "if holdsUntil > now and stored then error"}},
	},
	{
		Name: "set-lost", What: "when the sorted set is lost, the rest is removed at once", Scenario: "half", Caught: []string{"S1", "S3", "S7"},
		Edits: []Edit{{script, "if holdsUntil > now then error", "if holdsUntil > now and not stored then error"}},
	},
}

// Build builds the tests of package verify, which are the client process of a storm, too,
// with the mutant in it, or unchanged if the mutant has no edits. It returns the
// program's path. root is berth's directory; the program and the changed files go to dir.
func (m Mutant) Build(root, dir string) (program string, err error) {
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "worker")
	cmd := exec.Command("go", "test", "-c", "-o", program, "-overlay", overlay, ".")
	cmd.Dir = filepath.Join(root, "dev", "verify")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c: %w: %s", err, text)
	}
	return program, nil
}

// Fails runs the test of a mutant, and reports whether it fails, with what it says.
func (m Mutant) Fails(root, dir string) (says string, fails bool, err error) {
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", false, err
	}
	cmd := exec.Command("go", "test", "-count=1", "-run", "^"+m.Test+"$", "-overlay", overlay, "./tests/fault", "./tests/promise")
	cmd.Dir = root
	text, _ := cmd.CombinedOutput() // what does not compile has not failed
	return string(text), strings.Contains(string(text), "--- FAIL: "+m.Test), nil
}

// overlay writes the changed files and the list that names them to the compiler.
func (m Mutant) overlay(root, dir string) (string, error) {
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
	return Overlay(dir, changed)
}

// Overlay writes changed texts of files, by absolute path, to dir and returns the path
// of the list for "go build -overlay".
func Overlay(dir string, changed map[string]string) (list string, err error) {
	replace := map[string]string{}
	for path, text := range changed {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, raw, 0o600)
}
