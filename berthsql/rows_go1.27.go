//go:build go1.27

package berthsql

import "database/sql/driver"

// exactly adds driver.RowsColumnScanner if the driver's rows have it.
func exactly(r *rows) driver.Rows {
	if s, ok := r.inner.(driver.RowsColumnScanner); ok {
		return &scanning{r, s}
	}
	return r
}

type scanning struct {
	*rows

	scanner driver.RowsColumnScanner
}

func (s *scanning) NextRow() error { return s.next(s.scanner.NextRow) }

func (s *scanning) ScanColumn(ctx driver.ScanContext, index int, dest any) error {
	return s.scanner.ScanColumn(ctx, index, dest)
}
