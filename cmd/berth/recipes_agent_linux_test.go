//go:build testall

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stubs stand in for what the blocks of docs/agent-recipes.md import.
var stubs = map[string]string{
	"celery.py": `
class Retry(Exception): pass
class Task:
    def retry(self, exc, countdown): return Retry(str(exc))
def shared_task(**_): return lambda f: lambda *args: f(Task(), *args)
`,
	"django/http.py": `
class HttpResponse:
    def __init__(self, content, status=200, headers=None): self.status_code = status
`,
	"crm.py": `
import os
def export(account, stop=None):
    with open(os.path.dirname(os.path.abspath(__file__)) + "/calls", "a") as f: f.write("export %s\n" % account)
`,
	"llm.py": `
import crm
class Answer: tokens = 42
async def complete(prompt, max_tokens):
    crm.export(prompt)
    return Answer
`,
	"crm.mjs": `
import { appendFileSync } from "node:fs";
export const exportAccount = (account) => appendFileSync(new URL("calls", import.meta.url), "export " + account + "\n");
`,
}

// TestAgentRecipes: every block of the page takes a permit of one limit, and calls nothing while
// others have it all.
func TestAgentRecipes(t *testing.T) {
	t.Parallel()
	blocks := readBlocks(t, "../../docs/agent-recipes.md")
	if len(blocks) != 6 {
		t.Errorf("the page has %d blocks, want 6", len(blocks))
	}
	for _, b := range blocks {
		t.Run(b.key, func(t *testing.T) {
			t.Parallel()
			k := newKitchen(t)
			k.serve()
			if out, code := k.run(k.service(b, "60000")); code != 0 {
				t.Errorf("exit code %d, %s", code, out)
			}
			k.wantCalls("export 42")
			if err := os.Remove(filepath.Join(k.dir, "calls")); err != nil {
				t.Fatal(err)
			}
			for name, n := range map[string]string{"crm": "5", "llm": "20"} {
				if _, code := k.run(command{args: []string{"berth", "acquire", "-n", n, "-W", n, "--ttl", "1h", name}}); code != 0 {
					t.Fatal("no permits for the test")
				}
			}
			out, _ := k.run(k.service(b, "100"))
			k.wantCalls("")
			if !strings.Contains(out, "Retry") && b.key == "Celery 1" || b.key == "Django 1" && strings.TrimSpace(out) != "503" {
				t.Errorf("while it is busy: %s", out)
			}
		})
	}
}

// serve starts an agent, and puts what the blocks need into the directory.
func (k *kitchen) serve() {
	k.t.Helper()
	socket := filepath.Join(k.dir, "agent", "agent.sock")
	k.env = append(k.env, "BERTH_AGENT_SOCKET="+socket)
	agent := exec.Command("berth", "agent")
	agent.Env = k.env
	if err := agent.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = agent.Process.Signal(unix.SIGTERM)
		_ = agent.Wait()
	})
	if !eventually(func() bool { _, err := os.Stat(socket); return err == nil }) {
		k.t.Fatal("the agent does not listen")
	}
	files := map[string]string{"export": program}
	maps.Copy(files, stubs)
	for from, name := range map[string]string{
		"python/berth/__init__.py": "berth.py", "bash/berth.sh": "berth.sh",
		"node/package.json": "node_modules/berth-agent/package.json", "node/berth.mjs": "node_modules/berth-agent/berth.mjs",
	} {
		text, err := os.ReadFile(filepath.Join("../../clients", from))
		if err != nil {
			k.t.Fatal(err)
		}
		files[name] = string(text)
	}
	for name, text := range files {
		k.write(name, text)
	}
}

func (k *kitchen) write(name, text string) {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		k.t.Fatal(err)
	}
}

// service is what runs a block, which waits for so many milliseconds.
func (k *kitchen) service(b block, wait string) command {
	text := regexp.MustCompile(`(wait_ms\W+)[0-9_]+`).ReplaceAllString(b.text, "${1}"+wait)
	text = regexp.MustCompile(`-w \w+`).ReplaceAllString(text, "-w "+wait+"ms")
	name, _, _ := strings.Cut(regexp.MustCompile(`^(# |// )`).ReplaceAllString(text, ""), "\n")
	switch b.lang {
	case "python":
		k.write(name, text)
		call := map[string]string{
			"tasks.py": "import tasks; tasks.export('42')", "views.py": "import views; print(views.export(None, '42').status_code)",
			"ask.py": "import asyncio, ask; asyncio.run(ask.ask('acme', '42', 100))",
		}[name]
		return command{args: []string{"python3", "-B", "-c", call}}
	case "js":
		k.write(name, text)
		return command{args: []string{"node", "--input-type=module", "-e", `import { exportAccount } from "./export.mjs"; await exportAccount("42")`}}
	}
	return command{args: []string{b.lang, "-c", text}}
}

// TestKeyGivesBerthHoldsPermitBack: a shell that lives on has ended the function with the command.
func TestKeyGivesBerthHoldsPermitBack(t *testing.T) {
	t.Parallel()
	client, err := filepath.Abs("../../clients/bash/berth.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	term := newTerminal(t, "bash", "--norc", "--noprofile", "--noediting", "-i")
	term.send("export BERTH_AGENT_SOCKET=" + dir + "/a/agent.sock; berth agent & . " + client + "\n")
	term.expect("agent on")
	term.send(`berth_hold '{"name":"s","limit":1}' sh -c 'echo u""p; exec sleep 100'` + "\n")
	term.expect("up")
	term.send("\x03")
	term.expect("ready> ")
	term.send("berth run -w 1h s -- echo al\"\"ive\n")
	term.expect("alive")
}
