package berthwatch

import "testing"

// TestGroupsPutKeysTogether: by patterns of which the first counts, or by what is before the keys.
func TestGroupsPutKeysTogether(t *testing.T) {
	given := Groups{"api/*", "api/*/write", "user:?"}
	for name, want := range map[string]string{
		"api/acme": "api/*", "api/acme/write": "api/*", "API/acme": "API/acme", "user:7": "user:?", "user:71": "user:71", "deploy": "deploy",
	} {
		if got := given.Of(name); got != want {
			t.Errorf("%s is in %s, want %s", name, got, want)
		}
	}
	if err := given.Check(); err != nil {
		t.Error(err)
	}
	if err := (Groups{"["}).Check(); err == nil {
		t.Error("a malformed pattern is accepted")
	}
	of := ByPrefix([]string{"api/a", "api/b", "api/c", "db/a", "db/b", "a[1]/x", "a[1]/y", "a[1]/z", "alone"})
	for name, want := range map[string]string{"api/b": "api/*", "db/a": "db/a", "a[1]/y": `a\[1]/*`, "alone": "alone"} {
		got := of(name)
		if got != want {
			t.Errorf("%s is in %s, want %s", name, got, want)
		}
		if !Match(name, got) {
			t.Errorf("the filter %s does not find %s", got, name)
		}
	}
}
