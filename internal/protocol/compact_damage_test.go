package protocol

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestDamagedCompactLeaseIsLeftAsItIs: what is refused was checked before the first write, for
// "Nothing was changed" to be true.
func TestDamagedCompactLeaseIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	huge, long := "9999999999999", strings.Repeat("1", 17)
	everywhere(t, func(t *testing.T, r *rig) {
		stored := func() (map[string]string, int64) { // not r.raw, which tells of it in the general layout
			ctx := context.Background()
			return r.rdb.HGetAll(ctx, r.key.State).Val(), r.rdb.Exists(ctx, r.key.Order()).Val()
		}
		for name, damage := range map[string]struct {
			at   int
			text string
		}{
			"token beyond doubles": {3, "9007199254740993"}, "token too long": {3, long},
			"expiry too long": {5, "9" + huge + "9"}, "limit too large": {6, huge},
			"ttl too long": {7, long},
		} {
			for what, op := range probes() {
				compact(t, r)
				fields, _ := stored()
				words := strings.Split(fields["state"], " ") // 3 compact id token deadline expires limit ttl owner label
				words[damage.at] = damage.text
				r.rdb.HSet(context.Background(), r.key.State, "state", strings.Join(words, " "))
				before, _ := stored()
				_, err := r.stores[0].Do(context.Background(), r.key, 0, []Op{op})
				if after, order := stored(); errors.Is(err, ErrCorrupt) && (order > 0 || !reflect.DeepEqual(after, before)) {
					t.Errorf("%s, %s: %v, but changed\n%v\nto\n%v", name, what, err, before, after)
				}
			}
		}
	})
}
