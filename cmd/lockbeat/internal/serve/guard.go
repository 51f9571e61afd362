package serve

import (
	"net"
	"net/http"
	"strings"
)

// isLocal reports whether a host to listen at is reached from this machine
// alone.
func isLocal(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// forLocalNames refuses requests for other hosts: a hostile site can give its
// own name the address of this machine, and have a browser read the page for
// it.
func forLocalNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil { // it has no port
			host = r.Host
			if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
				host = host[1 : len(host)-1]
			}
		}
		if !isLocal(host) {
			http.Error(w, "ask for localhost or 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
