package repeat

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Sealer seals answers by its first key, and opens them by any of its keys.
// Without keys it leaves answers in clear. It may be used concurrently.
type Sealer []cipher.AEAD

// sealMark begins a sealed answer. An answer in clear is JSON, and begins with
// a brace.
const sealMark = "lbsealed1\n"

var (
	errUnsealed = errors.New("it is not sealed: it was stored before there were SealKeys, " +
		"or by another program")
	errSeal = errors.New("none of the SealKeys opens it: it was sealed by " +
		"another key, or for another request")
)

// NewSealer returns a sealer by AES-GCM. The option, by its name in errors, has
// the keys.
func NewSealer(option string, keys [][]byte) (s Sealer, err error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("lockbeat: %s needs a key of 16, 24 or 32 random bytes", option)
	}
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("lockbeat: key %d of %s has %d bytes: give 16, 24 or 32 random "+
				"ones", i+1, option, len(key))
		}
		aead, _ := cipher.NewGCMWithRandomNonce(block) // it fails for blocks of another size
		s = append(s, aead)
	}
	return s, nil
}

// Seal seals an answer. Only who opens it for the same request, bound, finds
// it.
func (s Sealer) Seal(answer, bound []byte) []byte {
	if len(s) == 0 {
		return answer
	}
	return s[0].Seal([]byte(sealMark), nil, answer, bound)
}

// Open opens the answer to a request.
func (s Sealer) Open(stored, bound []byte) ([]byte, error) {
	if len(s) == 0 {
		return stored, nil
	}
	sealed, marked := bytes.CutPrefix(stored, []byte(sealMark))
	if !marked {
		return nil, errUnsealed
	}
	for _, key := range s {
		if answer, err := key.Open(nil, nil, sealed, bound); err == nil {
			return answer, nil
		}
	}
	return nil, errSeal
}
