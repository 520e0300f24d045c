package private

import (
	"fmt"
	"net/netip"
	"os"
)

// CheckSecret refuses a file with a secret that other users can read.
func CheckSecret(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s: others may use it (mode %04o): chmod 600", name, perm)
	}
	return nil
}

// Loopback reports whether only this machine reaches the host of an address.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
