package idempotent

import "net/http"

// ParseKey reads an Idempotency-Key.
func ParseKey(text string) (string, error) { return parseKey(text) }

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

// Sealer is what an option of Seal has: sealing and opening an answer to the request with a
// fingerprint, under a name.
func Sealer(
	keys ...[]byte,
) (seal func(data []byte, name, input string) []byte, open func(data []byte, name,
	input string) ([]byte, error),
) {
	var s settings
	Seal(keys...)(&s)
	return func(data []byte, name, input string) []byte {
			return s.seal.seal(data, &job{name: name, input: input})
		},
		func(data []byte, name, input string) ([]byte, error) {
			return s.seal.open(data, &job{name: name, input: input})
		}
}
