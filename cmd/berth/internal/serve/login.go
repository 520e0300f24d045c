package serve

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// mostFailures is how many wrong passwords or tokens an address may send in a minute.
	mostFailures = 10
	failureSpan  = time.Minute
	// mostAddresses bounds how many addresses are remembered for that.
	mostAddresses = 10_000
	// atOnce is how many passwords are checked at the same time; each check keeps a CPU busy.
	atOnce = 2
)

// login identifies the senders of requests.
type login struct {
	Config
	accounts map[string]account
	tokens   []bearer
	trusted  []netip.Prefix
	checking chan struct{}
	now      func() time.Time

	mu       sync.Mutex
	failures map[netip.Addr]failed
	key      []byte            // of known
	known    map[string][]byte // the last right password of each user, as a keyed hash
}

// failed counts an address's wrong passwords since a moment.
type failed struct {
	since time.Time
	count int
}

// newLogin reads the files that c names.
func newLogin(c Config) (l *login, err error) {
	l = &login{Config: c, checking: make(chan struct{}, atOnce), now: time.Now, failures: map[netip.Addr]failed{}, key: make([]byte, 32), known: map[string][]byte{}}
	_, _ = rand.Read(l.key) // it never fails
	if l.trusted, err = c.proxies(); err != nil {
		return nil, err
	}
	if c.AuthFile != "" {
		if l.accounts, err = readAccounts(c.AuthFile); err != nil {
			return nil, err
		}
	}
	if c.TokenFile != "" {
		if l.tokens, err = readTokens(c.TokenFile); err != nil {
			return nil, err
		}
	}
	return l, nil
}

type userKey struct{}

// User returns the sender of a request, with the address, and whether they may make changes.
func (l *login) User(r *http.Request) (name string, mayWrite bool) {
	u, _ := r.Context().Value(userKey{}).(user)
	if !l.login() {
		u = user{"web", true}
	}
	if u.name == "" {
		return "", false
	}
	return u.name + "@" + l.address(r).String(), u.operate && l.AllowWrite
}

// wrap lets only identified users pass.
func (l *login) wrap(next http.Handler) http.Handler {
	if !l.login() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr := l.address(r)
		var u user
		if !l.slowed(addr) {
			u = l.identify(r, addr)
		}
		switch {
		case u.name != "":
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, u)))
			return
		case l.slowed(addr):
			w.Header().Set("Retry-After", strconv.Itoa(int(failureSpan.Seconds())))
			http.Error(w, "Too many wrong passwords from your address: wait a minute.", http.StatusTooManyRequests)
			return
		}
		if l.accounts != nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="berth", charset="UTF-8"`)
		}
		http.Error(w, "Log in first.", http.StatusUnauthorized)
	})
}

// identify returns the sender of a request, or no user, and counts wrong passwords against
// the address that it came from.
func (l *login) identify(r *http.Request, from netip.Addr) (u user) {
	if l.UserHeader != "" && l.trusts(remote(r.RemoteAddr)) {
		if names := r.Header.Values(l.UserHeader); len(names) == 1 && userName.MatchString(names[0]) {
			return user{names[0], true}
		}
	}
	authorization := r.Header.Get("Authorization")
	if name, password, ok := r.BasicAuth(); ok && l.accounts != nil {
		return l.password(r.Context(), from, name, password)
	}
	if scheme, text, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		u = l.bearer(text)
	}
	if u.name == "" && authorization != "" {
		l.fail(from)
	}
	return u
}

// bearer compares a token with all known ones.
func (l *login) bearer(text string) (u user) {
	sum := sha256.Sum256([]byte(text))
	for i := range l.tokens {
		if subtle.ConstantTimeCompare(sum[:], l.tokens[i].sum[:]) == 1 {
			u = l.tokens[i].user
		}
	}
	return u
}

// password returns the user with this password, or no user. Browsers send the password with
// every request, so the last right one of each user is remembered, as a hash that is fast to
// compute.
func (l *login) password(ctx context.Context, from netip.Addr, name, password string) user {
	a, known := l.accounts[name]
	if !known {
		a = nobody
	}
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(password))
	sum := mac.Sum(nil)
	if l.remembers(name, sum) {
		return a.user
	}
	select {
	case l.checking <- struct{}{}:
		defer func() { <-l.checking }()
	case <-ctx.Done():
		return user{}
	}
	if l.remembers(name, sum) { // another request of the same user was first
		return a.user
	}
	if l.slowed(from) { // by requests that were checked while this one waited for its turn
		return user{}
	}
	if !a.knows(password) {
		l.fail(from) // before the next one has its turn
		return user{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[name] = sum
	return a.user
}

// remembers reports whether a hash is that of a user's last right password.
func (l *login) remembers(name string, sum []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return hmac.Equal(l.known[name], sum)
}

// slowed reports whether an address has sent too many wrong passwords.
func (l *login) slowed(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures[site(addr)]
	return f.count >= mostFailures && l.now().Sub(f.since) < failureSpan
}

func (l *login) fail(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.failures) >= mostAddresses {
		maps.DeleteFunc(l.failures, func(_ netip.Addr, f failed) bool { return now.Sub(f.since) >= failureSpan })
	}
	if len(l.failures) >= mostAddresses {
		clear(l.failures)
	}
	addr = site(addr)
	f := l.failures[addr]
	if now.Sub(f.since) >= failureSpan {
		f = failed{since: now}
	}
	f.count++
	l.failures[addr] = f
}

// remote returns the address of the other end of a connection.
func remote(addrPort string) netip.Addr {
	remote, _ := netip.ParseAddrPort(addrPort)
	return remote.Addr().Unmap().WithZone("")
}

// site returns what counts as one address: an IPv6 /64, because its addresses usually belong
// to one machine or network.
func site(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // an IPv6 address has that many bits
	return prefix.Addr()
}

func (l *login) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// address returns the address that a request comes from: the peer, or the one that trusted
// proxies name.
func (l *login) address(r *http.Request) netip.Addr {
	addr := remote(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !l.trusts(addr) {
			break
		}
		addr = next.Unmap().WithZone("")
	}
	return addr
}
