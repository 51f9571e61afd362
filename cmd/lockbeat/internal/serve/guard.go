package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
)

// isLocal reports whether a host to listen at is reached from this machine alone.
func isLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// forLocalNames refuses requests for other hosts: a hostile site can give its own name the address
// of this machine, and have a browser read the page for it.
func forLocalNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if len(host) > 2 && host[0] == '[' {
			host = host[1 : len(host)-1]
		}
		if !isLocal(host) {
			http.Error(w, "ask for localhost or 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// asking asks for a name and the password (basic authentication). Any name will do.
func asking(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || nameOf(r) == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="lockbeat", charset="UTF-8"`)
			http.Error(w, "give your name and the password", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nameOf is the name given with the password.
func nameOf(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
