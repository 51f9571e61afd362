package idempotent

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// sealer seals by its first key, and opens by any of its keys. Without keys it leaves answers in
// clear.
type sealer []cipher.AEAD

// sealMark begins a sealed answer. An answer in clear is JSON, and begins with a brace.
const sealMark = "lbsealed1\n"

var (
	errUnsealed = errors.New("it is not sealed: it was stored before idempotent.Seal was given, " +
		"or by another program")
	errSeal = errors.New("none of the keys given to idempotent.Seal opens it: it was sealed by " +
		"another key, or for another request")
)

func newSealer(keys [][]byte) (s sealer) {
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			panic(fmt.Sprintf("lockbeat: key %d of idempotent.Seal has %d bytes: give 16, 24 or "+
				"32 random ones", i+1, len(key)))
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil { // of a block of another size
			panic("lockbeat: idempotent.Seal: " + err.Error())
		}
		s = append(s, aead)
	}
	return s
}

// seal seals an answer for one request.
func (s sealer) seal(answer []byte, j *job) []byte {
	if len(s) == 0 {
		return answer
	}
	return s[0].Seal([]byte(sealMark), nil, answer, j.about())
}

// open opens the answer to one request.
func (s sealer) open(stored []byte, j *job) ([]byte, error) {
	if len(s) == 0 {
		return stored, nil
	}
	sealed, marked := bytes.CutPrefix(stored, []byte(sealMark))
	if !marked {
		return nil, errUnsealed
	}
	for _, key := range s {
		if answer, err := key.Open(nil, nil, sealed, j.about()); err == nil {
			return answer, nil
		}
	}
	return nil, errSeal
}
