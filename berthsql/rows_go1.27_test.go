//go:build go1.27

package berthsql_test

import (
	"database/sql/driver"
	"io"
)

func init() {
	cursors["scans"] = func(r *plainRows) driver.Rows { return scanner{r} }
}

// scanner is rows that scan by themselves.
type scanner struct{ *plainRows }

func (s scanner) NextRow() error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	return nil
}

func (s scanner) ScanColumn(_ driver.ScanContext, index int, dest any) error {
	switch d := dest.(type) {
	case *int:
		*d = 100*s.left + index
	case *string:
		*d = "scanned"
	}
	return nil
}
