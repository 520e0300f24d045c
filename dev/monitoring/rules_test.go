package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// ruleTests are promtool's tests of berth-alerts.yaml.
var ruleTests = []string{"../../monitoring/berth-alerts_test.yaml", "../../monitoring/berth-alerts-days_test.yaml"}

// rule is one of berth-alerts.yaml.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestRulesAreWhatPrometheusTakes, and promtool's tests of them pass.
func TestRulesAreWhatPrometheusTakes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", alertsFile}, append([]string{"test", "rules"}, ruleTests...)} {
		if out, err := promtool(t, "", args...); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestTheObjectiveWorksOnceItIsNoComment.
func TestTheObjectiveWorksOnceItIsNoComment(t *testing.T) {
	t.Parallel()
	text := read(t, alertsFile)
	start := strings.Index(text, "  # - name: berth-objective")
	if start < 0 {
		t.Fatal("the example is gone")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text = text[:start] + regexp.MustCompile(`(?m)^  # `).ReplaceAllString(text[start:], "  ")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "", "check", "rules", file); err != nil || !strings.Contains(out, " 23 rules") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestEachAlertTellsWhatToDo: it has a text, and a section of the runbook.
func TestEachAlertTellsWhatToDo(t *testing.T) {
	t.Parallel()
	runbook := read(t, docs+"runbook.md")
	var alerts, sections []string
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if want := "https://github.com/berth-go/berth/blob/main/docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: its runbook is %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary, or no description", r.Alert)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(runbook, -1) {
		sections = append(sections, m[1])
	}
	if !slices.Equal(alerts, sections) {
		t.Errorf("alerts   %v\nsections %v", alerts, sections)
	}
}

// TestEachAlertIsTested once firing and once not.
func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, name := range ruleTests {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Want []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
			t.Fatal(err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Want) > 0 {
					fires[a.Name] = true
				} else {
					quiet[a.Name] = true
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !quiet[r.Alert]) {
			t.Errorf("%s is tested firing: %v, and not firing: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}
