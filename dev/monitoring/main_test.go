// Package monitoring_test tests what operators copy from the directory monitoring: the rules,
// the alerts and the dashboard, with Prometheus and with what berth exports.
package monitoring_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

// What is tested, and the pages about it.
const (
	alertsFile = "../../monitoring/berth-alerts.yaml"
	boardFile  = "../../monitoring/grafana.json"
	docs       = "../../docs/"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// program finds prometheus or promtool.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not on PATH: install it with `apt-get install prometheus` (Debian, Ubuntu) or `brew install prometheus` (macOS)", name)
	}
	return path
}

// promtool runs it with some input, and returns what it says.
func promtool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
