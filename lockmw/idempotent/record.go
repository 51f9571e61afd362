package idempotent

import (
	"context"
	"errors"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// once returns the options for package once. An attempt that came to nothing is not repeated here:
// the client repeats it, as often as it likes.
func (s *settings) once(route string, j *job) []once.Option {
	return []once.Option{
		once.NoRetry(), once.Uncounted(),
		once.Wait(s.answerWait), once.MaxWaiters(s.waiters),
		once.Keep(s.keepAnswer), once.MaxResult(s.maxAnswer), s.answers(j),
		once.Operation(s.operationOr(route)), once.Input(j.input),
	}
}

// answers returns the codec by which answers are stored.
func (s *settings) answers(j *job) once.Option {
	return once.Codec(func(v any) ([]byte, error) {
		//nolint:forcetypeassert // once gives what Do returns
		data, err := encodeAnswer(v.(answer), s.maxAnswer)
		if err != nil {
			return nil, err
		}
		data = s.seal.seal(data, j)
		if len(data) <= s.maxAnswer { // a larger one is not stored
			j.size = len(data)
		}
		return data, nil
	}, func(stored []byte, v any) error {
		data, err := s.seal.open(stored, j)
		if err != nil {
			return err
		}
		//nolint:forcetypeassert // once gives a pointer to what Do returns
		return decodeAnswer(data, v.(*answer))
	})
}

// check returns an error if package once would refuse the options, or if the
// store keeps no records. It does not ask the store, since its context has ended.
func check(k *renewer.Keeper, s *settings) error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, options := once.Do(over, k, "", func(context.Context) (int, error) {
		return 0, nil
	}, s.once("", new(job))...)
	_, records := k.Read(over, "any")
	for _, err := range []error{options, records} {
		if errors.Is(err, renewer.ErrConfig) {
			return err
		}
	}
	return nil
}
