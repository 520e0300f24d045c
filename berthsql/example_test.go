package berthsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthsql"
	"github.com/berth-go/berth/berthtest"
)

// At most 8 queries run on the database at once, whichever programs of the fleet send them. berthtest
// stands in for Redis, and a driver in memory for pgx.
func Example() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	dsn := "postgres://app@db/shop"

	queries, err := client.Semaphore("db/shop", 8, berth.MaxHold(time.Minute))
	if err != nil {
		panic(err)
	}
	db, err := berthsql.Open("pgx", dsn, queries) // it was sql.Open("pgx", dsn)
	if err != nil {
		panic(err)
	}
	defer db.Close()

	var id int
	var name string
	err = db.QueryRowContext(context.Background(), "SELECT id, name FROM item").Scan(&id, &name) // as before
	fmt.Println(id, name, err)
	// Output: 2 text <nil>
}

// A database that allows 20 connections, of which the fleet leaves some to its operators.
func ExamplePerConnection() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	dsn := "postgres://app@db/shop"

	connections, err := client.Semaphore("db/shop/connections", 16)
	if err != nil {
		panic(err)
	}
	db, err := berthsql.Open("pgx", dsn, connections, berthsql.PerConnection())
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetConnMaxIdleTime(time.Second)     // an idle connection gives way after a second or two
	db.SetConnMaxLifetime(5 * time.Minute) // and one that is never idle after 5 minutes

	fmt.Println(db.PingContext(context.Background()))
	// Output: <nil>
}

// Both limits at once: a query waits for a connection, and then for its turn.
func ExampleNewConnector() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	connections, err := client.Semaphore("db/shop/connections", 16)
	if err != nil {
		panic(err)
	}
	queries, err := client.Semaphore("db/shop", 8)
	if err != nil {
		panic(err)
	}

	pgx := newDatabase() // for example stdlib.GetConnector(*config) of pgx
	outer, err := berthsql.NewConnector(pgx, connections, berthsql.PerConnection())
	if err != nil {
		panic(err)
	}
	connector, err := berthsql.NewConnector(outer, queries)
	if err != nil {
		panic(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()

	fmt.Println(db.PingContext(context.Background()))
	// Output: <nil>
}
