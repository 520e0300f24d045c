package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/verify/history"
)

// post puts copies of an Adopt, as its adopter has to record it, where all processes
// find them. Each copy is delivered once; two copies imitate a queue that delivers a
// message twice.
func (u *user) post(e history.Event, copies int) {
	dir := filepath.Join(u.Handles, u.spec.Name)
	must(os.MkdirAll(dir, 0o700))
	text, err := json.Marshal(e)
	must(err)
	for i := range copies {
		file := fmt.Sprintf("%s.%d", filepath.Base(e.Handle), i)
		must(os.WriteFile(filepath.Join(u.Handles, file), text, 0o600))
		must(os.Rename(filepath.Join(u.Handles, file), filepath.Join(dir, file)))
	}
}

// fetch takes a copy of an Adopt that was posted to this seat, if there is one.
func (u *user) fetch() (e history.Event, ok bool) {
	files, err := filepath.Glob(filepath.Join(u.Handles, u.spec.Name, "*"))
	must(err)
	for _, file := range files {
		mine := filepath.Join(u.Handles, filepath.Base(file))
		if os.Rename(file, mine) != nil {
			continue // another process has it
		}
		text, err := os.ReadFile(mine)
		must(err)
		must(json.Unmarshal(text, &e))
		_ = os.Remove(mine)
		return e, true
	}
	return e, false
}

// adopt adopts a lease that was given to this seat. It returns nil if it has none.
func (u *user) adopt(ctx context.Context, opts ...berth.Option) *holding {
	e, ok := u.fetch()
	if !ok {
		return nil
	}
	ctx, cancel := u.timeout(ctx)
	defer cancel()
	return u.request(ctx, e, func(e history.Event) (*berth.Lease, error) {
		return u.client.Adopt(ctx, berth.Handle(e.Handle), opts...)
	})
}

// timeout returns a context that, one time in six, ends soon.
func (u *user) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if u.one(6) {
		return context.WithTimeout(ctx, u.between(10*time.Millisecond, 300*time.Millisecond))
	}
	return ctx, func() {}
}
