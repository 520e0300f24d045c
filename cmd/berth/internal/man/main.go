// Command man writes the manual pages of berth's commands, one file each, into
// a directory, or all of them as one page of Markdown. The pages are made of what
// the commands say about themselves.
//
// usage: man DIRECTORY
//
//	man -reference FILE
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/berth-go/berth/cmd/berth/internal/cli"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "-reference":
		err = os.WriteFile(args[1], []byte(reference()), 0o644)
	case len(args) == 1:
		err = write(args[0])
	default:
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY, or man -reference FILE")
		os.Exit(64)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes a page for every command that is not hidden.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all := []*cobra.Command{cli.Root()}
	for i := 0; i < len(all); i++ {
		cmd := all[i]
		if cmd.Hidden {
			continue
		}
		all = append(all, cmd.Commands()...) // before its page adds a help command
		text, err := page(cmd)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page returns one page. Its date is $SOURCE_DATE_EPOCH, by default now.
func page(cmd *cobra.Command) ([]byte, error) {
	cmd.InitDefaultHelpFlag()
	cmd.DisableAutoGenTag = true
	long := cmd.Long
	cmd.Long = preformatted(long) + options("OPTIONS", cmd.NonInheritedFlags()) + options("OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	defer hide(cmd.Flags())()
	var b bytes.Buffer
	err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "berth", Manual: "User Commands"}, &b)
	cmd.Long = long
	return b.Bytes(), err
}

// options is a section with flags as --help shows them: cobra's own has neither the names of their
// values nor what is said of their defaults.
func options(title string, flags *pflag.FlagSet) string {
	if !flags.HasAvailableFlags() {
		return ""
	}
	return "\n# " + title + "\n```\n" + cli.Usages(flags) + "```\n"
}

// hide keeps cobra from describing the flags, until show is called.
func hide(flags *pflag.FlagSet) (show func()) {
	var hidden []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			f.Hidden = true
			hidden = append(hidden, f)
		}
	})
	return func() {
		for _, f := range hidden {
			f.Hidden = false
		}
	}
}

// preformatted makes blocks of indented lines what Markdown prints as they are.
func preformatted(text string) string {
	var b strings.Builder
	indented := false
	for line := range strings.SplitSeq(text, "\n") {
		if is := strings.HasPrefix(line, "  "); is != indented {
			indented = is
			b.WriteString("\n")
		}
		if indented {
			b.WriteString("    ")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
