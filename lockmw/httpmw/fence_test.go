package httpmw_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// One end takes the lock and sends its token along, the other finds it in the context: one line each.
func TestFencePassedOn(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	s := serve(t, httpmw.ReceiveFence(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write([]byte(strconv.FormatInt(lockmw.Fence(r.Context()), 10)))
		assert.NoError(t, err)
	})))
	res, err := call(t, httpmw.Transport(s.Client().Transport, k, byName("a"), httpmw.SendFence()), s.URL, http.NoBody)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, "1", read(res).body)
	assert.Equal(t, "0", send(t, s, http.MethodGet, "/", http.NoBody).body, "none sent")
}

func TestUnusableFences(t *testing.T) {
	t.Parallel()
	s := serve(t, httpmw.ReceiveFence(never(t)))
	const h = httpmw.FenceHeader
	for want, header := range map[string][]string{
		"is there 2 times, send it once":                                  {h, "1", h, "2"},
		"is no positive decimal number; write it with httpmw.InjectFence": {h, "-1"},
	} {
		requireProblem(t, send(t, s, http.MethodGet, "/", http.NoBody, header...), http.StatusBadRequest, httpmw.TypeBadRequest)
		got := http.Header{}
		for i := 0; i < len(header); i += 2 {
			got.Add(header[i], header[i+1])
		}
		_, err := httpmw.ExtractFence(t.Context(), got)
		require.ErrorIs(t, err, httpmw.ErrFence)
		require.EqualError(t, err, "lockbeat: unusable fencing token: the header Lockbeat-Fence "+want)
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
