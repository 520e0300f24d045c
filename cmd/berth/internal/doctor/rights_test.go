package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// moreRights are those that the same page has for the audit and the events.
var moreRights = []string{"+xadd", "+xrevrange", "+psubscribe"}

func TestRightsAreThoseDocumented(t *testing.T) {
	t.Parallel()
	var asked, told []string
	for _, r := range needed {
		asked = append(asked, r.name())
	}
	rights, clustered := redistest.LeastRights(t, "../../../..")
	for _, r := range slices.Concat(rights, clustered, moreRights) {
		if strings.HasPrefix(r, "+") {
			told = append(told, r)
		}
	}
	slices.Sort(asked)
	slices.Sort(told)
	if !slices.Equal(asked, told) {
		t.Errorf("asked for:  %v\ndocumented: %v", asked, told)
	}
}

// dialAs returns a client for a new user with these rights and no others.
func dialAs(t *testing.T, server *redistest.Server, url, user string, rights []string) redis.UniversalClient {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	server.Do(t, args...)
	return dial(t, strings.Replace(url, "://", "://"+user+":secret@", 1))
}

// TestMissingRightIsNamed: each of them, to a user who may not ask for rights.
func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	cluster := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("cluster-enabled yes"))
	cluster.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	await(t, func() bool {
		text, _ := cluster.Do(t, "CLUSTER", "INFO").(string)
		return strings.Contains(text, "cluster_state:ok")
	})
	least, more := redistest.LeastRights(t, "../../../..")
	all := slices.Concat(least, more)
	for i, right := range all {
		if right == "+cluster|slots" || !strings.ContainsAny(right[:1], "+~&") {
			continue // without the first there is no Redis to examine
		}
		server, url, rights := single, single.URL(), least
		if i >= len(least) {
			server, url, rights = cluster, "redis+cluster://"+cluster.Addr(), all
		}
		p := &patient{Config: Config{Prefix: "berth"}, own: "berth-doctor-rights"}
		p.Redis = dialAs(t, server, url, fmt.Sprint("user", i), slices.Delete(slices.Clone(rights), i, i+1))
		f := p.rights(t.Context(), node{})
		optional := []string{"+command", "+sunsubscribe", "+ping", "+info", "+scan"}
		if want := slices.Contains(optional, right); !strings.Contains(f.Found, right) || f.Status == OK || (f.Status == Warn) != want {
			t.Errorf("without %s: %+v", right, f)
		}
		if n := server.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("without %s it left %v keys behind", right, n)
			server.Do(t, "FLUSHALL")
		}
	}
}

// without returns the rights without some of them.
func without(all []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(r string) bool { return slices.Contains(some, r) })
}

func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	client := clientOf(t, server.Client(t))
	if err := berthadmin.Of(client).Pin(t.Context(), "idle", 1); err != nil { // something to look at
		t.Fatal(err)
	}
	least, _ := redistest.LeastRights(t, "../../../..")
	full := append(slices.Concat(least, moreRights), "+config|get")
	for name, test := range map[string]struct {
		rights []string
		want   map[string]string
	}{
		"full":      {full, nil},
		"least":     {least, map[string]string{"rights": "WARN lacks +xadd (what operators do is not recorded), +xrevrange (berth audit"}},
		"no hset":   {without(full, "+hset"), map[string]string{"rights": "FAIL +hset", "semaphore": "FAIL taking a permit"}},
		"no zcount": {without(full, "+zcount"), map[string]string{"rights": "FAIL +zcount"}},
		"no scan":   {without(full, "+scan"), map[string]string{"rights": "WARN +scan (berth ls", "keyspace": "WARN may not be looked at"}},
		"no eval":   {without(full, "+eval", "+evalsha"), map[string]string{"rights": "FAIL +evalsha", "semaphore": "FAIL", "scripts": "FAIL do not run", "keyspace": "WARN"}},
		"no keys":   {without(full, "~berth:*"), map[string]string{"rights": "FAIL ~berth:*", "semaphore": "FAIL", "scripts": "FAIL do not run", "keyspace": "WARN"}},
		"no clock":  {without(full, "+time"), map[string]string{"rights": "FAIL +time", "semaphore": "FAIL", "clock": "WARN could not be read", "keyspace": "WARN may not be looked at"}},
		"deaf": {
			without(full, "&berth:*"),
			map[string]string{"rights": "FAIL &berth:*", "messages": "FAIL not allowed"},
		},
		"ignorant": {without(full, "+info"), map[string]string{
			"version": "WARN not checked: this user may not use INFO", "memory": "WARN not checked", "persistence": "WARN not checked",
			"replication": "WARN not checked",
			"rights":      "WARN +info",
		}},
		"nothing": {nil, map[string]string{
			"version": "WARN", "rights": "FAIL +eval", "semaphore": "FAIL", "scripts": "FAIL", "messages": "FAIL", "memory": "WARN",
			"persistence": "WARN", "replication": "WARN", "clock": "WARN", "keyspace": "WARN",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := byCheck(t, insist(t, Config{
				Redis: dialAs(t, server, server.URL(), strings.ReplaceAll(name, " ", "-"), test.rights), Prefix: "berth",
			}))
			wantOnly(t, all, test.want)
			if text, _ := json.Marshal(all); strings.Contains(string(text), "secret") {
				t.Errorf("the password is in %s", text)
			}
		})
	}
}

// TestUserWhoOnlyLooksIsNotAFault: with the rights that docs/operations.md gives such a user nothing
// fails, and what is not checked says so. A right that looking needs, or one of all that writing
// needs, is still a fault.
func TestUserWhoOnlyLooksIsNotAFault(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	viewer := redistest.RightsOf(t, "../../../..", "viewer")
	more := append(slices.Clone(viewer), "+info", "+xrevrange")
	reader := append(redistest.RightsOf(t, "../../../..", "reader"), "+info", "+xrevrange")
	const notTaken, notSent = "WARN not checked: this user may not take a permit", "WARN not checked: this user may not send messages"
	for name, test := range map[string]struct {
		rights []string
		want   map[string]string
	}{
		"documented": {viewer, map[string]string{
			"rights": "WARN only look, and lacks +xrevrange (berth audit does not work)", "semaphore": notTaken, "messages": notSent,
			"version": "WARN not checked", "memory": "WARN not checked", "persistence": "WARN not checked", "replication": "WARN not checked",
		}},
		"more": {more, map[string]string{"rights": "OK may only look", "semaphore": notTaken, "messages": notSent}},
		"reader": {reader, map[string]string{
			"rights": "OK may only look", "semaphore": notTaken, "messages": notSent, "scripts": "WARN not checked: this user may not run scripts that write",
		}},
		"half a reader": {without(reader, "+eval_ro"), map[string]string{"rights": "FAIL +eval", "semaphore": "FAIL", "messages": "FAIL", "scripts": "FAIL"}},
		"blind":         {without(more, "+zscore"), map[string]string{"rights": "FAIL +zscore", "semaphore": "FAIL", "messages": "FAIL"}},
		"deleter":       {append(slices.Clone(more), "+del"), map[string]string{"rights": "FAIL +hset", "semaphore": "FAIL", "messages": "FAIL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(name, "reader") {
				redistest.NeedsReadOnlyScripts(t)
			}
			name := strings.ReplaceAll(name, " ", "-")
			all := byCheck(t, insist(t, Config{Redis: dialAs(t, server, server.URL(), name, test.rights), Prefix: "berth"}))
			wantOnly(t, all, test.want)
		})
	}
}
