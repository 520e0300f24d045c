package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/berth-go/berth"
)

const (
	// mostKey is how much of an escaped key a name shows.
	mostKey = 160
	// mostName leaves room for a key below berth.MaxName.
	mostName = 256
)

// nameOf returns the name of key's semaphore. Different keys have different
// names, and every name is valid: bytes that could harm a key, a channel or a
// screen are escaped as in a URL, and what is too long ends in its hash. A tilde
// marks the hash, and so is escaped elsewhere; so is a slash, or a key could name
// the semaphores of another limit, whose name begins with this one's and a slash.
func nameOf(base, key string) string { return base + "/" + escaped(key, mostKey, mostKey) }

// tenantOf returns the key of a tenant, in the same way.
func tenantOf(key string) string {
	return escaped(key, berth.MaxTenant, berth.MaxTenant-len("~")-hex.EncodedLen(hashed))
}

// hashed is how many bytes of a hash are used.
const hashed = 16

// escaped returns the escaped key if that has at most so many bytes, and else the beginning of it,
// as long as shown, and its hash.
func escaped(key string, most, shown int) string {
	var b strings.Builder
	for i := 0; i < len(key) && b.Len() <= most; i++ {
		escape(&b, key[i])
	}
	if b.Len() <= most {
		return b.String()
	}
	sum := sha256.Sum256([]byte(key))
	return b.String()[:shown] + "~" + hex.EncodeToString(sum[:hashed])
}

func escape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._:@[]", c) >= 0:
		b.WriteByte(c)
	default:
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}
