//go:build !linux

package agent

import "net"

// peer is not known here.
type peer struct{}

func peerOf(net.Conn) peer { return peer{} }

func (peer) program() string { return "" }

// String implements fmt.Stringer.
func (peer) String() string { return "" }
