package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what every worker process is told.
type job struct {
	DSN         string
	Redis       string
	Phase       string // the name of its connections in pg_stat_activity
	Clients     int    // goroutines that query at once
	Rounds      int    // queries of each of them; 0: until the process is asked to end
	Queries     int    // at once, of all processes; 0: no limit
	Connections int    // of all processes; 0: no limit
	TTL         time.Duration
	Replicas    int  // that must have a grant
	Tell        bool // of each query, in a table
}

// result is what one worker process has seen.
type result struct {
	Answered int
	Refused  int    // by a database that has no connection left
	Failed   int    // because there was no permit: Redis did not answer, or the lease was lost
	Odd      string // another error
	AtOnce   int    // queries and transactions of all processes, at most
	Open     int    // connections of all processes, at most
}

func (r *result) add(other result) {
	r.Answered += other.Answered
	r.Refused += other.Refused
	r.Failed += other.Failed
	r.Odd = cmp.Or(r.Odd, other.Odd)
	r.AtOnce = max(r.AtOnce, other.AtOnce)
	r.Open = max(r.Open, other.Open)
}

// look takes the database a while, and returns how many connections are open and how many are in use,
// its own among them. After a transaction or a query they are idle before the client hears of the end.
const look = `SELECT count(*) FILTER (WHERE state <> 'idle'), count(*) FROM pg_sleep(0.01), pg_stat_activity
	WHERE application_name = current_setting('application_name')`

// work is the whole of a worker process.
func work(ctx context.Context, j job) (result, error) {
	redis, err := store.Open(j.Redis)
	if err != nil {
		return result{}, err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client)
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	db, err := open(client, j)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	clients := make([]result, j.Clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := 0; (n < j.Rounds || j.Rounds == 0) && ctx.Err() == nil; n++ {
				seen, err := query(ctx, db, n, j.Tell)
				if ctx.Err() != nil {
					err = ctx.Err() // whatever the end of the process made of it
				}
				clients[i].count(seen, err)
			}
		})
	}
	all.Wait()
	var sum result
	for _, r := range clients {
		sum.add(r)
	}
	return sum, nil
}

// count adds the outcome of a query.
func (r *result) count(seen result, err error) {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		r.Answered++
	case errors.As(err, &pg) && pg.Code == "53300": // too_many_connections
		r.Refused++
	case errors.Is(err, berth.ErrUnreachable), errors.Is(err, berth.ErrRefused), errors.Is(err, berth.ErrNotReplicated), errors.Is(err, berth.ErrLost):
		r.Failed++
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &pg) && pg.Code == "57014": // query_canceled: it was given up
	default:
		r.Odd = err.Error()
	}
	r.add(seen)
}

// query asks the database in one of several ways. It knows nothing of limits.
func query(ctx context.Context, db *sql.DB, n int, tell bool) (seen result, err error) {
	switch n % 3 {
	case 0:
		err = db.QueryRowContext(ctx, look).Scan(&seen.AtOnce, &seen.Open)
	case 1:
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		err = transact(ctx, db, &seen, tell)
	default: // it is given up
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = db.ExecContext(ctx, "SELECT pg_sleep(0.5)")
	}
	return seen, err
}

func transact(ctx context.Context, db *sql.DB, seen *result, tell bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it is too late for it, else the error is told
	if tell {
		if _, err := tx.ExecContext(ctx, "INSERT INTO done VALUES ($1)", os.Getpid()); err != nil {
			return err
		}
	}
	if err := tx.QueryRowContext(ctx, look).Scan(&seen.AtOnce, &seen.Open); err != nil {
		return err
	}
	return tx.Commit()
}
