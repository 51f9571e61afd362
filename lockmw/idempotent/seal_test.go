package idempotent_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var newKey = bytes.Repeat([]byte("n"), 32)

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

// An answer is bound to the caller, the key and the request: another's, put in
// its place, is none.
func TestASealedAnswerCantBeMoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		var shop shop
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, SealKeys: [][]byte{newKey}})(&shop)
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
