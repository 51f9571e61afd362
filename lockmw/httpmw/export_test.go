package httpmw

import "net/http"

// Resource is what PathValue makes of a pattern.
func Resource(pattern, name string, value func(string) string) (string, bool) {
	return resource(pattern, name, value)
}

// Plain takes percent-encoding off.
func Plain(s string) string { return plain(s) }

// ParseKey reads an Idempotency-Key.
func ParseKey(text string) (string, error) { return parseKey(text) }

// DecodeAnswer reads a stored answer.
func DecodeAnswer(data []byte) (status int, replay func(http.ResponseWriter), err error) {
	var a answer
	err = decodeAnswer(data, &a)
	return a.Status, a.replay, err
}
