package idempotent

import "net/http"

// StoredAnswer is an answer as it is stored.
type StoredAnswer struct {
	Status          int
	Header, Trailer http.Header
	Body            []byte

	Replay func(http.ResponseWriter)
}

// DecodeAnswer reads a stored answer.
func DecodeAnswer(data []byte) (StoredAnswer, error) {
	var a answer
	err := decodeAnswer(data, &a)
	return StoredAnswer{a.Status, a.Header, a.Trailer, a.Body, a.replay}, err
}

// SameBoundary returns what is compared in place of a content type and a body.
func SameBoundary(contentType string, body []byte) (string, []byte) {
	return sameBoundary(contentType, body)
}
