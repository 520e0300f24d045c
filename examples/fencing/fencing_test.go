package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// started returns a database of its own with the tables of the fence.
func started(t *testing.T) *pgxpool.Pool {
	t.Helper()
	server, err := postgres.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	db, err := pgxpool.New(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return db
}

// entries returns who has written, in order.
func entries(ctx context.Context, db *pgxpool.Pool) ([]string, error) {
	rows, err := db.Query(ctx, "SELECT writer FROM entry ORDER BY at")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// TestFenceCatchesAHolderThatLostItsLeaseInAFailover: a replica becomes master
// before a grant has reached it, and grants the permit again.
func TestFenceCatchesAHolderThatLostItsLeaseInAFailover(t *testing.T) {
	t.Parallel()
	db := started(t)
	master := redistest.Start(t, redistest.WithTCP())
	successor := redistest.StartReplica(t, master)
	successor.Promote(t)
	var out bytes.Buffer
	if err := story(t.Context(), &out, db, master.Client(t), successor.Client(t)); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
	if !strings.Contains(out.String(), "A believes in its lease (true)") {
		t.Errorf("A had heard of its loss, so nothing was shown:\n%s", out.Bytes())
	}
	if got, err := entries(t.Context(), db); err != nil || !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("entries %v, %v", got, err)
	}
}

// TestProgram runs what `go run ./fencing` runs.
func TestProgram(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out, ""); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}

// card is a pass without a lease.
type card struct {
	slot  int
	token int64
}

func (c card) Name() string { return "cards" }
func (c card) Slot() int    { return c.slot }
func (c card) Token() int64 { return c.token }

// TestTokensOnlyRise: whatever comes at once, what is written in a slot is
// written in the order of its tokens, and slots do not touch each other.
func TestTokensOnlyRise(t *testing.T) {
	t.Parallel()
	db := started(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				c := card{slot: rand.IntN(2), token: rand.Int64N(1000)}
				err := write(t.Context(), db, c, enter(t.Context(), fmt.Sprintf("%d %d", c.slot, c.token)))
				if err != nil && !errors.Is(err, errStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	written, err := entries(t.Context(), db)
	if err != nil || len(written) == 0 {
		t.Fatalf("%d entries, %v", len(written), err)
	}
	highest := map[int]int64{}
	for _, text := range written {
		var c card
		if _, err := fmt.Sscan(text, &c.slot, &c.token); err != nil {
			t.Fatal(err)
		}
		if c.token < highest[c.slot] {
			t.Errorf("slot %d: token %d was let in after %d", c.slot, c.token, highest[c.slot])
		}
		highest[c.slot] = c.token
	}
}

// TestNothingIsWrittenForAStalePass, and nothing is remembered of what failed.
func TestNothingIsWrittenForAStalePass(t *testing.T) {
	t.Parallel()
	db := started(t)
	ctx := t.Context()
	oops := errors.New("oops")
	for _, step := range []struct {
		card
		do   func(pgx.Tx) error
		want error
	}{
		{card{0, 5}, enter(ctx, "first"), nil},
		{card{0, 5}, enter(ctx, "again"), nil}, // a holder writes as often as it likes
		{card{0, 4}, enter(ctx, "stale"), errStale},
		{card{1, 1}, enter(ctx, "other slot"), nil},
		{card{0, 9}, func(pgx.Tx) error { return oops }, oops},
		{card{0, 6}, enter(ctx, "not fenced by what failed"), nil},
	} {
		if err := write(ctx, db, step.card, step.do); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v, want %v", step.card, err, step.want)
		}
	}
	want := []string{"first", "again", "other slot", "not fenced by what failed"}
	if got, err := entries(ctx, db); err != nil || !slices.Equal(got, want) {
		t.Errorf("entries %q, %v", got, err)
	}
}
