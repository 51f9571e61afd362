package idempotent_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What an older release has stored, in clear and sealed.
const (
	olderName = "idempotency:bOTnM0n3NrvJqexwAVzrOgSE_ULhLGKPgOeIMBildAU"
	olderHead = "once1 done 1 18283\nhere\noPJ_5oXCZYgo1Jf9JWrLoBn0m4JEZBdQg09SSXlLYgU\n"
	olderText = `{"status":201,"header":{"Content-Type":["text/plain; charset=utf-8"],` +
		`"Location":["/orders/7"]},"body":"b25lIHBlbg==","trailer":{"Sum":["42"]}}`
	olderSealed = "GwPridKByyyjfWga4DNOwU9z1LxcsIYk7tuQy1ZpdBE+MjgsoH6tU5TMrwxsFywQMFqQHCve/4Rv" +
		"Eznms8s7MFn+tTU4W9AhV1sq4u0d9PJtmNmsbTRMDUCab0Y1OhkohEz8kcGdSvW+2n8lR2Q04FI4" +
		"uIb38Ya5aZ/JpuHMlg6+UfbyhN7XFcpCAgDncZN973tUbuMq0Mx5Phhyu3N1z4X9IeJr5VBmYCk="
)

// Answers that an older release has stored are replayed: neither the lock's name, nor the request's
// fingerprint, nor the form of an answer, nor its seal may change.
func TestAnswersOfAnOlderReleaseAreReplayed(t *testing.T) {
	t.Parallel()
	sealed, err := base64.StdEncoding.DecodeString(olderSealed)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		stored string
		opts   []idempotent.Option
	}{
		"in clear": {olderText, nil},
		"sealed": {
			"lbsealed1\n" + string(sealed),
			[]idempotent.Option{idempotent.Seal([]byte("0123456789abcdef"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script.New()
			k := newKeeper(t, s)
			s.PutRecord(olderName, olderHead+c.stored)
			h := idempotent.Middleware(k, byUser,
				append(c.opts, idempotent.Scope("shop"))...)(never(t))
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, http.StatusCreated, w.Code)
			assert.Equal(t, "one pen", w.Body.String())
			assert.Equal(t, "/orders/7", w.Header().Get("Location"))
			assert.Equal(t, "42", w.Result().Trailer.Get("Sum"))
			assert.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
			assert.Equal(t, http.StatusUnprocessableEntity,
				answered(h, order(t.Context(), "k", "ink")).Code, "it has not said what may differ")
		})
	}
}
