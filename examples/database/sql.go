package main

import (
	"context"
	"database/sql"

	"github.com/berth-go/berth"
)

// countSales uses database/sql under a permit: Do wraps everything that uses the
// connection, reading the rows included, and the query gets Do's context.
func countSales(ctx context.Context, db *sql.DB, sem *berth.Semaphore) (n int, err error) {
	err = sem.Do(ctx, func(ctx context.Context) error {
		return db.QueryRowContext(ctx, "SELECT count(*) FROM sale").Scan(&n)
	})
	return n, err
}
