package look

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

const (
	lowest    = "-inf"  // below all scores
	deadlines = 1 << 32 // the least score of a deadline

	// page is how many members one call reads.
	page = 500
)

// Inspect reads a semaphore, and if records is set its holders and waiters, too. For a semaphore
// that does not exist, Snapshot.Exists is false.
func (r *Reader) Inspect(ctx context.Context, k protocol.Key, records bool) (*Snapshot, error) {
	in := r.Inspection([]protocol.Key{k}, records)
	for more := true; more; {
		more = in.Next(ctx)
	}
	found := in.Found()
	return found[0].Snapshot, found[0].Err
}

// Inspection is Inspect for several semaphores, page by page, so that its caller can bound
// the time for each page.
type Inspection struct {
	// Timed asks the server for its time before and after each page, in the same pipeline.
	Timed bool
	// Spent is the server's time for the pages so far, whatever the network and this process
	// took, if Told is set. It is not without Timed, and in a Cluster, where a pipeline goes to
	// several servers.
	Spent time.Duration
	Told  bool

	reader    *Reader
	all, left []*reading
	records   bool
}

// Inspection begins an inspection. It sends nothing.
func (r *Reader) Inspection(keys []protocol.Key, records bool) *Inspection {
	all := make([]*reading, len(keys))
	for i, k := range keys {
		all[i] = &reading{key: k, from: lowest, there: map[string]*Record{}, places: map[string]float64{}}
	}
	return &Inspection{reader: r, all: all, left: slices.Clone(all), records: records}
}

// Next reads the next page of each semaphore, all in one pipeline, and reports whether there
// are more.
func (in *Inspection) Next(ctx context.Context) (more bool) {
	count := 0
	if in.records {
		count = page
	}
	r := in.reader
	spent, told := r.ask(ctx, in.left, int(r.first.Load()), count, in.Timed && !r.store.Sharded())
	in.Spent, in.Told = in.Spent+spent, told
	in.left = slices.DeleteFunc(in.left, func(a *reading) bool { a.take(count); return a.done })
	return len(in.left) > 0
}

// Found is the result of an Inspection for one semaphore: a Snapshot or an error.
type Found struct {
	*Snapshot
	Err error
}

// Found returns the results, when there are no more pages.
func (in *Inspection) Found() []Found {
	found := make([]Found, len(in.all))
	for i, a := range in.all {
		if a.err != nil {
			found[i].Err = in.reader.store.Failed(a.err)
		} else {
			found[i].Snapshot = a.snapshot(in.records)
		}
	}
	return found
}

// reading is a Snapshot that is read page by page.
type reading struct {
	key     protocol.Key
	from    string // the score at which the next page begins
	skip    int    // how many of that score have been read
	fields  []any  // the answer that was not taken yet
	snap    Snapshot
	there   map[string]*Record // leases and waiters, by id
	places  map[string]float64 // the scores of lines with waiters, by tenant
	counted []Counted
	queue   []string // ids
	pausing bool     // there is a pause that ends
	done    bool     // all is read, or err
	err     error
}

// take adds the page that was answered, of so many members at most.
func (a *reading) take(count int) {
	var members []string
	if a.err == nil {
		members, a.err = a.open()
	}
	for i := 0; a.err == nil && i+2 < len(members); i += 3 {
		a.err = a.collect(members[i], members[i+1], members[i+2])
	}
	last := count == 0 || len(members) < 3*count
	if a.err == nil && last && a.from == lowest && a.pausing && a.snap.Ends == 0 { // with several pages it may have ended meanwhile
		a.err = corrupt("no deadline for", "!p")
	}
	a.done = a.err != nil || last
	if !a.done {
		a.advance(members[1], members[len(members)-2], count)
	}
}

// advance goes to the next page, after one of so many members with scores from first to
// last. The next page begins with the members of the score last, which may so be read
// twice: none is missed when members before them are removed. If a page has only members of
// one score, the next one begins after those that were read.
func (a *reading) advance(first, last string, count int) {
	switch {
	case first != last:
		a.from, a.skip = last, 0
	case a.from == last:
		a.skip += count
	default:
		a.from, a.skip = last, count
	}
}

// errGarbled: the answer is not one of the script.
var errGarbled = errors.New("unexpected reply")

// open takes the answer apart. What the first one says of the whole goes into the Snapshot; the rest
// are members, scores and records.
func (a *reading) open() (members []string, err error) {
	const ahead = 7
	if len(a.fields) < ahead {
		return nil, errGarbled
	}
	fits := true
	number := func(k int) int64 {
		n, ok := a.fields[k].(int64)
		fits = fits && ok
		return n
	}
	text := func(k int) string {
		s, ok := a.fields[k].(string)
		fits = fits && ok
		return s
	}
	h := header{
		now: number(0), state: text(1), settings: text(2), fields: number(3), members: number(4), free: number(5), ends: text(6),
	}
	for k := ahead; k < len(a.fields); k++ {
		members = append(members, text(k))
	}
	switch {
	case !fits:
		return nil, errGarbled
	case a.from == lowest:
		err = a.begin(h)
	}
	return members, err
}

// collect adds one member of the sorted set: a place in the queue, or a deadline with its
// record. It ignores free slots and others.
func (a *reading) collect(member, score, record string) error {
	at, err := strconv.ParseFloat(score, 64)
	switch {
	case err != nil:
		return corrupt("score of "+member, score)
	case at < 0 && strings.HasPrefix(member, "#"):
		if len(a.queue) == 0 {
			w, ok := parseRecord(record)
			if !ok {
				return corrupt("waiter", record)
			}
			a.snap.Oldest, a.snap.Head = w.Since, w
		}
		a.queue = append(a.queue, strings.TrimPrefix(member, "#"))
		return nil
	case at < 0:
		a.places[strings.TrimPrefix(member, "!t")] = at
		return nil
	case at < deadlines || record == "" || strings.HasPrefix(record, "x ") || strings.HasPrefix(record, "t "):
		return nil
	case strings.HasPrefix(record, "r |"):
		n, ok := parseCounted(record, a.snap.Rates.All())
		if !ok {
			return corrupt("record", record)
		}
		a.counted = n
		return nil
	case strings.HasPrefix(record, "p "):
		a.snap.Ends, a.snap.Who = int64(at), strings.TrimPrefix(record, "p ")
		return nil
	}
	l, ok := parseRecord(record)
	if !ok {
		return corrupt("record", record)
	}
	l.ID, l.Expires = member, int64(math.Ceil(at)) // half a ms less: it was asked for a sign of life
	a.there[member] = l
	return nil
}
