package screen

import "testing"

func TestFit(t *testing.T) {
	tests := []struct {
		in      string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"exact", 5, "exact"},
		{"too long", 5, "too …"},
		{"x", 0, ""},
		{"xy", 1, "…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"🚢x", 3, "🚢x"},
		{"🚢🚢", 3, "🚢…"},
		{"e\u0301te\u0301", 3, "e\u0301te\u0301"},
		{"e\u0301te\u0301", 2, "e\u0301…"},
	}
	for _, tt := range tests {
		if got := Fit(tt.in, tt.columns); got != tt.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", tt.in, tt.columns, got, tt.want)
		}
	}
}
