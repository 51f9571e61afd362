package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// How fast a password can be guessed. Who is refused waits; who knows the
// password never does, but that a client with mostEach wrong ones a moment ago
// is not heard: if it were, it would see by the time that an answer takes
// whether a guess was right.
const (
	// pause is before a wrong password is answered.
	pause = time.Second
	// mostEach is how many wrong ones of a client are paused for at once.
	mostEach = 4
	// mostAll is how many of all clients are: each keeps a connection and a
	// goroutine.
	mostAll = 256
)

// logins asks for a name and the password (basic authentication). Any name will
// do.
type logins struct {
	password [sha256.Size]byte
	logger   *slog.Logger
	next     http.Handler

	mu     sync.Mutex
	each   map[netip.Prefix]int // wrong ones that are paused for
	all    int
	logged time.Time // when the log was last told
	untold int       // wrong ones since then
	last   string    // the client of the last
}

func asking(password string, logger *slog.Logger, next http.Handler) *logins {
	return &logins{
		password: sha256.Sum256([]byte(password)), logger: logger, next: next,
		each: make(map[netip.Prefix]int),
	}
}

// ServeHTTP lets those in who know the password.
func (l *logins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, password, given := r.BasicAuth()
	if !given { // as a browser begins
		refuse(w)
		return
	}
	hash := sha256.Sum256([]byte(password))
	switch from := client(r); l.judge(from, hash, name) {
	case right:
		l.next.ServeHTTP(w, r)
	case unheard:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many wrong passwords", http.StatusTooManyRequests)
	default:
		// The place is taken for the whole pause, also if the client does not
		// wait for it.
		over := make(chan struct{})
		time.AfterFunc(pause, func() {
			l.forget(from)
			close(over)
		})
		select {
		case <-over:
			refuse(w)
		case <-r.Context().Done():
		}
	}
}

// verdict is about a login.
type verdict int

const (
	wrong verdict = iota
	right
	unheard // the password was not looked at
)

// judge judges a login, and counts one that is wrong.
func (l *logins) judge(from netip.Prefix, hash [sha256.Size]byte, name string) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.each[from] >= mostEach || l.all >= mostAll:
		return unheard
	case subtle.ConstantTimeCompare(hash[:], l.password[:]) == 1 && name != "":
		return right
	}
	l.each[from]++
	l.all++
	l.untold++
	l.last = from.Addr().String()
	l.log()
	return wrong
}

// forget ends a pause.
func (l *logins) forget(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	l.each[from]--
	if l.each[from] == 0 {
		delete(l.each, from)
	}
	l.log()
}

// log tells of wrong passwords, once a second at most. Those that come between
// are told when their pause ends, if no later one has told of them. Neither the
// password, which may be nearly right, nor the name, where a password is put by
// mistake, is told.
func (l *logins) log() {
	now := time.Now()
	if l.untold == 0 || now.Sub(l.logged) < time.Second {
		return
	}
	l.logger.Warn("wrong password", slog.String("client", l.last),
		slog.Int("logins", l.untold))
	l.logged, l.untold = now, 0
}

// client is where a request comes from: a network of IPv6 is one client's as a
// rule. Behind a proxy all are one.
func client(r *http.Request) netip.Prefix {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address, bits := from.Addr().Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="lockbeat", charset="UTF-8"`)
	http.Error(w, "give your name and the password", http.StatusUnauthorized)
}

// nameOf is the name given with the password.
func nameOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
