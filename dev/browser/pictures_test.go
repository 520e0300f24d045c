package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var image = regexp.MustCompile(`!\[[^\]]+\]\(([^)#]+)\)`)

// pictures are those that README.md, the pages of docs and the map of the code show.
func pictures(t *testing.T) map[string]bool {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, page := range append(pages, "../../README.md", "../../internal/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range image.FindAllStringSubmatch(string(text), -1) {
			file, err := filepath.Abs(filepath.Join(filepath.Dir(page), m[1]))
			if err != nil {
				t.Fatal(err)
			}
			found[file] = true
		}
	}
	return found
}

// TestPicturesOfTheDocs show every character of their text, spaces included: in Chromium runs of
// spaces collapse unless each text asks for them, and the columns of a terminal with them.
func TestPicturesOfTheDocs(t *testing.T) {
	files := pictures(t)
	if len(files) < 3 {
		t.Fatalf("only %d pictures found: %v", len(files), files)
	}
	b := newTab(browser(t), t)
	for file := range files {
		b.run(chromedp.Navigate("file://" + file))
		if !strings.HasSuffix(file, ".svg") {
			if width := eval[int](b, "document.images[0]?.naturalWidth ?? 0"); width == 0 {
				t.Errorf("%s cannot be shown", file)
			}
			continue
		}
		texts := eval[int](b, "document.querySelectorAll('text').length")
		wrong := eval[[]string](b, `[...document.querySelectorAll('text')].flatMap((text) => {
			const want = text.textContent, box = text.getBoundingClientRect(), whole = document.documentElement.getBoundingClientRect();
			if (text.getNumberOfChars() !== want.length) return [want + ': ' + text.getNumberOfChars() + ' of ' + want.length + ' characters'];
			return box.left < whole.left || box.right > whole.right + 1 || box.bottom > whole.bottom ? [want + ': is cut off'] : [];
		})`)
		if texts == 0 || len(wrong) > 0 {
			t.Errorf("%s has %d texts; wrong are:\n%s", file, texts, strings.Join(wrong, "\n"))
		}
	}
}
