//go:build testall

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestCeleryGivesTasksBack: the recipe of docs/agent-recipes.md in a worker of Celery that does one
// task at a time. While there is no permit it does another task, and the first one when there is.
func TestCeleryGivesTasksBack(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "celery", "redis")
	k := newKitchen(t)
	k.serve()
	if err := os.Remove(filepath.Join(k.dir, "celery.py")); err != nil { // the stub of another test
		t.Fatal(err)
	}
	for _, b := range readBlocks(t, "../../docs/agent-recipes.md") {
		if b.key == "Celery 1" {
			k.write("tasks.py", b.text)
		}
	}
	k.write("app.py", `
from celery import Celery, shared_task
app = Celery("app", broker="redis://`+redistest.Start(t, redistest.WithTCP()).Addr()+`/0")
import crm, tasks

@shared_task
def mail():
    crm.export("by mail")
`)
	handle, code := k.run(command{args: []string{"berth", "acquire", "-n", "5", "-W", "5", "--ttl", "1h", "crm"}})
	if code != 0 {
		t.Fatal("no permits for the test")
	}
	log := k.celery(python)
	call := command{args: []string{python, "-B", "-c", "import app; app.tasks.export.delay('42'); app.mail.delay()"}}
	if out, code := k.run(call); code != 0 {
		t.Fatalf("exit code %d, %s", code, out)
	}
	wrote := func(file string) string {
		text, _ := os.ReadFile(filepath.Join(k.dir, file)) // it need not be there yet
		return string(text)
	}
	expect := func(file, want string) {
		t.Helper()
		if !eventually(func() bool { return strings.Contains(wrote(file), want) }) {
			t.Fatalf("never in %s: %s; the worker wrote %s", file, want, wrote(log))
		}
	}
	expect("calls", "export by mail\n")
	expect(log, "Retry in ")
	if out, code := k.run(command{args: []string{"berth", "release", strings.TrimSpace(handle)}}); code != 0 {
		t.Fatal(out)
	}
	expect("calls", "export by mail\nexport 42\n")
}

// celery starts a worker, which ends with the test, and returns the name of its log.
func (k *kitchen) celery(python string) string {
	worker := exec.Command(python, "-B", "-m", "celery", "-A", "app", "worker", "--pool=solo", "--loglevel=INFO", "--without-mingle", "--without-gossip")
	worker.Dir, worker.Env = k.dir, k.env
	log, err := os.Create(filepath.Join(k.dir, "log"))
	if err != nil {
		k.t.Fatal(err)
	}
	worker.Stdout, worker.Stderr = log, log
	if err := worker.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = worker.Process.Signal(unix.SIGTERM)
		_ = worker.Wait()
		_ = log.Close()
	})
	return filepath.Base(log.Name())
}

// pythonWith returns a Python that has these modules. Debian's sees Debian's modules; one that comes
// first on PATH may not.
func pythonWith(t *testing.T, modules ...string) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import "+strings.Join(modules, ", ")).Run() == nil {
			return python
		}
	}
	t.Fatalf("there is no python3 with the modules %v: scripts/setup all installs them", modules)
	return ""
}
