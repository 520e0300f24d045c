//go:build testall

package testenv

// All says whether this is make test-all, which has time for what waits for minutes.
const All = true
