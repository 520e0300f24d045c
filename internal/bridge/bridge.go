// Package bridge has the key to berth.Internal: what package berth has for berthpool, berthadmin,
// internal/gate and the command, and for nobody else. As this package is internal, nobody else can make
// the key.
package bridge

// Key opens berth.Internal.
type Key struct{ made bool }

// NewKey returns a Key.
func NewKey() Key { return Key{made: true} }

// Check panics if NewKey has not made k.
func (k Key) Check() {
	if !k.made {
		panic("berth: Internal is for berth's own packages")
	}
}
