package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesTheCommit(t *testing.T) {
	settings := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: "4c5b10ab9f0de7f3c1a2b3c4d5e6f708192a3b4c"},
		{Key: "vcs.time", Value: "2026-11-20T10:00:00Z"},
		{Key: "vcs.modified", Value: "false"},
	}
	if got, want := commitOf(settings), " commit 4c5b10ab9f0d of 2026-11-20T10:00:00Z"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	settings[3].Value = "true"
	if got, want := commitOf(settings), " commit 4c5b10ab9f0d of 2026-11-20T10:00:00Z, modified"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := commitOf(nil); got != "" {
		t.Errorf("%q without a commit", got)
	}
}
