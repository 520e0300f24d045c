package child_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/child"
)

func TestMain(m *testing.M) {
	switch role, _ := child.Role(); role {
	case "":
		os.Exit(m.Run())
	case "answers":
		_ = child.Answer(os.Stdin, os.Stdout, func(n int) (any, error) {
			if n < 0 {
				return nil, errors.New("it is negative")
			}
			return map[string]int{"Double": 2 * n}, nil
		})
	case "deaf":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "talks":
		for {
			_, _ = io.WriteString(os.Stdout, "1\n")
		}
	case "waits":
		ctx, cancel := child.Until(context.Background(), os.Stdin)
		defer cancel()
		<-ctx.Done()
		_, _ = io.WriteString(os.Stdout, `"bye"`+"\n")
	case "heeds":
		child.UsualSignals()
		for _, sig := range []string{"INT", "HUP"} {
			err := exec.Command("sh", "-c", "kill -"+sig+" $$").Run()
			_ = json.NewEncoder(os.Stdout).Encode(fmt.Sprint(err))
		}
	case "dies":
		os.Exit(3)
	}
}

func start(t *testing.T, as string) *child.Process {
	t.Helper()
	p, err := child.Again(as, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestChildAnswersUntilItIsToLeave(t *testing.T) {
	t.Parallel()
	p := start(t, "answers")
	var answer struct{ Double int }
	for n := range 3 {
		if err := p.Ask(t.Context(), n, &answer); err != nil || answer.Double != 2*n {
			t.Errorf("%d: %d, %v", n, answer.Double, err)
		}
	}
	if err := p.Ask(t.Context(), -1, &answer); err == nil || !strings.Contains(err.Error(), "it is negative") {
		t.Errorf("an error came as %v", err)
	}
	p.Leave()
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := p.Ask(t.Context(), 1, &answer); err == nil {
		t.Error("it answered after its end")
	}
}

func TestChildThatDoesNotAnswerEndsWithTheContext(t *testing.T) {
	t.Parallel()
	p := start(t, "deaf")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Ask(ctx, 1, new(int)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-p.Done()
}

func TestChildThatNobodyHearsCanBeKilled(t *testing.T) {
	t.Parallel()
	p := start(t, "talks")
	<-p.Said
	p.Kill()
	if err := p.Wait(); err == nil {
		t.Error("it ended well")
	}
}

func TestChildHearsOfTheEndOfItsParent(t *testing.T) {
	t.Parallel()
	p := start(t, "waits")
	p.Leave() // as the end of the parent would
	var word string
	if err := p.Hear(t.Context(), &word); err != nil || word != "bye" {
		t.Errorf("%q, %v", word, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestChildThatDiesIsTold(t *testing.T) {
	t.Parallel()
	p := start(t, "dies")
	if err := p.Hear(t.Context(), new(int)); !errors.Is(err, child.ErrEnded) {
		t.Errorf("got %v", err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ended with %v", err)
	}
}

func TestProgramThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("it was started")
	}
}
