//go:build !go1.27

package berthsql

import "database/sql/driver"

func exactly(r *rows) driver.Rows { return r }
