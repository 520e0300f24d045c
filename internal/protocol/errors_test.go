package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What an error means for the question whether the step happened.

// replyError is an error that the server sent.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

// wrapped is how Redis 6.2 reports an error from inside a script.
func wrapped(text string) error {
	return replyError("ERR Error running script (call to f_5f0a2dd9b0e6c8a9): @user_script:212: @user_script: 212: -" + text)
}

var serverErrors = []struct {
	err          error
	kind, detail error
}{
	{replyError("READONLY You can't write against a read only replica."), ErrRefused, nil},
	{wrapped("READONLY You can't write against a read only replica."), ErrRefused, nil},
	{replyError("READONLY You can't write against a read only replica. script: 5f0a, on @user_script:212."), ErrRefused, nil},
	{replyError("LOADING Redis is loading the dataset in memory"), ErrRefused, nil},
	{replyError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), ErrRefused, nil},
	{replyError("OOM command not allowed when used memory > 'maxmemory'."), ErrRefused, nil},
	{wrapped("OOM command not allowed when used memory > 'maxmemory'."), ErrRefused, nil},
	{replyError("OOM allocation failed. script: 5f0a, on @user_script:212."), ErrRefused, nil},
	{replyError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), ErrRefused, nil},
	{wrapped("MISCONF Errors writing to the AOF file: No space left on device"), ErrRefused, nil},
	{replyError("NOREPLICAS Not enough good replicas to write."), ErrRefused, nil},
	{wrapped("NOREPLICAS Not enough good replicas to write."), ErrRefused, nil},
	{replyError("CLUSTERDOWN The cluster is down"), ErrRefused, nil},
	{replyError("CLUSTERDOWN Hash slot not served"), ErrRefused, nil},
	{wrapped("ERR Lua script attempted to execute a write command while the cluster is down and readonly"), ErrRefused, nil},
	{replyError("ERR Script attempted to execute a write command while the cluster is down and readonly script: 5f0a, on @user_script:4."), ErrRefused, nil},
	{replyError("TRYAGAIN Multiple keys request during rehashing of slot"), ErrRefused, nil},
	{replyError("ERR Script attempted to access a non local key in a cluster node script: 5f0a, on @user_script:90."), ErrRefused, nil},
	{wrapped("ERR Lua script attempted to access a non local key in a cluster node"), ErrRefused, nil},
	{replyError("ERR Unable to execute command 'del' in script because undeclared keys were accessed during rehashing of the slot script: 5f0a, on @user_script:162."), ErrRefused, nil},
	{replyError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), ErrRefused, nil},
	{replyError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), ErrRefused, nil},
	{replyError("ERR max number of clients reached"), ErrRefused, nil},

	{replyError("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrRejected, ErrCorrupt},
	{wrapped("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrRejected, ErrCorrupt},
	{replyError("ERR user_script:101: BERTHCORRUPT state 12x script: 5f0a, on @user_script:101."), ErrRejected, ErrCorrupt},
	{replyError("ERR user_script:158: BERTHHALF 1500 script: 5f0a, on @user_script:158."), ErrRejected, ErrCorrupt},
	{replyError("ERR Error running script (call to f_5f0a): @user_script:158: @user_script: 158: BERTHHALF 1500"), ErrRejected, ErrCorrupt},
	{replyError("ERR user_script:101: BERTHVERSION 2 a b script: 5f0a, on @user_script:101."), ErrRejected, ErrVersion},
	{replyError("ERR user_script:101: BERTHCLOCK the server says that it is 1970"), ErrRejected, nil},
	{replyError("NOPERM User app has no permissions to run the 'evalsha' command"), ErrRejected, nil},
	{wrapped("NOPERM this user has no permissions to access one of the keys used as arguments"), ErrRejected, nil},
	{replyError("ERR The user executing the script can't run this command or subcommand script: 5f0a, on @user_script:30."), ErrRejected, nil},
	{replyError("NOAUTH Authentication required."), ErrRejected, nil},
	{replyError("WRONGPASS invalid username-password pair or user is disabled."), ErrRejected, nil},
	{replyError("CROSSSLOT Keys in request don't hash to the same slot"), ErrRejected, nil},
	{replyError("ERR unknown command 'evalsha'"), ErrRejected, nil},
	{replyError("BUSYGROUP Consumer Group name already exists"), ErrRejected, nil},
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, test := range serverErrors {
		checkClass(t, test.err, test.kind, test.detail)
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, test := range []struct{ err, kind error }{
		{dial, ErrRefused},
		{fmt.Errorf("wrapped: %w", dial), ErrRefused},
		{redis.ErrPoolTimeout, ErrRefused},
		{redis.ErrPoolExhausted, ErrRefused},
		{redis.ErrClosed, ErrRejected},
		{context.Canceled, ErrUnknown},
		{context.DeadlineExceeded, ErrUnknown},
		{os.ErrDeadlineExceeded, ErrUnknown},
		{io.EOF, ErrUnknown},
		{io.ErrUnexpectedEOF, ErrUnknown},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ErrUnknown},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, ErrUnknown},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, ErrUnknown},
		{redis.Nil, ErrUnknown}, // the script never answers nothing: it was somebody else
		{errors.New("redis: can't parse reply"), ErrUnknown},
	} {
		checkClass(t, test.err, test.kind, nil)
	}
}

// checkClass sends a call that fails with err, and wants one kind and its detail.
func checkClass(t *testing.T, err, kind, detail error) {
	t.Helper()
	s := canned(t, nil, err)
	_, got := s.Do(t.Context(), s.Key("name"), 0, asked("AHRLMEDPZ"))
	for _, k := range []error{ErrRefused, ErrRejected, ErrUnknown} {
		if errors.Is(got, k) != (k == kind) {
			t.Errorf("%v: is %q: %v", err, k, errors.Is(got, k))
		}
	}
	for _, d := range []error{ErrCorrupt, ErrVersion} {
		if errors.Is(got, d) != (d == detail) {
			t.Errorf("%v: is %q: %v", err, d, errors.Is(got, d))
		}
	}
	// A context that ended in here is not the caller's, and must not look like it.
	ours := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ours == errors.Is(got, err) {
		t.Errorf("%v is not in %v, or it is and should not be", err, got)
	}
	if f, ok := errors.AsType[*Failure](got); !ok || f.Heals == 0 && !strings.Contains(got.Error(), plainly(err)) {
		t.Errorf("%v is a %T and says %v", err, got, got)
	}
}

// TestErrorsSayWhatToDo, where that is known; and what is not Redis is not said to have refused.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.": "OOM command not allowed when used memory > 'maxmemory'. (the server's memory is full: raise maxmemory, or remove other data)",
		"ERR DB index is out of range":                            "ERR DB index is out of range: the server has no database",
		"CLUSTERDOWN The cluster is down":                         "CLUSTERDOWN The cluster is down: a part of the Cluster has no master",
		"ERR unknown command 'evalsha'":                           "docs/servers.md",
	} {
		if got := classify(replyError(text)).Error(); !strings.Contains(got, want) {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
	web := &Failure{Kind: ErrRefused, ByClient: true, Err: errors.New(`redis: can't parse map reply: "HTTP/1.1 400 Bad Request"`)}
	if want := `what answers there is not Redis: it says "HTTP/1.1 400 Bad Request": check address and port`; web.Error() != want || web.Means() != Unreachable {
		t.Errorf("%s (%d), want %s", web, web.Means(), want)
	}
}

// TestErrorsOfTheScriptHaveNoLineNumbers, which help nobody who reads them.
func TestErrorsOfTheScriptHaveNoLineNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ERR user_script:101: BERTHCORRUPT state 12x script: 5f0a, on @user_script:101.":                       "BERTHCORRUPT state 12x",
		"ERR Error running script (call to f_5f0a): @user_script:158: @user_script: 158: BERTHVERSION 7 1":     "BERTHVERSION 7 1",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 5f0a, on @user_script:310.": "WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR user_script:101: BERTHCORRUPT state script: a script: 5f0a, on @user_script:101.":                 "BERTHCORRUPT state script: a",
		"OOM command not allowed when used memory > 'maxmemory'.":                                              "OOM command not allowed when used memory > 'maxmemory'.",
		"NOPERM User app has no permissions to run the 'evalsha' command; ask for script: rights":              "NOPERM User app has no permissions to run the 'evalsha' command; ask for script: rights",
	} {
		if got := plainly(replyError(text)); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// TestHalfTellsWhenItHeals: in the error's type and in its words; and in a cluster, where
// one key may have moved and the other not, asking again may help.
func TestHalfTellsWhenItHeals(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { _ = cluster.Close() })
	for text, want := range map[string]time.Duration{
		"ERR user_script:158: BERTHHALF 1500 script: 5f0a, on @user_script:158.": 1500 * time.Millisecond,
		"ERR @user_script: 158: BERTHHALF 1500":                                  1500 * time.Millisecond,
		"ERR BERTHHALF 0":                                                        time.Millisecond,
		"ERR BERTHHALF x":                                                        time.Millisecond,
		"ERR BERTHHALF":                                                          time.Millisecond,
		"ERR BERTHHALF 99999999999999999999":                                     milliseconds(longest),
		"ERR BERTHCORRUPT state 1500":                                            0,
	} {
		one := canned(t, nil, nil)
		many := NewStore(cluster, "berth", "s0", 1, "host")
		for store, kind := range map[*Store]error{one: ErrRejected, many: ErrRefused} {
			if want == 0 {
				kind = ErrRejected
			}
			err := store.moving(classify(replyError(text)))
			wantKind(t, err, kind, ErrCorrupt)
			f, _ := errors.AsType[*Failure](err)
			if f.Heals != want || want > 0 && !strings.Contains(err.Error(), want.String()) {
				t.Errorf("%q: heals in %v, want %v; %v", text, f.Heals, want, err)
			}
			if strings.Contains(err.Error(), "slot moves") != (kind == ErrRefused) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestRedirectionsThatGoRedisDoesNotFollow: in a cluster they pass, and a client of one node has
// the wrong address.
func TestRedirectionsThatGoRedisDoesNotFollow(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { _ = cluster.Close() })
	for _, text := range []string{"MOVED 866 127.0.0.1:7001", "ASK 866 127.0.0.1:7001"} {
		wantKind(t, canned(t, nil, nil).moving(classify(replyError(text))), ErrRejected, nil)
		wantKind(t, NewStore(cluster, "berth", "s0", 1, "host").moving(classify(replyError(text))), ErrRefused, nil)
	}
}

// TestFailuresMean that Redis gave no answer, refused, or has what it cannot be asked for.
func TestFailuresMean(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]Meaning{
		io.EOF: Unreachable, context.DeadlineExceeded: Unreachable, redis.ErrPoolTimeout: Unreachable,
		replyError("OOM command not allowed"): Refused, replyError("NOPERM"): Refused, redis.ErrClosed: Refused,
		replyError("BERTHCORRUPT x"): Corrupt, replyError("BERTHVERSION 9"): Corrupt, replyError("BERTHHALF 5"): Corrupt,
	} {
		if got := classify(err).Means(); got != want {
			t.Errorf("%v: means %v, want %v", err, got, want)
		}
	}
	if late := (&Failure{Kind: ErrRefused, Err: errLate}); late.Means() != Unreachable {
		t.Errorf("%v: means %v", late, late.Means())
	}
	unsure := Unsure(NoReply, classify(replyError("OOM command not allowed")))
	for _, err := range []error{NoAnswer(), unsure} {
		if f, _ := errors.AsType[*Failure](err); f.Means() != Unreachable || !errors.Is(f, ErrUnknown) {
			t.Errorf("%v: means %v", err, f.Means())
		}
	}
}
