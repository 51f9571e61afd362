package idempotent_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// formOrder is an order with a multipart form as its body, which has a boundary
// of its own each time that it is built, unless that is given.
func formOrder(t *testing.T, boundary string, fields ...string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if boundary != "" {
		require.NoError(t, form.SetBoundary(boundary))
	}
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, form.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(t, form.Close())
	r := order(t.Context(), "k", body.String())
	r.Header.Set("Content-Type", form.FormDataContentType())
	return r
}

// A client that sent a form again built it anew, with another boundary, and so
// was told for ever that its key is another request's.
func TestAFormThatIsBuiltAnewIsTheSame(t *testing.T) {
	t.Parallel()
	const longest = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210012345"
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		forms := 0
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				forms++
				_, _ = w.Write([]byte(r.FormValue("item") + " for " + r.FormValue("name")))
			}))
		for _, boundary := range []string{"", "", "b", longest, "with space", "a"} {
			w := answered(h, formOrder(t, boundary, "item", "pen\r\n--apple", "name", "ann"))
			assert.Equal(t, http.StatusOK, w.Code, boundary)
			assert.Equal(t, "pen\r\n--apple for ann", w.Body.String(), boundary)
		}
		assert.Equal(t, 1, forms)

		for name, r := range map[string]*http.Request{
			"another value":   formOrder(t, "", "item", "ink\r\n--apple", "name", "ann"),
			"another order":   formOrder(t, "", "name", "ann", "item", "pen\r\n--apple"),
			"a part more":     formOrder(t, "", "item", "pen\r\n--apple", "name", "ann", "a", "b"),
			"what looks like": formOrder(t, "b", "item", "pen\r\n--bpple", "name", "ann"),
		} {
			assert.Equal(t, http.StatusUnprocessableEntity, answered(h, r).Code, name)
		}
		mixed := formOrder(t, "", "item", "pen\r\n--apple", "name", "ann")
		mixed.Header.Set("Content-Type", strings.Replace(mixed.Header.Get("Content-Type"),
			"form-data", "mixed", 1))
		assert.Equal(t, http.StatusUnprocessableEntity, answered(h, mixed).Code, "another type")
	})
}
