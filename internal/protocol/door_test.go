package protocol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The door: a request that does not fit the grammar is refused whole, in both tiers, and
// nothing is changed; and what the script stores of others, it reads back.

// heads is the grammar of transition.lua's header: what each verb looks like. All but those
// of operators are of ids.
var heads = func() map[byte]*regexp.Regexp {
	const flag, number, positive, owner = `[01]`, `(?:0|[1-9]\d{0,11})`, `[1-9]\d{0,11}`, `:?\d+/[^\s]+`
	forms := map[byte][]string{
		'A': {flag, positive, number, number, positive, number, number, positive, owner, `(?s:.*)`},
		'H': {number, flag}, 'R': {number}, 'L': {`[01](?: \S+)?`}, 'M': {number, owner}, 'E': {flag},
		'D': {number}, 'P': {`(?:-1|` + number + `)`}, 'Z': {flag}, 'Q': {flag, `\S+`, `\S+`}, 'U': {``}, 'S': {`\S+`},
		'W': {positive, `(?s:.*)`},
	}
	out := map[byte]*regexp.Regexp{}
	for verb, words := range forms {
		out[verb] = regexp.MustCompile(`\A` + string(rune(verb)) + strings.Join(words, " ") + `\z`)
	}
	return out
}()

var (
	goodID    = regexp.MustCompile(`\A[A-Za-z0-9]+\.[^ \n]+\z`)
	goodCount = regexp.MustCompile(`\A\d{1,3}\z`)
)

// fits reports whether a request fits the grammar.
func fits(args []string) bool {
	if bound, err := strconv.ParseInt(args[0], 10, 64); err != nil || bound < 0 {
		return false
	}
	switch args = args[1:]; len(args) {
	case 0:
		return true
	case 1:
		return false
	case 2:
		return fitsOne(args[0], args[1])
	}
	if !goodCount.MatchString(args[0]) {
		return false
	}
	groups, _ := strconv.Atoi(args[0])
	if 1+2*groups > len(args) {
		return false
	}
	ids := args[1+2*groups:]
	if len(ids) > MaxIDs {
		return false
	}
	acquires := false
	for g := range groups {
		head, text := args[1+2*g], args[2+2*g]
		if !goodCount.MatchString(text) || acquires && !isAcquire(head) {
			return false
		}
		count, _ := strconv.Atoi(text)
		if count > len(ids) || !fitsGroup(head, ids[:count]) {
			return false
		}
		acquires, ids = acquires || isAcquire(head), ids[count:]
	}
	return len(ids) == 0
}

func isAcquire(head string) bool { return head != "" && strings.Contains("AB", head[:1]) }

func fitsOne(head, id string) bool { return fitsGroup(head, []string{id}) }

// ratedHead is what stands before an acquire with a rate.
var ratedHead = regexp.MustCompile(`\AB(\S+) (\S+) (A)`)

// ownerWord is the owner of an acquire.
var ownerWord = regexp.MustCompile(`\AA[01](?: \d+){7} (\S+) `)

func tenantFits(head string) bool {
	m := ownerWord.FindStringSubmatch(head)
	if m == nil {
		return true
	}
	front, tenant, ok := strings.Cut(m[1], ";tenant=")
	if !ok {
		return true
	}
	if n := strings.LastIndex(front, ";"); n >= 0 && strings.HasPrefix(front[n:], ";share=") {
		share := front[n+len(";share="):]
		if n, err := strconv.Atoi(share); err != nil || strconv.Itoa(n) != share || n < 1 || n > 100 {
			return false
		}
	}
	return tenant != "" && utf8.RuneCountInString(tenant) <= 64 && !strings.ContainsFunc(tenant, unicode.IsControl)
}

func ratesFit(set string) bool {
	_, ok := parseRates(set)
	return ok
}

var goodCost = regexp.MustCompile(`\A[a-z0-9_-]*:(0|[1-9]\d{0,9})\z`)

func costsFit(costs string) bool {
	for one := range strings.SplitSeq(costs, ",") {
		if !goodCost.MatchString(one) {
			return false
		}
	}
	_, ok := ParseCharges(costs)
	return ok
}

func fitsGroup(head string, ids []string) bool {
	if !tenantFits(head) {
		return false
	}
	if m := ratedHead.FindStringSubmatch(head); m != nil {
		return ratesFit(m[1]) && (m[2] == none || costsFit(m[2])) && fitsGroup(head[len(m[0])-1:], ids)
	}
	if head == "" || heads[head[0]] == nil || !heads[head[0]].MatchString(head) {
		return false
	}
	verb := Verb(head[0])
	words := strings.Split(head[1:], " ")
	switch {
	case verb == SetRates:
		unit, only := strings.CutSuffix(words[1], ":")
		if !ratesFit(words[2]) || !only && unit != "*" || only && !GoodUnit(unit) {
			return false
		}
		for _, r := range Rates(strings.Trim(words[2], "-")).All() {
			if only && r.Unit != unit {
				return false
			}
		}
	case verb == Move && strings.Contains(words[1], ";tenant="):
		return false
	case verb == Settle, verb == Release && len(words) > 1:
		if costs := words[len(words)-1]; costs != "0" && !costsFit(costs) {
			return false
		}
	}
	if verb.named() != (len(ids) > 0) || verb == Move && len(ids)%2 > 0 {
		return false
	}
	for _, id := range ids {
		if id == "state" || strings.HasPrefix(id, "!") || (verb == Acquire || verb == Move || strings.HasPrefix(head, "L1")) && !goodID.MatchString(id) {
			return false
		}
	}
	return true
}

// send makes a call with these arguments, as a client in another language may.
func (r *rig) send(args ...string) (string, error) {
	step := r.stores[0].step.Load()
	all := append([]any{"evalsha", step.sha}, r.stores[0].Keys(r.key)...)
	for _, a := range args {
		all = append(all, a)
	}
	return step.line(context.Background(), r.rdb, all)
}

// mustFit sends a request, and wants it done where it fits the grammar, and otherwise refused
// with nothing changed.
func (r *rig) mustFit(t failer, args []string) {
	t.Helper()
	before := r.exactly(t)
	_, err := r.send(args...)
	switch {
	case fits(args):
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	case !errors.Is(err, ErrRequest) || !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "BERTHREQUEST "):
		t.Fatalf("%q: %v, want ErrRequest", args, err)
	default:
		if after := r.exactly(t); !reflect.DeepEqual(before, after) {
			t.Fatalf("%q was refused, and changed\n%q\nto\n%q", args, before, after)
		}
	}
}

// exactly is what is stored, byte by byte.
func (r *rig) exactly(t failer) (out []any) {
	t.Helper()
	for _, key := range []string{r.key.State, r.key.Order()} {
		ctx := context.Background()
		pipe := r.rdb.Pipeline()
		kind, lapse := pipe.Type(ctx, key), pipe.PExpireTime(ctx, key)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatalf("%v", err)
		}
		switch kind.Val() {
		case "hash":
			out = append(out, lapse.Val(), r.rdb.HGetAll(ctx, key).Val())
		case "zset":
			out = append(out, lapse.Val(), r.rdb.ZRangeWithScores(ctx, key, 0, -1).Val())
		case "none":
			out = append(out, nil, nil)
		}
	}
	return out
}

// soundAfterAll checks that what is stored can be read by everybody.
func (r *rig) soundAfterAll(t failer) {
	t.Helper()
	r.raw(t).state(t)
	if _, err := Inspect(context.Background(), r.stores[0], r.key, true); err != nil {
		t.Fatalf("%v\n%v", err, r.raw(t))
	}
}

const anOwner = "1/host;py0.1"

var (
	genNumber      = shared(rapid.SampledFrom([]string{"0", "1", "2", "3", "250", "5000", "30000", "999999999999"}))
	genMore        = shared(rapid.SampledFrom([]string{"1", "1", "1", "2", "40", "30000", "999999999999"}))
	genRateWords   = shared(rapid.SampledFrom([]string{"-", ":1/10", ":5/1000", "t:250/40,:1073741824/2592000000", "a-b_9:3/10+4,a-b_9:3/20", ":1/1000+7"}))
	genCostWord    = shared(rapid.SampledFrom([]string{"-", ":1", "t:0", ":1073741824,a-b_9:2"}))
	genSettled     = shared(rapid.SampledFrom([]string{"0", ":1", "t:0", ":9,a-b_9:2"}))
	genTenantOwner = shared(rapid.SampledFrom([]string{anOwner + ";tenant=acme", anOwner + ";share=100;tenant=acme;share=", ":7/h;;x=y;tenant=a;tenant=b", "1/host;tenant=" + strings.Repeat("\u00fc", 64), "1/h;tenant=\xff"}))
	genBit         = shared(rapid.SampledFrom([]string{"0", "1"}))
	genOwner       = shared(rapid.SampledFrom([]string{anOwner, ":7/h", "1/host;go0.1;zone=b;x=", "0/\xff{}/;", "12345678901234567890/h"}))
	genLabel       = shared(rapid.SampledFrom([]string{"", "a label", " ", "\n", "h 1 0 5", "\x00\xff", "1 compact a.1 5", strings.Repeat("long ", 100)}))
	genAnyID       = shared(rapid.SampledFrom([]string{"s0.1", "s0.2", "s1.3", "s1.4", "q.5", "qs0.1", "1.6", "s0..", "s0.#s0.1", "s0.!x\xff", "s2.state"}))
	genWrong       = shared(rapid.SampledFrom([]string{"", "x", "-1", "-2", "1.5", "1e3", "007", "00", "9999999999999", "nan", "state", "!r", "0", "1", "5", "s0.1", " ", anOwner}))
)

// genHead draws what is asked of one id, or of the semaphore.
var genHead = shared(rapid.Custom(func(t *rapid.T) string {
	draw := func(gens ...*rapid.Generator[string]) string {
		var words []string
		for _, g := range gens {
			words = append(words, g.Draw(t, "word"))
		}
		return strings.Join(words, " ")
	}
	switch verb := rapid.SampledFrom([]string{"A", "A", "A", "A", "H", "R", "L", "L", "S", "M", "E", "D", "P", "Z", "B", "B", "T", "T", "Q", "U", "W"}).Draw(t, "verb"); verb {
	case "Q":
		switch rapid.IntRange(0, 2).Draw(t, "which") {
		case 0:
			return "Q" + draw(genBit) + " : -"
		case 1:
			return "Q" + draw(genBit) + " t: t:9/1000"
		}
		return "Q" + draw(genBit) + " * " + genRateWords.Draw(t, "rates")
	case "U":
		return verb
	case "S":
		return "S" + genSettled.Draw(t, "settled")
	case "W":
		return "W" + draw(genMore, genLabel)
	case "A", "B", "T":
		before, owner := "", genOwner
		if verb == "T" {
			owner = genTenantOwner
		}
		if verb == "B" {
			before = "B" + genRateWords.Draw(t, "rate") + " " + genCostWord.Draw(t, "cost") + " "
		}
		return before + "A" + draw(genBit, genMore, genNumber, genNumber, genMore, genNumber, genNumber, genMore, owner, genLabel)
	case "H":
		return "H" + draw(genNumber, genBit)
	case "M":
		return "M" + draw(genNumber, genOwner)
	case "R", "D":
		return verb + draw(genNumber)
	case "P":
		return "P" + rapid.OneOf(genNumber, rapid.Just("-1"), rapid.Just("-1")).Draw(t, "pin")
	case "L":
		if rapid.IntRange(0, 3).Draw(t, "settles") == 0 {
			return "L" + draw(genBit, genSettled)
		}
		return "L" + draw(genBit)
	default:
		return verb + draw(genBit)
	}
}))

