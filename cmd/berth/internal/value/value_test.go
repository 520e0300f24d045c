package value

import (
	"testing"
)

func TestInt(t *testing.T) {
	var n int
	v := Int(&n, 7)
	if n != 7 {
		t.Errorf("the default is %d", n)
	}
	if err := v.Set("12"); err != nil || n != 12 {
		t.Errorf("12: %d, %v", n, err)
	}
	for _, in := range []string{"", "abc", "1.5", "1e3", "99999999999999999999"} {
		if err := v.Set(in); err == nil || n != 12 {
			t.Errorf("%q: %d, %v", in, n, err)
		}
	}
}
