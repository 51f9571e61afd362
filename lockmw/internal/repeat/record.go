package repeat

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// ErrLarge means that an answer has outgrown MaxAnswer, or can't be encoded.
var ErrLarge = errors.New("lockbeat: the answer is larger than MaxAnswer, or can't be encoded")

// options returns the options for package once. An attempt that came to nothing
// is not repeated here: the client repeats it, as often as it likes.
func (g *Guard) options(ctx context.Context, r *Request, w Work) []once.Option {
	options := []once.Option{
		once.NoRetry(), once.MaxAttempts(lockmw.NoBound), once.Keep(g.KeepAnswer),
		once.MaxResult(g.MaxAnswer), g.codec(r, w), once.Input(r.input),
		option.Wait{Set: func(s option.Settings) option.Settings {
			s.Operation, s.Waiters, s.MaxHold = w.Operation, int64(g.MaxWaiters), g.MaxHold
			if s.Wait = g.wait(ctx); s.Wait <= 0 {
				s.Contention = option.Refuses
			}
			return s
		}},
	}
	if w.Under != nil {
		options = append(options, w.Under)
	}
	if g.Recorder != nil {
		options = append(options, once.RecordIn(g.Recorder))
	}
	return options
}

// Under has a handler run under the locks of a set, too, by the settings of its
// rule. They are asked for when a request is found to be new, before the
// transaction of a Recorder begins. A refusal is [ErrLock], and leaves no
// record.
func (g *Guard) Under(set names.Set, rule option.Settings) once.Option {
	rule.Waiters, rule.InTime = cmp.Or(rule.Waiters, int64(g.MaxWaiters)), true
	return option.Under{Set: set, With: func(own option.Settings) option.Settings {
		rule.Operation = cmp.Or(rule.Operation, own.Operation)
		rule.MaxHold = cmp.Or(rule.MaxHold, own.MaxHold)
		return rule
	}}
}

// wait returns how long to wait for the answer of another request: the refusal
// must be in time.
func (g *Guard) wait(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(g.WaitForAnswer, time.Until(scope.AnswerBy(deadline)))
	}
	return g.WaitForAnswer
}

// codec stores answers, which the adapter has encoded.
func (g *Guard) codec(r *Request, w Work) once.Option {
	return once.Codec(func(v any) ([]byte, error) {
		//nolint:forcetypeassert // once gives what Do returns
		data := v.([]byte)
		if data == nil {
			return nil, ErrLarge
		}
		sealed := g.Seal.Seal(data, r.bound())
		if len(sealed) <= g.MaxAnswer { // a larger one is not stored
			r.size = len(sealed)
		}
		return sealed, nil
	}, func(sealed []byte, v any) error {
		data, err := g.Seal.Open(sealed, r.bound())
		if err != nil {
			return err
		}
		//nolint:forcetypeassert // once gives a pointer to what Do returns
		*v.(*[]byte) = data
		return w.Read(data)
	})
}

// checkSettings returns an error if package once would refuse the settings, as
// it does if the store keeps no records. It does not ask the store, since its
// context has ended.
func (g *Guard) checkSettings() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := once.Do(over, g.keeper, "", func(context.Context) ([]byte, error) {
		return nil, nil
	}, g.options(over, new(Request), Work{})...)
	if errors.Is(err, renewer.ErrConfig) {
		return err
	}
	return nil
}

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

// NewSealer returns a sealer by AES-GCM. The option that has the keys is named in
// errors.
func NewSealer(named string, keys [][]byte) (s Sealer, err error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("lockbeat: %s needs a key of 16, 24 or 32 random bytes", named)
	}
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("lockbeat: key %d of %s has %d bytes: give 16, 24 or 32 random "+
				"ones", i+1, named, len(key))
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
