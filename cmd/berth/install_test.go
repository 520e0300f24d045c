//go:build testall

package main

import (
	"archive/zip"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	library = "github.com/berth-go/berth"
	root    = "../.."
)

// module is what "go mod edit -json" prints, as far as it matters here.
type module struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// modules reads every go.mod of the repository, by directory.
func modules(t *testing.T) map[string]module {
	t.Helper()
	all := map[string]module{}
	for _, file := range tracked(t) {
		if path.Base(file) == "go.mod" {
			var m module
			readJSON(t, &m, "mod", "edit", "-json", filepath.Join(root, file))
			all[path.Dir(file)] = m
		}
	}
	if len(all) < 2 {
		t.Fatalf("modules %v: the test looks in the wrong directory", all)
	}
	return all
}

// tracked lists the files that a commit would have, relative to the root.
func tracked(t *testing.T) []string {
	t.Helper()
	list := output(t, exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"))
	return strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

func readJSON(t *testing.T, v any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(output(t, exec.Command("go", args...))), v); err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
}

// required returns the version of the library that m requires, "" for none.
func required(m module) string {
	for _, r := range m.Require {
		if r.Path == library {
			return r.Version
		}
	}
	return ""
}

// Every module requires the version of the library, and of the others, that go.work
// takes from the checkout, and none replaces it: "go install" refuses modules that do.
func TestModulesAgreeOnAVersion(t *testing.T) {
	t.Parallel()
	var work module
	readJSON(t, &work, "work", "edit", "-json", filepath.Join(root, "go.work"))
	if len(work.Replace) == 0 || work.Replace[0].Old.Path != library {
		t.Fatalf("go.work replaces %v, want a version of %s", work.Replace, library)
	}
	version, here := work.Replace[0].Old.Version, map[string]bool{}
	for _, r := range work.Replace {
		if here[r.Old.Path] = true; r.Old.Version != version || path.Join(library, r.New.Path) != r.Old.Path {
			t.Errorf("go.work replaces %s %s by %s, want %s in its directory", r.Old.Path, r.Old.Version, r.New.Path, version)
		}
	}
	for dir, m := range modules(t) {
		if len(m.Replace) > 0 {
			t.Errorf("%s/go.mod replaces %v: what is installed or required by others must not", dir, m.Replace)
		}
		if got := required(m); got != version && m.Module.Path != library {
			t.Errorf("%s/go.mod requires %s %q, and go.work has %q: run scripts/set-version", dir, library, got, version)
		}
		for _, r := range m.Require {
			if strings.HasPrefix(r.Path, library+"/") && (!here[r.Path] || r.Version != version) {
				t.Errorf("%s/go.mod requires %s %s, which go.work does not take from the checkout", dir, r.Path, r.Version)
			}
		}
	}
}

// Once the tags exist, "go install" and "go get" work. A directory of module
// archives, made from this checkout, stands in for them.
func TestInstallFromAProxy(t *testing.T) {
	t.Parallel()
	all := modules(t)
	version := required(all["cmd/berth"])
	env := proxyEnv(t, all, version)

	install := exec.Command("go", "install", library+"/cmd/berth@"+version)
	install.Dir, install.Env = t.TempDir(), append(env, "GOBIN="+t.TempDir())
	output(t, install)
	berth := filepath.Join(strings.TrimPrefix(install.Env[len(install.Env)-1], "GOBIN="), "berth")
	if got := output(t, exec.Command(berth, "version")); !strings.HasPrefix(got, "berth "+version+" ") {
		t.Errorf("berth version: %q, want %s", got, version)
	}

	user := t.TempDir()
	program := "package main\n\nimport (\n\t_ \"" + library + "\"\n\t_ \"" + library + "/berthotel\"\n\t_ \"" + library + "/berthprom\"\n)\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(user, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/user"},
		{"get", library + "@" + version, library + "/berthotel@" + version, library + "/berthprom@" + version, library + "/berthgrpc@" + version},
		{"build", "-o", os.DevNull, "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = user, env
		output(t, cmd)
	}
}

// proxyEnv serves the modules from files, and what they require from the
// machine's own cache of modules or, failing that, from where it fills that. The
// cache of the test is its own: no module made here is ever met elsewhere.
func proxyEnv(t *testing.T, all map[string]module, version string) []string {
	t.Helper()
	proxy := t.TempDir()
	files := tracked(t)
	for dir, m := range all {
		publish(t, proxy, dir, m.Module.Path, version, files, all)
	}
	cache := filepath.Join(strings.TrimSpace(output(t, exec.Command("go", "env", "GOMODCACHE"))), "cache", "download")
	upstream := strings.TrimSpace(output(t, exec.Command("go", "env", "GOPROXY")))
	return append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+cache+","+upstream, "GOMODCACHE="+t.TempDir(),
		"GOFLAGS=-mod=mod -modcacherw -trimpath", "GOWORK=off", "GONOSUMDB=*", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// publish writes one module as a proxy has it: a list, and for the version its
// time, its go.mod and its archive.
func publish(t *testing.T, proxy, dir, modulePath, version string, files []string, all map[string]module) {
	t.Helper()
	base := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(goMod), version + ".info": `{"Version":"` + version + `"}`,
	} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(base, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	w := zip.NewWriter(archive)
	for _, file := range files {
		if owner(file, all) == dir {
			add(t, w, modulePath+"@"+version+"/"+strings.TrimPrefix(file, dir+"/"), file)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// owner returns the directory of the module that a file belongs to.
func owner(file string, all map[string]module) string {
	dir := path.Dir(file)
	for dir != "." {
		if _, ok := all[dir]; ok {
			return dir
		}
		dir = path.Dir(dir)
	}
	return dir
}

func add(t *testing.T, w *zip.Writer, name, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if os.IsNotExist(err) {
		return // deleted, and not committed yet
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write(text)
	}
	if err != nil {
		t.Fatal(err)
	}
}
