//go:build testall

package agent

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonPackage: pip installs the client with its types, from its directory alone.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	source, site := copied(t, "python"), t.TempDir()
	python := pythonWithPip(t)
	inDir(t, source, python, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps", "--target", site, ".")
	got := inDir(t, t.TempDir(), "env", "PYTHONPATH="+site, python, "-c", "import berth; print(berth.__file__, *berth.__all__)")
	if want := filepath.Join(site, "berth", "__init__.py") + " Lost Refused acooldown ahold cooldown hold"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	if _, err := os.Stat(filepath.Join(site, "berth", "py.typed")); err != nil {
		t.Errorf("its types are not for others: %v", err)
	}
}

// pythonWithPip is a Python that can build packages without a network. The one that comes first on
// PATH need not be the one that apt-get serves.
func pythonWithPip(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import setuptools, wheel, pip").Run() == nil {
			return python
		}
	}
	t.Fatal("no python3 has pip, setuptools and wheel: scripts/setup installs python3-pip, python3-setuptools and python3-wheel")
	return ""
}

// TestNodePackage: what npm packs is what a program needs. Where there is no npm, the files that the
// package names are copied as it would.
func TestNodePackage(t *testing.T) {
	t.Parallel()
	source, app := copied(t, "node"), t.TempDir()
	installed := filepath.Join(app, "node_modules", "berth-agent")
	if _, err := exec.LookPath("npm"); err == nil {
		packed := inDir(t, source, "npm", "pack", "--offline", "--silent", "--pack-destination", app)
		inDir(t, app, "npm", "install", "--offline", "--no-audit", "--no-fund", "--no-package-lock", "--silent", "./"+packed)
	} else {
		var about struct{ Files []string }
		text, err := os.ReadFile(filepath.Join(source, "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(about.Files, "package.json") {
			inDir(t, source, "install", "-D", name, filepath.Join(installed, name))
		}
	}
	got := inDir(t, app, "node", "-e", `import("berth-agent").then((m) => console.log(...Object.keys(m).sort()))`)
	if want := "Lease Lost Refused cooldown hold"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
	if _, err := os.Stat(filepath.Join(installed, "berth.d.mts")); err != nil {
		t.Errorf("it has no types: %v", err)
	}
}

// TestRubyPackage: gem builds it, and installs it without a network.
func TestRubyPackage(t *testing.T) {
	t.Parallel()
	source, gems := copied(t, "ruby"), t.TempDir()
	inDir(t, source, "gem", "build", "--silent", "berth-agent.gemspec", "-o", filepath.Join(gems, "berth-agent.gem"))
	inDir(t, gems, "gem", "install", "--local", "--silent", "--no-document", "--install-dir", gems, "berth-agent.gem")
	got := inDir(t, gems, "env", "GEM_PATH="+gems, "ruby", "-e", `gem "berth-agent"; require "berth"; puts Berth.method(:hold).source_location[0], Berth.respond_to?(:cooldown)`)
	if !strings.HasPrefix(got, gems) || !strings.HasSuffix(got, "/lib/berth.rb\ntrue") {
		t.Errorf("it is %s, want it in %s", got, gems)
	}
}

// copied is a copy of a client's directory: builds write beside what they build.
func copied(t *testing.T, client string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(clientsDir, client))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inDir runs a program there, and returns what it says.
func inDir(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}