// genRequest draws a request that fits.
var genRequest = shared(rapid.Custom(func(t *rapid.T) []string {
	all := rapid.SliceOfNDistinct(genAnyID, 0, 6, rapid.ID[string]).Draw(t, "ids")
	if len(all) > 0 && rapid.Bool().Draw(t, "single") {
		if head := genHead.Draw(t, "head"); Verb(head[0]).named() && head[0] != 'M' {
			return []string{"0", head, all[0]}
		}
	}
	var groups, acquires, first, last []string
	for len(all) > 0 {
		head := genHead.Draw(t, "head")
		count := rapid.IntRange(1, len(all)).Draw(t, "count")
		switch {
		case !Verb(head[0]).named():
			groups = append(groups, head, "0")
			continue
		case head[0] == 'M' && count%2 > 0:
			continue
		case isAcquire(head):
			acquires, last = append(acquires, head, strconv.Itoa(count)), append(last, all[:count]...)
		default:
			groups, first = append(groups, head, strconv.Itoa(count)), append(first, all[:count]...)
		}
		all = all[count:]
	}
	heads := append(groups, acquires...)
	if len(heads) == 0 {
		return []string{"0"}
	}
	return append(append(append([]string{"0", strconv.Itoa(len(heads) / 2)}, heads...), first...), last...)
}))

// genAnyRequest draws a request that fits, and one with a word of it replaced, left out or
// doubled, which mostly does not.
var genAnyRequest = shared(rapid.Custom(func(t *rapid.T) []string {
	args := genRequest.Draw(t, "request")
	if rapid.Bool().Draw(t, "fits") {
		return args
	}
	if len(args) == 1 {
		return args
	}
	i := rapid.IntRange(1, len(args)-1).Draw(t, "argument")
	words := strings.Split(args[i], " ")
	w := rapid.IntRange(0, len(words)-1).Draw(t, "place")
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		words = append(words[:w:w], words[w+1:]...)
	case 1:
		words = append(words[:w+1:w+1], words[w:]...)
	default:
		wrong := genWrong.Draw(t, "wrong")
		if w == 0 && i > 0 && words[0] != "" && rapid.Bool().Draw(t, "behind the verb") {
			wrong = words[0][:1] + wrong
		}
		words[w] = wrong
	}
	broken := append([]string(nil), args...)
	broken[i] = strings.Join(words, " ")
	if rapid.IntRange(0, 9).Draw(t, "less") == 0 {
		broken = broken[:len(broken)-1]
	}
	if len(broken) == 0 || twice(broken) {
		return args
	}
	return broken
}))

// twice reports whether an argument other than a count is there twice: that each id is named
// once is for the client to see to.
func twice(args []string) bool {
	seen := map[string]bool{}
	for _, a := range args {
		if len(a) > 2 && seen[a] {
			return true
		}
		seen[a] = true
	}
	return false
}

// TestDoor: whatever is asked, in whatever order, is done or refused, and nobody finds then
// what berth cannot read.
func TestDoor(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) {
			onBoth(t, keeps, func(t *testing.T, r *rig) {
				rapid.Check(t, func(t *rapid.T) { checkDoor(t, r) })
			})
		})
	}
}

func checkDoor(t *rapid.T, r *rig) {
	clock := start
	if r.mr != nil {
		r.mr.SetTime(clock)
	}
	r.reset(t)
	for _, args := range rapid.SliceOfN(genAnyRequest, 1, 12).Draw(t, "requests") {
		if r.mr != nil {
			clock = clock.Add(span(0, time.Microsecond, time.Millisecond, 40*time.Second).Draw(t, "pause"))
			r.mr.SetTime(clock)
		}
		r.mustFit(t, args)
		r.soundAfterAll(t)
	}
}
