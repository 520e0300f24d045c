package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Talk is a child process that answers questions: JSON, one line for each on
// its stdin and stdout. It is to end with its stdin.
type Talk struct {
	proc    *Process
	name    string
	in, out io.Closer
	ask     *json.Encoder
	answers *json.Decoder
}

// Converse starts cmd as a Talk.
func Converse(cmd *exec.Cmd) (*Talk, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	proc, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	return &Talk{
		proc: proc, name: filepath.Base(cmd.Path), in: in, out: out, ask: json.NewEncoder(in), answers: json.NewDecoder(out),
	}, nil
}

// Ask sends a question and decodes the answer. One with a field "error" that is
// not empty is an error. When ctx ends first, so does the process: there is
// nothing to be had from it any more.
func (t *Talk) Ask(ctx context.Context, question, answer any) error {
	stop := context.AfterFunc(ctx, func() { _ = t.proc.Cmd.Process.Kill() })
	defer stop()
	var raw json.RawMessage
	if err := t.ask.Encode(question); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%s has ended: %w", t.name, err))
	}
	if err := t.answers.Decode(&raw); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%s has ended: %w", t.name, err))
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(raw, &failure); err != nil {
		return err
	}
	if failure.Error != "" {
		return fmt.Errorf("%s: %s", t.name, failure.Error)
	}
	return json.Unmarshal(raw, answer)
}

// Leave has the process end, without waiting for that.
func (t *Talk) Leave() { _ = t.in.Close() }

// Close has the process end and returns when it has gone.
func (t *Talk) Close() {
	t.Leave()
	<-t.proc.Done
	_ = t.out.Close()
}

// Answer is the child's side: it reads questions until the input ends and
// writes what f returns for each, or its error.
func Answer[Q any](in io.Reader, out io.Writer, f func(Q) (any, error)) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Q
		if err := questions.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		answer, err := f(q)
		if err != nil {
			answer = struct{ Error string }{err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}
