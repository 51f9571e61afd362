package httpmw_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One end takes the lock and sends its token along, the other finds it in the
// context.
func TestFencePassedOn(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	s := serve(t, httpmw.ReceiveFence(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, err := w.Write([]byte(strconv.FormatInt(lockmw.Fence(r.Context()), 10)))
		assert.NoError(t, err)
	})))
	got, err := lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (answer, error) {
		h := make(http.Header)
		httpmw.InjectFence(ctx, h)
		return send(t, s, http.MethodGet, "/", http.NoBody, "Lockbeat-Fence",
			h.Get("Lockbeat-Fence")), nil
	})
	require.NoError(t, err)
	assert.Equal(t, "1", got.Text)
	assert.Equal(t, "0", send(t, s, http.MethodGet, "/", http.NoBody).Text, "none sent")
}

// Whichever is further in, the token that came with the request does not hide
// the lock's own.
func TestFenceOfTheRequestDoesNotHideTheLocksOwn(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Positive(t, lockmw.Fence(r.Context()))
		assert.Equal(t, lockmw.FenceOf(r.Context(), "a"), lockmw.Fence(r.Context()))
	})
	lock := httpmw.Middleware(k, byName("a"))
	for name, chain := range map[string]http.Handler{
		"lock, token":       lock(httpmw.ReceiveFence(h)),
		"token, lock":       httpmw.ReceiveFence(lock(h)),
		"lock, token, lock": lock(httpmw.ReceiveFence(lock(h))),
	} {
		r := get(t, "/")
		r.Header.Set("Lockbeat-Fence", "9007199254740991")
		assert.Equal(t, http.StatusOK, do(chain, r).StatusCode, name)
		r.Header.Set("Lockbeat-Fence", "9223372036854775807")
		assert.Equal(t, http.StatusBadRequest, do(chain, r).StatusCode, "refused all the same: %s",
			name)
	}
}

// A handler that runs without its lock has no token, not even a trusted
// caller's.
func TestFenceOfTheRequestIsNotTakenForThatOfALockThatFailedOpen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Default(script.Acquire, script.Fail(errDown))
		ran := 0
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ran++
			assert.Zero(t, lockmw.Fence(r.Context()))
		})
		lock := httpmw.Middleware(k, byName("a"), lockmw.Wait(time.Minute), lockmw.LocalShare(1))
		for _, chain := range []http.Handler{
			lock(httpmw.ReceiveFence(h)),
			httpmw.ReceiveFence(lock(h)),
		} {
			r := get(t, "/")
			r.Header.Set("Lockbeat-Fence", "7")
			do(chain, r)
		}
		assert.Equal(t, 2, ran)
	})
}

func TestUnusableFences(t *testing.T) {
	t.Parallel()
	h := httpmw.ReceiveFence(never(t))
	for _, values := range [][]string{{"1", "1"}, {"-1"}, {""}, {"9007199254740992"}} {
		r := get(t, "/")
		r.Header["Lockbeat-Fence"] = values
		requireProblem(t, do(h, r), http.StatusBadRequest, httpguard.TypeBadRequest)
	}
}

func TestFenceOfAnotherIsNotPassedOn(t *testing.T) {
	t.Parallel()
	h := http.Header{"Lockbeat-Fence": {"7"}}
	httpmw.InjectFence(t.Context(), h)
	assert.Empty(t, h)
	httpmw.InjectFence(adapter.WithFence(t.Context(), 9), h)
	assert.Equal(t, http.Header{"Lockbeat-Fence": {"9"}}, h)
}
