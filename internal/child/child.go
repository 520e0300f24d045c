// Package child runs the child processes of demonstrations, benchmarks, storms and
// examples. A child speaks JSON, a value for each thing said, and ends with its input:
// so it ends with its parent, however that ends.
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
	"runtime"
	"strings"
	"syscall"
)

// ErrEnded: the child has ended, and says nothing any more.
var ErrEnded = errors.New("has ended")

// Process is a child process.
type Process struct {
	Cmd *exec.Cmd
	// Said is what the child says, until its end; then it is closed. A child of which
	// more than 1,024 things have not been read has to wait.
	Said <-chan json.RawMessage

	in     io.WriteCloser
	tell   *json.Encoder
	killed context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // how it ended
}

// Start starts cmd, which must not have been started, with its input and output
// connected to the Process, and its errors to those of this program unless cmd says
// otherwise. Its process group is its own: a Ctrl-C is for the parent,
// which then ends its children. On Linux the kernel ends it with the parent.
func Start(cmd *exec.Cmd) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	ownGroup(cmd.SysProcAttr)
	killed, kill := context.WithCancel(context.Background())
	said := make(chan json.RawMessage, 1024)
	p := &Process{Cmd: cmd, Said: said, in: in, tell: json.NewEncoder(in), killed: kill, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel's signal comes when the thread ends that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		listen(killed, out, said)
		p.err = cmd.Wait()
		close(p.done)
		close(said)
	}()
	return p, <-started
}

// listen passes on what a child says until it ends, or nobody listens any more.
func listen(killed context.Context, out io.Reader, said chan<- json.RawMessage) {
	for in := json.NewDecoder(out); ; {
		var v json.RawMessage
		if in.Decode(&v) != nil {
			_, _ = io.Copy(io.Discard, out) // what is no JSON must not stop it
			return
		}
		select {
		case said <- v:
		case <-killed.Done():
		}
	}
}

// Tell says v to the child.
func (p *Process) Tell(v any) error {
	if err := p.tell.Encode(v); err != nil {
		return fmt.Errorf("%s %w: %w", p.name(), ErrEnded, err)
	}
	return nil
}

// Hear decodes the next thing that the child says into v. It fails when the child ends
// instead, or ctx does.
func (p *Process) Hear(ctx context.Context, v any) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case raw, ok := <-p.Said:
		if !ok {
			return fmt.Errorf("%s %w", p.name(), ErrEnded)
		}
		return json.Unmarshal(raw, v)
	}
}

// Ask tells the child a question and hears the answer. An answer with a field "error"
// that is not empty is an error. When ctx ends first, so does the child: there is
// nothing to be had from it any more.
func (p *Process) Ask(ctx context.Context, question, answer any) error {
	if err := p.Tell(question); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := p.Hear(ctx, &raw); err != nil {
		if ctx.Err() != nil {
			p.Kill()
		}
		return err
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(raw, &failure); err != nil {
		return err
	}
	if failure.Error != "" {
		return fmt.Errorf("%s: %s", p.name(), failure.Error)
	}
	return json.Unmarshal(raw, answer)
}

func (p *Process) name() string {
	return fmt.Sprintf("%s (process %d)", filepath.Base(p.Cmd.Path), p.Cmd.Process.Pid)
}

// Leave tells the child to end, by the end of its input.
func (p *Process) Leave() { _ = p.in.Close() }

// Kill ends the child at once, stopped or not, and returns when it has gone.
func (p *Process) Kill() {
	p.killed()
	_ = p.Cmd.Process.Kill() // the only error is that it has gone already
	<-p.done
}

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the child's end and returns how it ended, as exec.Cmd's Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Until returns a context that ends with ctx, or when a child's input in does: its
// parent has died, or wants it to end. Nothing else may read in.
func Until(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, cancel
}

// Answer is the child's side of Ask: it reads questions from in until that ends, and
// writes what f returns for each to out, or its error.
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

// roleEnv has the role and the configuration of a child: the environment, unlike the arguments, is
// not for other users to see.
const roleEnv = "BERTH_CHILD"

// Again starts this program again in a role, with a configuration.
func Again(role string, config any) (*Process, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role+" "+string(text))
	return Start(cmd)
}

// Role returns the role in which Again has started this program, and its configuration for
// json.Unmarshal; "" if it has not.
func Role() (role string, config []byte) {
	role, text, _ := strings.Cut(os.Getenv(roleEnv), " ")
	return role, []byte(text)
}

// End has the child come to its end by itself, and returns when it has.
func (p *Process) End() {
	p.Leave()
	_ = p.Wait() // how it ended does not matter
}
