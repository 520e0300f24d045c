package berth

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// The targets run their seeds as tests; `go test -fuzz NAME .` looks for more.

// FuzzHandle feeds Adopt texts that have gone through files and people. What is
// accepted must be in bounds, and must be what a handle's own text says.
func FuzzHandle(f *testing.F) {
	f.Add("berth1/berth/s/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("berth1/berth/a%2Fb%20c/aaaaaaaa.aaaaaaaaaaaaaaaaaa\n")
	f.Add("berth1/berth/%7Dx/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("berth1/berth/s%00/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("berth1/berth/%zz/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("berth1/other/s/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("berth1/berth/s/aaaaaaaa.aaaaaaaaaaaaaaaaaa-1")
	f.Add("berth1/berth/s/settings")
	f.Add("berth2/berth/s/aaaaaaaa.aaaaaaaaaaaaaaaaaa")
	f.Add("")
	client := &Client{prefix: "berth"}
	f.Fuzz(func(t *testing.T, text string) {
		shown := Handle(text).String()
		h, err := client.named(Handle(text))
		if err != nil {
			if !errors.Is(err, ErrHandle) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if rules.Name(h.name, MaxName) != "" || h.prefix != "berth" || rules.ID(h.id) != "" {
			t.Fatalf("accepted %+v", h)
		}
		if again, err := client.named(h.handle()); err != nil || again != h {
			t.Fatalf("%+v became %+v, error %v", h, again, err)
		}
		if !strings.HasPrefix(shown, "berth1/berth/") || !strings.HasSuffix(shown, "/***") {
			t.Fatalf("%+v is shown as %q", h, shown)
		}
	})
}

// FuzzNames feeds names, labels and prefixes. What is accepted is harmless on a
// screen, has its keys in one slot of a Cluster under a hash tag of its own, and
// is found again by its key.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"s", "", " ", "}", "}x", "{", "a}b{c", "x:order", "\x00", "\x1b[31m", "a\u202eb", "\xff", "é", "🚢", "*[a-z]\\", "\u0085"} {
		f.Add(s, "berth")
		f.Add("s", s)
	}
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { rdb.Close() })
	f.Fuzz(func(t *testing.T, text, prefix string) {
		client, err := New(rdb, Prefix(prefix))
		if err != nil {
			wantInvalid(t, err, "prefix")
			return
		}
		defer client.Close()
		sem, err := client.Semaphore(text, 1)
		wantInvalid(t, err, "name")
		if _, labelled := client.Semaphore("s", 1, Label(text)); labelled != nil {
			wantInvalid(t, labelled, "label")
		} else if text != "" {
			wantHarmless(t, text)
		}
		if err != nil {
			return
		}
		wantHarmless(t, sem.Name())
		checkKeys(t, prefix, text)
	})
}

// wantInvalid accepts no error, and one that names the argument without
// quoting what could rearrange a screen.
func wantInvalid(t *testing.T, err error, what string) {
	t.Helper()
	var invalid *InvalidError
	if err == nil {
		return
	}
	if !errors.As(err, &invalid) || invalid.What != what {
		t.Fatalf("error %v, want one about the %s", err, what)
	}
	wantHarmless(t, err.Error())
}

func wantHarmless(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}) {
		t.Fatalf("%q", text)
	}
}

// checkKeys works a hash tag out as a Cluster does: what stands between the
// first brace and the first closing brace behind it, if that is anything.
func checkKeys(t *testing.T, prefix, name string) {
	t.Helper()
	store := protocol.NewStore(nil, prefix, "session", 1, "host")
	key := store.Key(name)
	for _, key := range []string{key.State, key.Order()} {
		_, rest, _ := strings.Cut(key, "{")
		if tag, _, ok := strings.Cut(rest, "}"); !ok || tag != name {
			t.Fatalf("the hash tag of %q is %q", key, tag)
		}
	}
	if back, ok := store.Name(key.State); !ok || back != name {
		t.Fatalf("%q is found as %q", name, back)
	}
	if _, ok := store.Name(key.Order()); ok {
		t.Fatalf("%q is taken for a semaphore", key.Order())
	}
}
