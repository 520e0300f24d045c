// Package hostile has keys that strangers may send, to a limit for each key.
package hostile

import "strings"

// Keys returns the keys, all different.
func Keys() []string {
	return []string{
		"", " ", "\t", "a\nb", "a\x00b", "}", "}x", "{", "a}b{c", strings.Repeat("a", 1<<20), strings.Repeat("é", 200), "\xff\xfe",
		"\u202egnp.exe", "\U0001f6a2", "*[a-z]\\", "x:order", "<script>", "'\"; redis.call('FLUSHALL')", "é", "e\u0301", "%7B", "~", "..%2f", "../x", "x/y",
	}
}
