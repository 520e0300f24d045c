package main

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// TestEveryPackageIsReached: what users run is changed, and some test is to notice.
func TestEveryPackageIsReached(t *testing.T) {
	t.Chdir("../../..")
	reached := map[string]bool{}
	for _, a := range areas {
		files, err := a.sources()
		if err != nil || len(files) == 0 {
			t.Errorf("%s has the files %v, %v", a.files, files, err)
		}
		for _, file := range files {
			reached[filepath.Dir(file)] = true
		}
		for _, folder := range a.tests {
			if tests, err := filepath.Glob(folder + "/*_test.go"); err != nil || len(tests) == 0 {
				t.Errorf("%s: no tests in %s", a.files, folder)
			}
		}
	}
	// These are the tests, what only they run, and a package without statements.
	others := []string{"tests", "dev", "examples", "internal/testkit", "internal/bridge"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch dir := filepath.Dir(path); {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || slices.Contains(others, path)):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !reached[dir]:
			t.Errorf("%s is in no area", dir)
			reached[dir] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiffTellsWhichLinesAreNew of each file.
func TestDiffTellsWhichLinesAreNew(t *testing.T) {
	t.Parallel()
	d := readDiff(`diff --git a/a/b.go b/a/b.go
--- a/a/b.go
+++ b/a/b.go
@@ -3 +3 @@ func f() {
-	old
+	new
@@ -8,2 +7,0 @@
-	gone
-	gone
@@ -11,0 +10,2 @@
+	new
+	new
--- a/gone.go
+++ /dev/null
@@ -1,2 +0,0 @@
-	gone
-	gone
--- /dev/null
+++ b/new.lua
@@ -0,0 +1,2 @@
+new
+new
`)
	for path, want := range map[string][]int{"a/b.go": {3, 10, 11}, "new.lua": {1, 2}, "gone.go": nil} {
		var got []int
		for line := range 20 {
			if d.has(path, line) {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: lines %v, want %v", path, got, want)
		}
	}
}
