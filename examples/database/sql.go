package main

import (
	"context"
	"database/sql"

	"github.com/berth-go/berth"
)

// countSales is database/sql under a permit: Do around everything that uses
// one connection, rows included, and its context for the query.
func countSales(ctx context.Context, db *sql.DB, sem *berth.Semaphore) (n int, err error) {
	err = sem.Do(ctx, func(ctx context.Context) error {
		return db.QueryRowContext(ctx, "SELECT count(*) FROM sale").Scan(&n)
	})
	return n, err
}
