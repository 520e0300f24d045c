package main

import (
	gobuild "go/build"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// area is a package, and the folders whose tests must notice its changes: the nearest first, the
// others for what these have not noticed.
type area struct {
	files  string
	sample int
	tests  []string
}

// areas lists what is changed: every package that a promise to users depends on.
var areas = []area{
	// The core. The tests of the pool and of the promises run through the session, too.
	{"internal/claim/*.go", 60, []string{"./internal/claim"}},
	{"internal/commit/*.go", 60, []string{"./internal/commit"}},
	{"internal/session/*.go", 60, []string{"./internal/session", "./berthpool", "./tests/promise"}},
	{"internal/events/*.go", 15, []string{"./internal/events"}},
	{"internal/keeper/*.go", 15, []string{"./internal/keeper"}},
	{"internal/clock/*.go", 15, []string{"./internal/clock", "./tests/promise"}},
	{"internal/inbox/*.go", 60, []string{"./internal/inbox"}},
	{"internal/protocol/*.go", 60, []string{"./internal/protocol"}},
	{"internal/protocol/*.lua", 100, []string{"./internal/protocol"}},
	{"internal/reach/*.go", 15, []string{"./internal/reach", "./tests/promise"}},
	{"internal/rules/*.go", 10, []string{"./internal/rules", "./tests/promise"}},
	{"internal/look/*.go", 10, []string{"./internal/look", "./internal/protocol"}},
	{"internal/look/*.lua", 10, []string{"./internal/look", "./internal/protocol"}},
	{"internal/gate/*.go", 30, []string{"./internal/gate", "./berthhttp"}},
	{"internal/words/*.go", 10, []string{"./internal/words", "./tests/promise"}},

	// What programs import.
	{"*.go", 30, []string{".", "./tests/promise"}},
	{"berthadmin/*.go", 30, []string{"./tests/look", "./tests/promise"}},
	{"berthgrpc/*.go", 20, []string{"./berthgrpc"}},
	{"berthhttp/*.go", 30, []string{"./berthhttp"}},
	{"berthotel/*.go", 10, []string{"./berthotel"}},
	{"berthpool/*.go", 30, []string{"./berthpool"}},
	{"berthsql/*.go", 20, []string{"./berthsql"}},
	{"berthprom/*.go", 10, []string{"./berthprom"}},
	{"berthtest/*.go", 10, []string{"./berthtest"}},
	{"berthwatch/*.go", 30, []string{"./berthwatch", "./berthweb"}},
	{"berthweb/*.go", 20, []string{"./berthweb"}},
	{"classic/*.go", 20, []string{"./classic"}},

	// The command. The tests of package main run it as a process.
	{"cmd/berth/*.go", 5, []string{"./cmd/berth"}},
	{"cmd/berth/internal/agent/*.go", 30, []string{"./cmd/berth/internal/agent", "./cmd/berth"}},
	{"cmd/berth/internal/cli/*.go", 30, []string{"./cmd/berth/internal/cli", "./cmd/berth"}},
	{"cmd/berth/internal/connect/*.go", 10, []string{"./cmd/berth/internal/connect", "./cmd/berth"}},
	{"cmd/berth/internal/demo/*.go", 5, []string{"./cmd/berth/internal/demo"}},
	{"internal/child/*.go", 5, []string{"./internal/child", "./cmd/berth/internal/demo"}}, // what it is made of
	{"internal/judge/*.go", 10, []string{"./internal/judge", "./cmd/berth/internal/demo"}},
	{"internal/quantile/*.go", 5, []string{"./internal/quantile"}},
	{"cmd/berth/internal/doctor/*.go", 20, []string{"./cmd/berth/internal/doctor", "./cmd/berth"}},
	{"cmd/berth/internal/exit/*.go", 5, []string{"./cmd/berth/internal/run", "./cmd/berth"}},
	{"cmd/berth/internal/job/*.go", 10, []string{"./cmd/berth/internal/run", "./cmd/berth"}},
	{"cmd/berth/internal/local/*.go", 20, []string{"./cmd/berth/internal/local", "./cmd/berth"}},
	{"cmd/berth/internal/man/*.go", 5, []string{"./cmd/berth/internal/man"}},
	{"cmd/berth/internal/private/*.go", 10, []string{"./cmd/berth/internal/private"}},
	{"cmd/berth/internal/run/*.go", 30, []string{"./cmd/berth/internal/run", "./cmd/berth"}},
	{"cmd/berth/internal/screen/*.go", 5, []string{"./cmd/berth/internal/screen", "./cmd/berth/internal/top"}},
	{"cmd/berth/internal/serve/*.go", 20, []string{"./cmd/berth/internal/serve", "./cmd/berth"}},
	{"cmd/berth/internal/top/*.go", 20, []string{"./cmd/berth/internal/top"}},
	{"cmd/berth/internal/value/*.go", 5, []string{"./cmd/berth/internal/value", "./cmd/berth"}},
	{"cmd/berth/internal/view/*.go", 5, []string{"./cmd/berth/internal/top", "./cmd/berth"}},
}

// kept matches files that are not changed.
var kept = regexp.MustCompile(`(_test|doc)\.go$`)

// sources returns the files of an area that this system compiles.
func (a area) sources() (all []string, err error) {
	paths, err := filepath.Glob(a.files)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		ours := strings.HasSuffix(path, ".lua")
		if !ours {
			if ours, err = gobuild.Default.MatchFile(filepath.Split(path)); err != nil {
				return nil, err
			}
		}
		if ours && !kept.MatchString(path) {
			all = append(all, path)
		}
	}
	return all, nil
}

// changes returns every change that can be made to an area, in lines that changed if since is
// not nil.
func (a area) changes(since *diff) (all []*change, err error) {
	paths, err := a.sources()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		of := ofGo
		if filepath.Ext(path) == ".lua" {
			of = ofLua
		}
		found, err := of(filepath.ToSlash(path), string(raw))
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if since == nil || since.has(c.file, c.line) {
				all = append(all, c)
			}
		}
	}
	return all, nil
}
