package protocol

import "strings"

// Unfit is the reason why a server does not run the script at all, and what to do about it.
// docs/servers.md has a table of servers.
type Unfit struct{ What, Do string }

// Error implements error.
func (u *Unfit) Error() string { return u.What + ": " + u.Do }

// undeclared is the answer of servers that want all keys of a script declared. Outside a
// Cluster they are, so that only what changes requests on their way can cause it.
var undeclared = &Unfit{
	"the server wants all keys of a script declared",
	"connect without what is between that changes requests, or allow undeclared keys in its settings (docs/servers.md)",
}

// unfit are those answers, by what is in their text. Redis itself says "undeclared keys" of
// a slot that moves, which passes.
var unfit = []struct {
	text string
	is   *Unfit
}{
	{"undeclared key", undeclared},
	{"not allowed from script", &Unfit{
		"the server does not let scripts run a command that berth needs", "use a server that does (docs/servers.md)",
	}},
	{"bad lua script for redis cluster", &Unfit{
		"the server checks the texts of scripts", "turn that off: set script_check_enable to 0 (docs/servers.md)",
	}},
}

// unfitness returns why the server that said text does not run the script, or nil.
func unfitness(text string) *Unfit {
	text = strings.ToLower(text)
	if strings.Contains(text, "during rehashing") {
		return nil
	}
	for _, u := range unfit {
		if strings.Contains(text, u.text) {
			return u.is
		}
	}
	return nil
}
