package berthotel

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

const (
	nameKey  = attribute.Key("berth.semaphore.name")
	errorKey = attribute.Key("error.type")
	// outcomeKey is for what would have become of an observed request.
	outcomeKey = attribute.Key("berth.outcome")
	// others is the name under which those beyond the bound are counted.
	others = "_other"
)

// names bounds the number of attribute values for names of semaphores.
type names struct {
	group func(string) string // nil: none
	most  int

	mu   sync.Mutex
	seen map[string]attribute.KeyValue // guarded by mu
}

func newNames(group func(string) string, most int) *names {
	return &names{group: group, most: most, seen: map[string]attribute.KeyValue{}}
}

// of returns the attribute under which a semaphore is counted.
func (n *names) of(name string) attribute.KeyValue {
	if n.group != nil {
		name = n.group(name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	kv, ok := n.seen[name]
	switch {
	case ok:
		return kv
	case len(n.seen) >= n.most:
		return nameKey.String(others)
	}
	kv = nameKey.String(name)
	n.seen[name] = kv
	return kv
}
