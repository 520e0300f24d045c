package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema is a table for the tokens, and one that they protect.
const schema = `
CREATE TABLE IF NOT EXISTS fence (
	semaphore text   NOT NULL,
	slot      int    NOT NULL,
	token     bigint NOT NULL,
	PRIMARY KEY (semaphore, slot)
);
CREATE TABLE IF NOT EXISTS entry (writer text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());`

// raise sets the token of a slot, and touches no row if a larger one is there. It
// locks the row until the transaction ends, so a newer holder cannot come
// between the look and the write.
const raise = `
INSERT INTO fence AS f (semaphore, slot, token) VALUES ($1, $2, $3)
ON CONFLICT (semaphore, slot) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`

// errStale: somebody with a newer lease of the same slot has been here.
var errStale = errors.New("a newer lease of this slot has written already")

// pass is what a holder shows at the fence; a *berth.Lease is one.
type pass interface {
	Name() string
	Slot() int
	Token() int64
}

// fence is a database that serves the newest holder of each slot only.
type fence struct{ pool *pgxpool.Pool }

func newFence(ctx context.Context, dsn string) (*fence, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	if _, err = pool.Exec(ctx, schema); err != nil {
		pool.Close()
		return nil, err
	}
	return &fence{pool}, nil
}

// write runs do in a transaction on behalf of the holder of p. It fails with
// errStale, and nothing is written, if that lease is not the newest of its slot.
func (f *fence) write(ctx context.Context, p pass, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, raise, p.Name(), p.Slot(), p.Token())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("slot %d, token %d: %w", p.Slot(), p.Token(), errStale)
		}
		return do(tx)
	})
}

// enter is the write that the example protects.
func enter(ctx context.Context, writer string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO entry (writer) VALUES ($1)", writer)
		return err
	}
}

// entries returns who has written, in order.
func (f *fence) entries(ctx context.Context) ([]string, error) {
	rows, err := f.pool.Query(ctx, "SELECT writer FROM entry ORDER BY at")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
