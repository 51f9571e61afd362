package deployment

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// address is what a URL says.
type address struct {
	hosts          []string // host:port, or the path of a socket
	user, password string
	db             int
	tls            bool
	more           []func(*rueidis.ClientOption)
}

// HasPassword reports whether a URL may have a password in it: also one that is
// not well formed.
func HasPassword(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	who, _, found := cutLast(rest, "@")
	return found && strings.Contains(who, ":")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// parseURL takes a URL apart. [url.Parse] does not serve: it knows one host
// only, and its errors show the password.
func (v *variables) parseURL(text string) (a address) {
	fault := func(format string, args ...any) { v.fault(URLVariable, format, args...) }
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "redis", "valkey", "unix":
	case "rediss", "valkeys":
		a.tls = true
	default:
		fault("begins neither with redis:// or valkey:// nor, for TLS, with rediss:// or " +
			"valkeys://, nor, for a socket, with unix://")
		return a
	}
	rest, query, _ := strings.Cut(rest, "?")
	who, rest, known := cutLast(rest, "@")
	if known && !a.setUser(who) {
		fault("has a user or a password that is not percent-encoded; %%25 stands for %%, "+
			"%%2F for /, %%3F for ?, %%23 for #; or put the password into a file that %s names",
			passwordVariable)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	db := strings.TrimSuffix(path, "/")
	if scheme == "unix" {
		db = ""
	}
	if query != "" {
		v.parseQuery(query, &db, &a)
	}
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			fault("names a database that is no number")
		}
		a.db = n
	}
	if scheme == "unix" {
		a.setSocket(v, rest)
	} else {
		a.setHosts(v, hosts)
	}
	return a
}

// setSocket takes the path of a socket.
func (a *address) setSocket(v *variables, text string) {
	path, err := url.PathUnescape(text)
	if err != nil || !IsSocket(path) || strings.ContainsFunc(path, isBlank) {
		v.fault(URLVariable, "names no socket; write unix:///path/of/the/socket")
		return
	}
	for _, name := range []string{clusterVariable, masterVariable} {
		if v.values[name] != "" {
			v.fault(name, "is of no use with a socket")
		}
	}
	a.hosts = []string{path}
	a.more = append(a.more, func(o *rueidis.ClientOption) {
		o.DialCtxFn, o.ForceSingleClient = dialServer, true
	})
}

// setHosts takes hosts, with commas between them.
func (a *address) setHosts(v *variables, text string) {
	port := "6379"
	if v.values[masterVariable] != "" {
		port = "26379"
	}
	for host := range strings.SplitSeq(text, ",") {
		full, ok := withPort(host, port)
		if !ok {
			v.fault(URLVariable, "has hosts that are not written host:port, with commas between "+
				"them and no space or line break; those with colons in brackets")
			return
		}
		a.hosts = append(a.hosts, full)
	}
}

// setUser takes user:password apart and reports whether it is well formed.
func (a *address) setUser(text string) bool {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	a.user, err1 = url.PathUnescape(user)
	a.password, err2 = url.PathUnescape(password)
	return err1 == nil && err2 == nil && !strings.ContainsAny(text, "/?#")
}

// withPort completes a host, and reports whether it is one.
func withPort(host, port string) (string, bool) {
	name, given, err := net.SplitHostPort(host)
	if err != nil {
		inner, bracketed := strings.CutPrefix(host, "[")
		name, given = inner, port
		if bracketed {
			name, bracketed = strings.CutSuffix(inner, "]")
		}
		if strings.Contains(name, ":") != bracketed {
			return "", false
		}
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 || name == "" ||
		strings.ContainsAny(name, "/?#@[]") || strings.ContainsFunc(name, isBlank) {
		return "", false
	}
	return net.JoinHostPort(name, given), true
}

// isBlank reports whether r is not seen, such as a line break that a file has
// brought along.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }
