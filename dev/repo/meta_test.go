// Package repo_test is about the repository: its source, its modules and its pages. Run it
// with -count=1, as make test does: go test takes no notice of changes outside a module.
package repo_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tests of this file are about the source, not about what it does: they
// fail when a rule of CONTRIBUTING.md is broken that a compiler accepts.

// TestMain runs the tests in the root of the repository: they name its files as pages do.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const modulePath = "github.com/berth-go/berth"

// source is one Go file of the repository.
type source struct {
	path    string // relative to the root, with slashes
	module  string // directory of its go.mod, "." for the library
	text    []byte
	file    *ast.File
	imports []string
	isTest  bool
}

func (s *source) dir() string { return path.Dir(s.path) }

// sources parses every Go file of every module.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	modules := map[string]string{} // directory → directory of its go.mod
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && ignored(d.Name()) {
				return fs.SkipDir
			}
			modules[name] = moduleOf(name, modules)
		case strings.HasSuffix(name, ".go"):
			s, err := parse(name)
			if err != nil {
				return err
			}
			s.module = modules[filepath.Dir(name)]
			all = append(all, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Fatal("no sources found: the test runs in the wrong directory")
	}
	return all
}

// ignored names directories that hold no code of ours.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		slices.Contains([]string{"testdata", "vendor", "node_modules", "bin", "dist"}, name)
}

// moduleOf returns dir if it has a go.mod, else its parent's module.
func moduleOf(dir string, known map[string]string) string {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == "." {
		return dir
	}
	return known[filepath.Dir(dir)]
}

func parse(name string) (*source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{path: filepath.ToSlash(name), text: text, file: file, isTest: strings.HasSuffix(name, "_test.go")}
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		s.imports = append(s.imports, target)
	}
	return s, nil
}

// library selects the code that users of the library link: no tests, no support for tests,
// no other modules.
func library(all []*source) []*source {
	return slices.DeleteFunc(slices.Clone(all), func(s *source) bool {
		return s.isTest || s.module != "." || isSupport(s.dir())
	})
}

func isSupport(dir string) bool { return within(dir, "berthtest") || within(dir, "internal/testkit") }

func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// local returns the directory of a package of the library; false: it is
// somebody else's.
func local(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func TestEveryPackageHasADoc(t *testing.T) {
	t.Parallel()
	docs, names := map[string]string{}, map[string]string{} // by directory
	for _, s := range sources(t) {
		if s.isTest {
			continue
		}
		docs[s.dir()] += s.file.Doc.Text()
		names[s.dir()] = s.file.Name.Name
	}
	for dir, doc := range docs {
		if !strings.HasPrefix(doc, docStart(dir, names[dir])) {
			t.Errorf("%s: a package comment is missing, or does not begin with %q: %.40q", dir, docStart(dir, names[dir]), doc)
		}
	}
}

// docStart is how go doc expects a package comment to begin.
func docStart(dir, name string) string {
	if name == "main" {
		return "Command " + path.Base(dir)
	}
	return "Package " + name
}

// TestLibraryDependsOnGoRedisAlone keeps the module graph of users small.
func TestLibraryDependsOnGoRedisAlone(t *testing.T) {
	t.Parallel()
	for _, s := range library(sources(t)) {
		for _, target := range s.imports {
			dir, ours := local(target)
			switch {
			case ours && isSupport(dir):
				t.Errorf("%s imports %s, which is for tests", s.path, target)
			case !ours && !isStandard(target) && !within(target, "github.com/redis/go-redis/v9"):
				t.Errorf("%s imports %s: the library uses the standard library and go-redis alone", s.path, target)
			}
		}
	}
}

// TestNothingShippedImportsTheTestKit: what users link or run has no servers, faults and clocks of
// tests in it. Package berthtest is shipped for tests, and its faults are those of the test kit.
func TestNothingShippedImportsTheTestKit(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest || within(s.dir(), "dev") || isSupport(s.dir()) {
			continue
		}
		for _, target := range s.imports {
			if dir, ours := local(target); ours && within(dir, "internal/testkit") {
				t.Errorf("%s imports %s, which is for tests: what both need has a package of its own in internal", s.path, target)
			}
		}
	}
}

// isStandard: only paths outside the standard library begin with a host name.
func isStandard(importPath string) bool {
	host, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(host, ".")
}

