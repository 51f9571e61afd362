package httpmw

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Seal encrypts stored answers by AES-GCM, for a store that others can read or write: they can
// neither read an answer, nor change it, nor move it to another caller, key or request. They can
// still remove it, so that the request is carried out again, or spoil it, so that it is refused,
// and they see hashes of the caller and the key, and of the request, by which a guess can be
// proved.
//
// The first key seals, and any opens: to change keys, give all processes the new one behind the
// old, then before it, and drop the old one [KeepAnswer] later.
//
// An answer that none of the keys opens is not replayed, and nor is one that is not sealed, such
// as those stored before Seal was given: anybody could have put it there. The handler does not
// run; the answer is a 500, and the keeper's observer is told, once. A sealed answer is 38 bytes
// longer.
//
// Keys are 16, 24 or 32 random bytes, for AES-128, -192 or -256; one key is good for 2^32 answers.
// It panics without a key, or with one of another length. Default: answers are stored in clear.
func Seal(keys ...[]byte) IdempotentOption {
	if len(keys) == 0 {
		panic("lockbeat: httpmw.Seal needs a key of 16, 24 or 32 random bytes")
	}
	var s sealer
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			panic(fmt.Sprintf("lockbeat: key %d of httpmw.Seal has %d bytes: give 16, 24 or 32 "+
				"random ones", i+1, len(key)))
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil { // of a block of another size
			panic("lockbeat: httpmw.Seal: " + err.Error())
		}
		s = append(s, aead)
	}
	return idempotentOption(func(set *settings) { set.seal = s })
}

// sealer are the keys, the one that seals first. One without keys leaves answers in clear.
type sealer []cipher.AEAD

// sealMark begins a sealed answer: one in clear is JSON, and begins with a brace.
const sealMark = "lbsealed1\n"

var (
	errUnsealed = errors.New("it is not sealed, as those are that were stored before httpmw.Seal " +
		"was given, or by another program")
	errSeal = errors.New("none of the keys given to httpmw.Seal opens it: it was sealed by " +
		"another key, or for another request")
)

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

// about is what a sealed answer is bound to.
func (j *job) about() []byte { return []byte(hash(j.name, j.input)) }
