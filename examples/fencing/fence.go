package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema has a table for the tokens and one that they protect.
const schema = `
CREATE TABLE IF NOT EXISTS fence (
	semaphore text   NOT NULL,
	slot      int    NOT NULL,
	token     bigint NOT NULL,
	PRIMARY KEY (semaphore, slot)
);
CREATE TABLE IF NOT EXISTS entry (writer text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());`

// raise sets the token of a slot. If the slot has a larger token, it affects no row. It
// locks the row until the transaction ends, so no newer holder can come between the
// check and the write.
const raise = `
INSERT INTO fence AS f (semaphore, slot, token) VALUES ($1, $2, $3)
ON CONFLICT (semaphore, slot) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`

// errStale says that a newer lease of the same slot has written already.
var errStale = errors.New("a newer lease of this slot has written already")

// pass is what a holder presents to the fence. *berth.Lease implements it.
type pass interface {
	Name() string
	Slot() int
	Token() int64
}

// write runs do in a transaction on behalf of the holder of p. If p's lease is not the
// newest of its slot, it writes nothing and fails with errStale.
func write(ctx context.Context, db *pgxpool.Pool, p pass, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
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
