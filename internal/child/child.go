// Package child runs the child processes of demonstrations, benchmarks, storms and
// examples. Parent and child exchange JSON values. A child ends when its input does, so it
// ends with its parent, however that ends.
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

// ErrEnded says that the child has ended.
var ErrEnded = errors.New("has ended")

// Process is a child process.
type Process struct {
	Cmd *exec.Cmd
	// Said delivers the values that the child writes, and is closed when it ends. A child
	// has to wait while 1,024 of its values have not been read.
	Said <-chan json.RawMessage

	in     io.WriteCloser
	tell   *json.Encoder
	killed context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // how it ended
}

// Start starts cmd, which must not have been started. Its input and output are connected to
// the Process, and its errors to those of this program unless cmd says otherwise. It gets its
// own process group, so that Ctrl-C goes to the parent only, which then ends its children. On
// Linux the kernel ends it with the parent.
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
		// The kernel sends its signal when the thread that started the child ends.
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

// listen passes on what a child writes, until the child ends or is killed.
func listen(killed context.Context, out io.Reader, said chan<- json.RawMessage) {
	for in := json.NewDecoder(out); ; {
		var v json.RawMessage
		if in.Decode(&v) != nil {
			_, _ = io.Copy(io.Discard, out) // output that is not JSON must not block the child
			return
		}
		select {
		case said <- v:
		case <-killed.Done():
		}
	}
}

// Tell sends v to the child.
func (p *Process) Tell(v any) error {
	if err := p.tell.Encode(v); err != nil {
		return fmt.Errorf("%s %w: %w", p.name(), ErrEnded, err)
	}
	return nil
}

// Hear decodes the next value of the child into v. It fails if the child or ctx ends first.
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

// Ask sends the child a question and decodes its answer. An answer with a non-empty field
// "error" is an error. If ctx ends first, Ask kills the child, whose next answer could not
// be told from a late one.
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

// Leave tells the child to end, by closing its input.
func (p *Process) Leave() { _ = p.in.Close() }

// Kill kills the child, even if it is stopped, and returns when it has ended.
func (p *Process) Kill() {
	p.killed()
	_ = p.Cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the child to end, and returns the error of exec.Cmd's Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Until returns a context for a child that ends with ctx, or with the child's input in, which
// ends when the parent dies or wants the child to end. Nothing else may read in.
func Until(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, cancel
}

// Answer is the child's side of Ask: until in ends, it reads questions from it and writes
// f's answer to each, or its error, to out.
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

// roleEnv holds the role and the configuration of a child. Unlike the arguments, other users cannot
// see the environment.
const roleEnv = "BERTH_CHILD"

// Again starts this program as a child with a role and a configuration.
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

// Role returns the role with which Again started this program, and the configuration for
// json.Unmarshal, or "" if this process is not such a child.
func Role() (role string, config []byte) {
	role, text, _ := strings.Cut(os.Getenv(roleEnv), " ")
	return role, []byte(text)
}

// End tells the child to end, and returns when it has.
func (p *Process) End() {
	p.Leave()
	_ = p.Wait() // its exit status does not matter
}
