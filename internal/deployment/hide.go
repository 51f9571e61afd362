package deployment

import "strings"

// WithoutPassword is a URL without its user and password, for programs that are
// not to know them: also one that is not well formed.
func WithoutPassword(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, query, _ := strings.Cut(rest, "?")
	_, hosts, _ := cutLast(rest, "@")
	if url = scheme + "://" + hosts; query != "" {
		url += "?" + query
	}
	return url
}
