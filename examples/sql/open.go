package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthsql"
)

// open returns a pool whose queries and connections are limited, as the job says. Nothing that queries
// knows of it.
func open(client *berth.Client, j job) (*sql.DB, error) {
	config, err := pgx.ParseConfig(j.DSN)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = j.Phase
	// A query whose context ends is cancelled at the server, and returns when it has ended there. So its
	// permit is not another's before.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
	}
	// pgx would ping connections that were idle, without a permit.
	connector := stdlib.GetConnector(*config, stdlib.OptionShouldPing(
		func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	if j.Connections > 0 {
		if connector, err = limit(client, connector, "database/connections", j.Connections, j, berthsql.PerConnection()); err != nil {
			return nil, err
		}
	}
	if j.Queries > 0 {
		if connector, err = limit(client, connector, "database", j.Queries, j); err != nil {
			return nil, err
		}
	}
	db := sql.OpenDB(connector)
	db.SetConnMaxIdleTime(time.Second)
	db.SetConnMaxLifetime(time.Second) // so that a busy process leaves connections to others
	return db, nil
}

func limit(client *berth.Client, inner driver.Connector, name string, n int, j job, opts ...berthsql.Option) (driver.Connector, error) {
	sem, err := client.Semaphore(name, n, berth.TTL(j.TTL), berth.MinReplicas(j.Replicas), berth.Label(j.Phase))
	if err != nil {
		return nil, err
	}
	return berthsql.NewConnector(inner, sem, opts...)
}
