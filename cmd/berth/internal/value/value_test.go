package value

import (
	"testing"
	"time"
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

// A tenant's key may have slashes; only a duration behind the last of them is its pace.
func TestTenant(t *testing.T) {
	for in, want := range map[string]Tenant{
		"acme": {"acme", time.Second}, "acme/500ms": {"acme", 500 * time.Millisecond}, "a/b": {"a/b", time.Second},
		"a/b/2m": {"a/b", 2 * time.Minute}, "a/10": {"a", 10 * time.Second}, "a/": {"a/", time.Second},
	} {
		var got Tenant
		if err := got.Set(in); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "/5s"} {
		if err := new(Tenant).Set(in); err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}