// TestNothingImportsUpwards: API → session → claim, commit, keeper, inbox → protocol → Redis is
// the only way, and a package knows no more of it than it needs.
func TestNothingImportsUpwards(t *testing.T) {
	t.Parallel()
	all := sources(t)
	for _, s := range all {
		if s.isTest || s.module != "." {
			continue
		}
		for _, target := range s.imports {
			if to, ours := local(target); ours && !mayImport(s, to) {
				t.Errorf("%s imports %s: CONTRIBUTING.md tells what is above what", s.path, target)
			}
		}
	}
}

// mayImport tells whether a file of the library, or of what tests it, may import one of its
// packages.
func mayImport(s *source, to string) bool {
	among := func(dirs ...string) bool { return slices.Contains(dirs, to) }
	if to == "internal/bridge" && s.path != "berthadmin/admin.go" {
		return s.dir() == "." || s.dir() == "berthpool" || s.path == "internal/gate/gate.go"
	}
	switch dir := s.dir(); dir {
	case ".":
		return within(to, "internal") && !among("internal/gate", "internal/inbox", "internal/look", "internal/words", "internal/judge", "internal/child", "internal/quantile")
	case "berthadmin":
		return among(".", "internal/look", "internal/protocol", "internal/inbox", "internal/rules", "internal/bridge")
	case "internal/look":
		return to == "internal/protocol"
	case "internal/gate":
		return among(".", "internal/look", "internal/protocol")
	case "internal/bridge", "internal/protocol", "internal/clock", "internal/events", "internal/reach", "internal/rules", "internal/words",
		"internal/judge", "internal/child", "internal/quantile":
		return false
	default:
		inside := !within(dir, "internal") || within(to, "internal")
		return inside || within(dir, "internal/testkit") && among(".", "berthadmin")
	}
}

// TestImportRulesRefuse what they are there for.
func TestImportRulesRefuse(t *testing.T) {
	t.Parallel()
	for file, targets := range map[string]string{
		"client.go":                            "berthadmin berthpool internal/inbox internal/look internal/words internal/child",
		"berthadmin/audit.go":                  "internal/session internal/claim internal/bridge berthwatch",
		"berthhttp/hold.go":                    "internal/bridge",
		"internal/gate/permit.go":              "internal/bridge internal/session berthhttp",
		"berthwatch/watch.go":                  "internal/bridge",
		"internal/protocol/store.go":           "internal/reach internal/clock internal/look .",
		"internal/events/events.go":            "internal/session internal/clock .",
		"internal/session/call.go":             ". berthadmin internal/bridge",
		"internal/bridge/bridge.go":            ". internal/session internal/protocol",
		"internal/judge/judge.go":              ". internal/protocol internal/testkit/testenv",
		"internal/testkit/redistest/faults.go": "berthwatch berthtest",
	} {
		for to := range strings.FieldsSeq(targets) {
			if mayImport(&source{path: file}, to) {
				t.Errorf("%s may import %s", file, to)
			}
		}
	}
	for file, targets := range map[string]string{
		"bridge.go":                       "internal/bridge internal/session",
		"berthadmin/admin.go":             ". internal/bridge internal/look internal/protocol",
		"berthpool/pool.go":               ". internal/bridge internal/session",
		"berthhttp/hold.go":               ". internal/gate",
		"internal/gate/gate.go":           ". internal/bridge internal/look internal/protocol",
		"internal/session/call.go":        "internal/claim internal/protocol",
		"internal/testkit/testenv/env.go": ". berthadmin internal/protocol internal/testkit/redistest",
	} {
		for to := range strings.FieldsSeq(targets) {
			if !mayImport(&source{path: file}, to) {
				t.Errorf("%s may not import %s", file, to)
			}
		}
	}
}

// TestPictureHasEveryImport: the grey arrows of internal/README.md are the imports
// among the packages that a program links, no more and no fewer, and the picture was drawn
// from that source.
func TestPictureHasEveryImport(t *testing.T) {
	t.Parallel()
	imports := map[string]bool{}
	for _, s := range library(sources(t)) {
		for _, target := range s.imports {
			if dir, ours := local(target); ours && s.dir() != "classic" {
				imports[node(s.dir())+" -> "+node(dir)] = true
			}
		}
	}
	dot, err := os.ReadFile("docs/img/architecture.dot")
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile("docs/img/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+ -> \w+)( \[.*)?$`).FindAllStringSubmatch(string(dot), -1) {
		if strings.Contains(m[2], "invis") {
			continue
		}
		if title := "<title>" + strings.Replace(m[1], " -> ", "&#45;&gt;", 1) + "</title>"; !strings.Contains(string(svg), title) {
			t.Errorf("the picture has no %s: make pictures", m[1])
		}
		if m[2] == "" {
			drawn[m[1]] = true
		}
	}
	for edge := range imports {
		if !drawn[edge] {
			t.Errorf("the picture's source lacks %s", edge)
		}
	}
	for edge := range drawn {
		if !imports[edge] {
			t.Errorf("the picture's source has %s, which is no import", edge)
		}
	}
}

