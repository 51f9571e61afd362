package idempotent_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/testutil/webtest"
)

var (
	oldKey = bytes.Repeat([]byte("o"), 16)
	newKey = bytes.Repeat([]byte("n"), 32)
)

// seal begins a sealed answer.
const seal = "lbsealed1\n"

// headOf is a record without the answer.
func headOf(record string) string {
	head, _, _ := strings.Cut(record, seal)
	return head
}

// recordOf is what a store has of the request that came last.
func recordOf(s *script.Store) (name, record string) {
	all := names(s)
	name = all[len(all)-1]
	return name, s.RecordOf(name)
}

// What can't be opened is not replayed, and the handler does not run again: a program that may
// write to
// the store could otherwise say what is answered, or have requests carried out twice.
func TestForeignAnswersAreNotReplayed(t *testing.T) {
	t.Parallel()
	sealed := []idempotent.Option{idempotent.Seal(newKey)}
	for name, c := range map[string]struct {
		first, then []idempotent.Option
		edit        func(record string) string
	}{
		"stored before it was given": {nil, sealed, nil},
		"stored when it was given":   {sealed, nil, nil},
		"sealed by a key that has gone": {
			[]idempotent.Option{idempotent.Seal(oldKey)},
			sealed,
			nil,
		},
		"changed": {sealed, sealed, func(r string) string {
			return r[:len(r)-1] + string(r[len(r)-1]^1)
		}},
		"cut": {sealed, sealed, func(r string) string {
			return r[:len(r)-1]
		}},
		"all but gone": {sealed, sealed, func(r string) string {
			return headOf(r) + seal
		}},
		"marked as another version": {sealed, sealed, func(r string) string {
			return strings.Replace(r, "lbsealed1", "lbsealed2", 1)
		}},
		"put there in clear": {sealed, sealed, func(r string) string {
			return headOf(r) + `{"status":200,"body":"cGVu"}`
		}},
		"garbage": {nil, nil, func(string) string { return "garbage" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := new(webtest.Faults)
			s := script.New()
			k := newKeeper(t, s, func(c *renewer.Config) { c.Observer = o })
			var shop shop
			answered(idempotent.Middleware(k, byUser, c.first...)(&shop),
				order(t.Context(), secret, secret))
			if lock, record := recordOf(s); c.edit != nil {
				s.PutRecord(lock, c.edit(record))
			}
			h := idempotent.Middleware(k, byUser, c.then...)(&shop)
			for range 2 {
				p := requireProblem(t, do(h, order(t.Context(), secret, secret)),
					http.StatusInternalServerError, "about:blank")
				assert.Contains(t, p.Detail, "can't be read")
			}
			assert.EqualValues(t, 1, shop.taken.Load(), "it is not carried out again")
			require.Len(t, o.All(), 1, "the operator is told, once")
			assert.NotContains(t, o.All()[0].Err.Error(), secret)
		})
	}
}

// An answer is bound to the caller, the key and the request: another's, put in its place, is none.
func TestASealedAnswerCantBeMoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, byUser, idempotent.Seal(newKey))(&shop)
		answered(h, order(t.Context(), "a", "pen"))
		_, pen := recordOf(s)
		answered(h, order(t.Context(), "b", "pen"))
		b, _ := recordOf(s)
		s.PutRecord(b, pen)
		assert.Equal(t, http.StatusInternalServerError,
			answered(h, order(t.Context(), "b", "pen")).Code, "another key's")

		answered(h, order(t.Context(), "c", "ink"))
		c, ink := recordOf(s)
		answered(h, order(t.Context(), "d", "pen"))
		_, pen = recordOf(s)
		_, sealed, _ := strings.Cut(ink, seal)
		s.PutRecord(c, headOf(pen)+seal+sealed)
		w := answered(h, order(t.Context(), "c", "pen"))
		assert.Equal(t, http.StatusInternalServerError, w.Code,
			"another request's, whose fingerprint was put there")
		assert.EqualValues(t, 4, shop.taken.Load())
	})
}
