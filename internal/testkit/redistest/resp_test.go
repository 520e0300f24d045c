package redistest

import (
	"bufio"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadFrame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wire string
		text []string
	}{
		{"+OK\r\n", []string{"OK"}},
		{"-ERR no\r\n", []string{"ERR no"}},
		{":-3\r\n", []string{"-3"}},
		{"_\r\n", []string{""}},
		{"#t\r\n", []string{"t"}},
		{",1.5\r\n", []string{"1.5"}},
		{"(12345678901234567890\r\n", []string{"12345678901234567890"}},
		{"$-1\r\n", nil},
		{"*-1\r\n", nil},
		{"$0\r\n\r\n", []string{""}},
		{"$6\r\na\r\n+b\n\r\n", []string{"a\r\n+b\n"}},
		{"!5\r\nERR x\r\n", []string{"ERR x"}},
		{"=7\r\ntxt:abc\r\n", []string{"txt:abc"}},
		{"*0\r\n", nil},
		{"*2\r\n$4\r\nPING\r\n*1\r\n:1\r\n", []string{"PING", "1"}},
		{"%1\r\n+k\r\n*2\r\n:1\r\n$1\r\nx\r\n", []string{"k", "1", "x"}},
		{"~2\r\n:1\r\n:2\r\n", []string{"1", "2"}},
		{">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n", []string{"message", "c", "p"}},
		{"|1\r\n+ttl\r\n:9\r\n*1\r\n+v\r\n", []string{"ttl", "9", "v"}},
	} {
		// One byte at a time, with another value behind it that must be left alone.
		r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(tt.wire + "+next\r\n")))
		f, err := readFrame(r)
		if err != nil || string(f.raw) != tt.wire || !slices.Equal(f.text, tt.text) || f.kind != tt.wire[0] {
			t.Errorf("%q: read %q, %q, %v", tt.wire, f.raw, f.text, err)
		}
		if next, err := readFrame(r); err != nil || string(next.raw) != "+next\r\n" {
			t.Errorf("after %q: %q, %v", tt.wire, next.raw, err)
		}
	}
}

func TestReadFrameRefusesRubbish(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"", "+cut", "$5\r\nab", "$x\r\n", "*y\r\n", "*2\r\n:1\r\n", "HTTP/1.1 400\r\n", "\n"} {
		if f, err := readFrame(bufio.NewReader(strings.NewReader(wire))); err == nil {
			t.Errorf("%q was read as %q", wire, f.raw)
		}
	}
}
