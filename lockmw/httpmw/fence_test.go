package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One end takes the lock and sends its token along, the other finds it in the context.
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
		return send(t, s, http.MethodGet, "/", http.NoBody, httpmw.FenceHeader,
			h.Get(httpmw.FenceHeader)), nil
	})
	require.NoError(t, err)
	assert.Equal(t, "1", got.body)
	assert.Equal(t, "0", send(t, s, http.MethodGet, "/", http.NoBody).body, "none sent")
}

func TestUnusableFences(t *testing.T) {
	t.Parallel()
	s := serve(t, httpmw.ReceiveFence(never(t)))
	const h = httpmw.FenceHeader
	for want, header := range map[string][]string{
		"is there 2 times, send it once": {
			h, "1", h,
			"2",
		},
		"is no decimal number from 1 to 2^53-1; write it with httpmw.InjectFence": {h, "-1"},
		"is no decimal number from 1 to 2^53-1; write it with httpmw.InjectFence ": {
			h,
			"9007199254740992",
		},
	} {
		want = strings.TrimSpace(want)
		requireProblem(t, send(t, s, http.MethodGet, "/", http.NoBody, header...),
			http.StatusBadRequest, httpmw.TypeBadRequest)
		got := http.Header{}
		for i := 0; i < len(header); i += 2 {
			got.Add(header[i], header[i+1])
		}
		_, err := httpmw.ExtractFence(t.Context(), got)
		require.ErrorIs(t, err, httpmw.ErrFence)
		require.EqualError(t, err,
			"lockbeat: unusable fencing token: the header Lockbeat-Fence "+want)
	}
}

func TestFenceOfAnotherIsNotPassedOn(t *testing.T) {
	t.Parallel()
	h := http.Header{httpmw.FenceHeader: {"7"}}
	ctx, err := httpmw.ExtractFence(t.Context(), http.Header{})
	require.NoError(t, err)
	assert.Equal(t, t.Context(), ctx)
	httpmw.InjectFence(ctx, h)
	assert.Empty(t, h)
	httpmw.InjectFence(lockmw.WithFence(ctx, 9), h)
	assert.Equal(t, http.Header{httpmw.FenceHeader: {"9"}}, h)
}

// Whichever is further in, the token that came with the request does not hide the lock's own.
func TestFenceOfTheRequestDoesNotHideTheLocksOwn(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Positive(t, lockmw.Fence(r.Context()))
		assert.Equal(t, lockmw.FenceOf(r.Context(), "a"), lockmw.Fence(r.Context()))
	})
	lock := httpmw.Exclusive(k, byName("a"))
	for name, chain := range map[string]http.Handler{
		"lock, token":       lock(httpmw.ReceiveFence(h)),
		"token, lock":       httpmw.ReceiveFence(lock(h)),
		"lock, token, lock": lock(httpmw.ReceiveFence(lock(h))),
	} {
		r := get(t, "/")
		r.Header.Set(httpmw.FenceHeader, "9007199254740991")
		assert.Equal(t, http.StatusOK, do(chain, r).StatusCode, name)
		r.Header.Set(httpmw.FenceHeader, "9223372036854775807")
		assert.Equal(t, http.StatusBadRequest, do(chain, r).StatusCode, "refused all the same: %s",
			name)
	}
}

// A handler that runs without its lock has no token, not even a trusted caller's.
func TestFenceOfTheRequestIsNotTakenForThatOfALockThatFailedOpen(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, _ *unlockedObserver) {
		ran := 0
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ran++
			assert.Zero(t, lockmw.Fence(r.Context()))
		})
		lock := httpmw.Exclusive(k, byName("a"), httpmw.Wait(time.Second), httpmw.FailOpen(9))
		for _, chain := range []http.Handler{
			lock(httpmw.ReceiveFence(h)),
			httpmw.ReceiveFence(lock(h)),
		} {
			r := get(t, "/")
			r.Header.Set(httpmw.FenceHeader, "7")
			do(chain, r)
		}
		assert.Equal(t, 2, ran)
	})
}

// A gateway copies the headers that came. What an outsider has made up ends at the edge.
func TestStripFence(t *testing.T) {
	t.Parallel()
	backend := serve(t, httpmw.ReceiveFence(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, err := fmt.Fprint(w, lockmw.Fence(r.Context()), r.Header.Get("X-Account"))
		assert.NoError(t, err)
	})))
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	gateway := httputil.NewSingleHostReverseProxy(target)
	for want, edge := range map[string]http.Handler{
		"7a1": gateway,
		"0a1": httpmw.StripFence(gateway),
	} {
		s := serve(t, edge)
		assert.Equal(t, want, send(t, s, http.MethodGet, "/", http.NoBody, "lockbeat-fence", "7",
			"X-Account", "a1").body)
	}
	r := get(t, "/")
	r.Header.Add(httpmw.FenceHeader, "7")
	r.Header.Add(httpmw.FenceHeader, "no token")
	do(httpmw.StripFence(http.HandlerFunc(func(_ http.ResponseWriter, inner *http.Request) {
		assert.Empty(t, inner.Header)
		assert.NotEmpty(t, r.Header, "the caller's own stays as it is")
	})), r)
	assert.Panics(t, func() { httpmw.StripFence(nil) })
}
