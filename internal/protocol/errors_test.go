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
	{replyError("TRYAGAIN Multiple keys request during rehashing of slot"), ErrRefused, nil},
	{replyError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), ErrRefused, nil},
	{replyError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), ErrRefused, nil},
	{replyError("ERR max number of clients reached"), ErrRefused, nil},

	{replyError("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrRejected, ErrCorrupt},
	{wrapped("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrRejected, ErrCorrupt},
	{replyError("ERR user_script:101: BERTHCORRUPT counts 12x script: 5f0a, on @user_script:101."), ErrRejected, ErrCorrupt},
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
	_, got := s.Do(t.Context(), s.Keys("name"), 0, sampleOps())
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
	ours := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) // not a thing to pass on
	if !ours && !errors.Is(got, err) || !strings.Contains(got.Error(), err.Error()) {
		t.Errorf("%v is not in %v", err, got)
	}
	if _, ok := errors.AsType[*Failure](got); !ok {
		t.Errorf("%v is a %T", got, got)
	}
}
