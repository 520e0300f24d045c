package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// mustAsk refuses, before anything else happens, an action that needs a confirmation
// when there is no terminal to ask on.
func (a *app) mustAsk(yes bool, why string) error {
	if yes || a.interactive() {
		return nil
	}
	return exit.Usagef("%s: add --yes to do it without being asked", why)
}

// interactive reports whether a question can be shown and answered.
func (a *app) interactive() bool {
	in, isFile := a.stdin.(*os.File)
	return isFile && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(a.stderr.Fd()))
}

// confirm shows a plan and asks, unless yes is set. Any answer but yes means no.
func (a *app) confirm(yes bool, plan, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.stderr, "%s%s [y/N] ", plan, question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr) // the cursor stands behind the question
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.Errorf(exit.Failure, "nothing was changed")
}
