package protocol

import (
	"fmt"
	"strings"
)

// advice is what to do about errors of servers, networks and clients, by what is in their texts.
var advice = []struct{ text, do string }{
	{"no such host", "check the host"},
	{"connection refused", "nothing listens there: check address and port, and whether Redis runs"},
	{"does not look like a TLS handshake", "the server does not speak TLS: connect without"},
	{"WRONGPASS", "check user and password"},
	{"NOAUTH", "check user and password"},
	{"NOPERM", `"berth doctor" names the rights that are missing`},
	{"can't run this command", `"berth doctor" names the rights that are missing`},
	{"READONLY", "it is a replica: connect to the master, or wait until a failover is over"},
	{"write against a read only replica", "it is a replica: connect to the master, or wait until a failover is over"},
	{"OOM ", "the server's memory is full: raise maxmemory, or remove other data"},
	{"command not allowed when used memory", "the server's memory is full: raise maxmemory, or remove other data"},
	{"MISCONF", "the server cannot save its data: its log says why"},
	{"NOREPLICAS", "look after the replicas, or lower min-replicas-to-write"},
	{"CLUSTERDOWN", "a part of the Cluster has no master: redis-cli --cluster check ADDRESS shows which"},
	{"while the cluster is down", "a part of the Cluster has no master: redis-cli --cluster check ADDRESS shows which"},
	{"MASTERDOWN", "it is a replica without its master: connect to the master, or wait until a failover is over"},
	{"LOADING", "it has just started and reads its data: try again shortly"},
	{"DB index is out of range", "the server has no database of that number: its setting databases has their count, and a Cluster only has 0"},
	{"max number of clients reached", "close connections, or raise maxclients"},
	{"nknown command", "berth needs Redis or Valkey itself, and no Sentinel or proxy that lacks the command: docs/servers.md has a table"},
}

// Advice returns what to do about an error whose text is given, or "".
func Advice(text string) string {
	for _, a := range advice {
		if strings.Contains(text, a.text) {
			return a.do
		}
	}
	return ""
}

// advised returns the text of err for whoever has to mend it.
func advised(err error) string {
	text := plainly(err)
	if foreign(err) {
		_, reply, _ := strings.Cut(text, "reply: ")
		return fmt.Sprintf("what answers there is not Redis: it says %s: check address and port", reply)
	}
	do := Advice(text)
	switch {
	case do == "":
		return text
	case strings.HasSuffix(text, "."):
		return fmt.Sprintf("%s (%s)", text, do)
	}
	return text + ": " + do
}

// plainly returns the text of err without what a server puts around an error from inside a script:
// the line, and the script's hash.
func plainly(err error) string {
	text := err.Error()
	if !strings.Contains(text, "user_script") {
		return text
	}
	if at := strings.LastIndex(text, " script: "); at >= 0 {
		text = text[:at]
	}
	if at := strings.Index(text, "BERTH"); at >= 0 {
		text = text[at:]
	}
	return text
}

// foreign reports whether err is that the client does not understand the answer.
func foreign(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "redis: can't parse ") && strings.Contains(err.Error(), "reply: ")
}
