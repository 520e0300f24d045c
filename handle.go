package berth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"time"
)

// handle is a lease on its way from one process to another. It is no secret,
// and no proof of anything: whoever can reach the Redis can do as much.
type handle struct {
	Prefix   string `json:"p"`
	Name     string `json:"n"`
	ID       string `json:"i"`
	Token    int64  `json:"t"`
	Slot     int    `json:"s"`
	Weight   int    `json:"w"`
	TTL      int64  `json:"l"` // milliseconds
	Limit    int    `json:"m"` // in force at the grant
	Declared int    `json:"d"`
	Label    string `json:"b,omitempty"`
	Manual   bool   `json:"u,omitempty"`
}

// A handle's text: this, the JSON in base64, a dot, its CRC-32.
const handleMark = "berth1."

var leaseID = regexp.MustCompile(`^[a-z2-7]{26}\.[a-z0-9]{1,13}$`)

func newHandle(l *Lease) handle {
	return handle{
		Prefix: l.client.prefix, Name: l.Name(), ID: l.ID(), Token: l.Token(), Slot: l.Slot(), Weight: l.Weight(),
		TTL: l.config.ttl.Milliseconds(), Limit: l.Limit(), Declared: max(l.Limit(), 1), Label: l.Label(), Manual: l.config.noRenewal,
	}
}

// String returns the handle's text: printable, without spaces.
func (h handle) String() string {
	raw, _ := json.Marshal(h) // strings and numbers: it cannot fail
	body := base64.RawURLEncoding.EncodeToString(raw)
	return fmt.Sprintf("%s%s.%08x", handleMark, body, crc32.ChecksumIEEE([]byte(body)))
}

// parseHandle reads a handle's text and checks every field: it may have come
// through files and people.
func parseHandle(text, prefix string) (handle, error) {
	var h handle
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), handleMark)
	if !ok {
		return h, fmt.Errorf("%w: it does not begin with %q", ErrHandle, handleMark)
	}
	body, sum, _ := strings.Cut(rest, ".")
	if sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) {
		return h, fmt.Errorf("%w: it is truncated or altered", ErrHandle)
	}
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrHandle, err)
	}
	return h, h.validate(prefix)
}

func (h handle) validate(prefix string) error {
	if h.Prefix != prefix {
		return fmt.Errorf("%w: it was made with prefix %q, and this client has %q", ErrHandle, h.Prefix, prefix)
	}
	cfg := defaults
	cfg.ttl, cfg.weight, cfg.label = time.Duration(h.TTL)*time.Millisecond, h.Weight, h.Label
	switch {
	case validName(h.Name) != nil, cfg.validate() != nil, validLimit(h.Declared, 1) != nil, validLimit(h.Limit, 0) != nil,
		!leaseID.MatchString(h.ID), h.Token < 1, h.Slot < 0:
		return fmt.Errorf("%w: a field is out of bounds", ErrHandle)
	}
	return nil
}