// node is a package's name in the picture.
func node(dir string) string {
	if dir == "." {
		return "berth"
	}
	return path.Base(dir)
}

func TestSourcesAreFormatted(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		want, err := format.Source(s.text)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if !bytes.Equal(s.text, want) {
			t.Errorf("%s is not formatted: run make fmt", s.path)
		}
	}
}

// TestNoTestSleeps allows a sleep in the literal that is a synctest bubble,
// where it costs nothing and never depends on luck.
func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.isTest {
			continue
		}
		if n := sleeps(s.file); n > 0 {
			t.Errorf("%s calls time.Sleep %d times outside a synctest bubble: wait for the event instead", s.path, n)
		}
	}
}

// sleeps counts the uses of time.Sleep, called or passed on, outside bubbles.
func sleeps(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			return !isSelector(node.Fun, importName(file, "testing/synctest"), "Test")
		case *ast.SelectorExpr:
			if isSelector(node, importName(file, "time"), "Sleep") {
				n++
			}
		}
		return true
	})
	return n
}

// importName returns the name under which file imports a package, "" for none.
func importName(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(importPath) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name || pkg == "" {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func TestSleepsAreFound(t *testing.T) {
	t.Parallel()
	const head = "package p\nimport (\n\"testing/synctest\"\nclock \"time\"\n)\n"
	for body, want := range map[string]int{
		"func f() { clock.Sleep(1) }":                                       1,
		"var nap = clock.Sleep":                                             1,
		"func f() { synctest.Test(t, func(t *T) { clock.Sleep(1) }) }":      0,
		"func f() { synctest.Wait(); clock.Sleep(1); time.Sleep(1) }":       1,
		"func f() { run(func() { clock.Sleep(1) }); server.Sleep(1) }":      1,
		"func f() { g(synctest.Test); x := clock.Second; other.Test(x) }":   0,
		"func f() { for { clock.Sleep(1) }; for ;; clock.Sleep(1) { } }":    2,
		"func f() { synctest.Test(t, g); defer func() {clock.Sleep(1)}() }": 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", head+body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := sleeps(file); got != want {
			t.Errorf("%d sleeps found in %q, want %d", got, body, want)
		}
	}
}

// TestVersionsArePinned: what is built is what was looked at. A go.mod names
// exact versions by itself; this is about the ways around that.
func TestVersionsArePinned(t *testing.T) {
	t.Parallel()
	var mods []string
	if err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && ignored(d.Name()) {
			return filepath.SkipDir
		}
		if d.Name() == "go.mod" {
			mods = append(mods, path)
		}
		return err
	}); err != nil || len(mods) < 4 {
		t.Fatalf("modules %v, error %v", mods, err)
	}
	own := regexp.MustCompile(`^replace github\.com/berth-go/berth(/\S+)? => \.\.?(/|$)`)
	exact := regexp.MustCompile(`\sv\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+incompatible)?( // indirect)?$`)
	for _, mod := range mods {
		text, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			switch word := strings.TrimSpace(line); {
			case strings.HasPrefix(word, "replace ") && !own.MatchString(word), strings.HasPrefix(word, "replace ("):
				t.Errorf("%s: %s: only berth's own modules are replaced, by a relative path", mod, word)
			case (strings.HasPrefix(line, "\t") || strings.HasPrefix(word, "require ") && word != "require (") && strings.Contains(word, ".") &&
				!strings.Contains(word, "=>") && !exact.MatchString(line):
				t.Errorf("%s: %q names no exact version", mod, word)
			}
		}
	}
	pinnedTools(t)
}

// pinnedTools looks at the programs that the build fetches by itself.
func pinnedTools(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^[A-Z]+_VERSION\s*:= v\d+\.\d+\.\d+$`).FindAll(text, -1)); n < 2 {
		t.Errorf("the Makefile pins %d tools", n)
	}
	for _, m := range regexp.MustCompile(`\S+@(\S+)`).FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(m[1], "$(") && !regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(m[1]) {
			t.Errorf("the Makefile runs %s", m[0])
		}
	}
}
