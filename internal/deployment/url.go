package deployment

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// address is what a URL says.
type address struct {
	hosts          []string // host:port
	user, password string
	db             int
	tls            bool
}

// HasPassword reports whether a URL may have a password in it: also one that is not well formed.
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

// parseURL takes a URL apart. [url.Parse] does not serve: it knows one host only, and its errors
// show the password.
func (v *variables) parseURL(text string) (a address) {
	fault := func(format string, args ...any) { v.fault(URLVariable, format, args...) }
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "redis":
	case "rediss":
		a.tls = true
	default:
		fault("begins neither with redis:// nor, for TLS, with rediss://")
		return a
	}
	rest, query, _ := strings.Cut(rest, "?")
	who, rest, known := cutLast(rest, "@")
	rest, path, _ := strings.Cut(rest, "/")
	if known && !a.setUser(who) {
		fault("has a user or a password that is not percent-encoded; %%25 stands for %%, "+
			"%%2F for /, %%3F for ?, %%23 for #; or put the password into a file that %s names",
			passwordVariable)
	}
	db := strings.TrimSuffix(path, "/")
	if query != "" && !v.parseQuery(query, &db) {
		fault("may have nothing behind the hosts but /number or ?db=number, and cluster=true or " +
			"sentinel_master=name, each once")
	}
	port := "6379"
	if v.values[masterVariable] != "" {
		port = "26379"
	}
	for host := range strings.SplitSeq(rest, ",") {
		full, ok := withPort(host, port)
		if !ok {
			fault("has hosts that are not written host:port, with commas between them and no " +
				"space or line break; those with colons in brackets")
			return a
		}
		a.hosts = append(a.hosts, full)
	}
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			fault("names a database that is no number")
		}
		a.db = n
	}
	return a
}

// parseQuery takes what is behind the question mark, and reports whether it is well formed. What
// variables say, too, becomes theirs, under a name of the URL's.
func (v *variables) parseQuery(query string, db *string) bool {
	values, err := url.ParseQuery(query)
	for name, all := range values {
		variable, known := map[string]string{
			"cluster": clusterVariable, "sentinel_master": masterVariable,
		}[name]
		switch {
		case len(all) != 1 || all[0] == "":
			return false
		case name == "db" && *db == "":
			*db = all[0]
		case !known:
			return false
		case v.values[variable] != "":
			v.fault(variable, "%s has %s, too; keep one of them", v.name(URLVariable), name)
		default:
			v.values[variable], v.called[variable] = all[0], v.name(URLVariable)+": "+name
		}
	}
	return err == nil
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

// isBlank reports whether r is not seen, such as a line break that a file has brought along.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }
