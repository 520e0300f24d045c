package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/verify/history"
)

// offer is a lease that was given away, with what its adopter has to record.
type offer struct {
	Handle, Name  string
	Limit, Weight int
	TTL           int64 // milliseconds
}

// post puts copies of an offer where all processes find them. Each copy is delivered
// once; two copies imitate a queue that delivers a message twice.
func (u *user) post(o offer, copies int) {
	dir := filepath.Join(u.Handles, u.spec.Name)
	text, err := json.Marshal(o)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for i := 0; i < copies && err == nil; i++ {
		name := filepath.Base(o.Handle) + "." + strconv.Itoa(i)
		if err = os.WriteFile(filepath.Join(dir, "."+name), text, 0o600); err == nil {
			err = os.Rename(filepath.Join(dir, "."+name), filepath.Join(dir, name))
		}
	}
	if err != nil {
		panic(err) // the directory is the run's own
	}
}

// fetch takes a copy of an offer made to this seat, if there is one.
func (u *user) fetch() (o offer, ok bool) {
	dir := filepath.Join(u.Handles, u.spec.Name)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	for _, e := range entries {
		mine := filepath.Join(dir, "."+e.Name()+".taken")
		if strings.HasPrefix(e.Name(), ".") || os.Rename(filepath.Join(dir, e.Name()), mine) != nil {
			continue // it is being written, or another process has it
		}
		text, err := os.ReadFile(mine)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			panic(err)
		}
		_ = os.Remove(mine)
		return o, true
	}
	return o, false
}

// adopt adopts a lease that was offered to this seat, if there is one, and records the
// outcome. It returns nil if it has no lease.
func (u *user) adopt(ctx context.Context, opts ...berth.AdoptOption) *holding {
	o, ok := u.fetch()
	if !ok {
		return nil
	}
	ctx, cancel := u.timeout(ctx)
	defer cancel()
	e := history.Event{
		Op: u.out.Op(), Kind: history.Invoke, Verb: history.Adopt, Name: o.Name, Seat: u.seat,
		Limit: o.Limit, Weight: o.Weight, TTL: o.TTL, Handle: o.Handle,
	}
	u.out.Write(e)
	u.ids++
	lease, err := u.client.Adopt(ctx, o.Handle, opts...)
	if err != nil {
		e.Kind = history.Return
		e.Outcome, _, e.Text = outcome(err)
		u.out.Write(e)
		return nil
	}
	return u.holds(lease, e)
}

// timeout returns a context that, one time in six, ends soon.
func (u *user) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if u.one(6) {
		return context.WithTimeout(ctx, u.between(10*time.Millisecond, 300*time.Millisecond))
	}
	return ctx, func() {}
}
