package httpmw_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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

// tripper is a base made of a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// watched is a body that knows whether it was closed.
type watched struct {
	io.Reader

	closed bool
}

func (b *watched) Close() error {
	b.closed = true
	return nil
}

// call makes a request by a client with the transport.
func call(t *testing.T, rt http.RoundTripper, url string, body io.Reader) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	req.Header.Set("Key", secret)
	return (&http.Client{Transport: rt}).Do(req)
}

func TestTransportHoldsTheLockUntilTheBodyIsClosed(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.NotEmpty(t, store.Owner("Key:"+secret))
				assert.Empty(t, r.Header.Get(httpmw.FenceHeader))
				_, err := io.Copy(w, r.Body)
				assert.NoError(t, err)
			}), edit)
			res, err := call(t,
				httpmw.Transport(s.Client().Transport, k, httpmw.Header("Key"),
					httpmw.Operation("call")), s.URL, strings.NewReader("hello"))
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, "hello", string(body))
			assert.NotEmpty(t, store.Owner("Key:"+secret), "read, but not closed")
			require.NoError(t, res.Body.Close())
			assert.Empty(t, store.Owner("Key:"+secret))
			require.NoError(t, res.Body.Close(), "once more does nothing")
			assert.Len(t, store.Calls(script.Release), 1)
			assert.Equal(t, "call", store.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
			assert.NoError(t, res.Request.Context().Err(), "the caller's own request")
		})
	}
}

func TestTransportLeavesTheRequestAlone(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	req := get(t, "/")
	header := req.Header.Clone()
	var sent *http.Request
	rt := httpmw.Transport(tripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		assert.Positive(t, lockmw.Fence(r.Context()))
		ctx, err := httpmw.ExtractFence(context.Background(), r.Header)
		require.NoError(t, err)
		assert.Equal(t, lockmw.Fence(r.Context()), lockmw.Fence(ctx))
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}), k, byName("a"), httpmw.SendFence())
	res, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.NotSame(t, req, sent)
	assert.Same(t, req, res.Request)
	assert.Equal(t, header, req.Header)
	assert.Zero(t, lockmw.Fence(req.Context()))
}

func TestResponseWithoutABodyFreesTheLockAtOnce(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	other := get(t, "/other")
	for _, body := range []io.ReadCloser{http.NoBody, nil} {
		rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
			assert.NotEmpty(t, store.Owner("a"))
			return &http.Response{StatusCode: http.StatusNoContent, Body: body, Request: other}, nil
		}), k, byName("a"))
		res, err := rt.RoundTrip(get(t, "/")) //nolint:bodyclose // that is the point
		require.NoError(t, err)
		assert.Equal(t, body, res.Body)
		assert.Same(t, other, res.Request, "what base has made of it")
		assert.Empty(t, store.Owner("a"))
	}
}

// Nothing is sent, the request's body is closed, and errors.Is tells why.
func TestTransportRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   func(t *testing.T, s *script.Store, k *renewer.Keeper)
		key   httpmw.KeyFunc
		opts  []httpmw.TransportOption
		want  error
		after time.Duration
	}{
		"busy": {set: func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
			s.Default(script.Acquire, script.Taken(renewer.Holder{}, time.Minute))
		}, opts: []httpmw.TransportOption{httpmw.NoWait()}, want: renewer.ErrHeld},
		"wait ran out": {
			set: func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
				s.Default(script.Acquire, script.Taken(renewer.Holder{}, time.Minute))
			}, opts: []httpmw.TransportOption{httpmw.Wait(time.Second), httpmw.MaxWaiters(3)},
			want: renewer.ErrHeld, after: time.Second,
		},
		"down": {set: func(_ *testing.T, s *script.Store, _ *renewer.Keeper) {
			s.Default(script.Acquire, script.Fail(errDown))
		}, want: renewer.ErrUnavailable, after: lockmw.DefaultWait},
		"shut down": {set: func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
			require.NoError(t, k.Shutdown(t.Context()))
		}, opts: []httpmw.TransportOption{httpmw.FailOpen(9)}, want: renewer.ErrShutdown},
		"no key": {key: httpmw.Header("Missing"), want: httpmw.ErrKey},
		"no key, by": {key: func(*http.Request) (string, error) {
			return "", errDown
		}, want: errDown},
		"no key, so": {key: func(*http.Request) (string, error) {
			return "", errDown
		}, want: httpmw.ErrKey},
		"no name": {key: byName(""), want: renewer.ErrName},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				if c.set != nil {
					c.set(t, s, k)
				}
				if c.key == nil {
					c.key = byName("a")
				}
				rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
					assert.Fail(t, "it was sent")
					return nil, errDown
				}), k, c.key, c.opts...)
				body := &watched{Reader: strings.NewReader("hello")}
				begun := time.Now()
				_, err := call(t, rt, "http://x/", body) //nolint:bodyclose // there is none
				require.ErrorIs(t, err, c.want)
				assert.True(t, body.closed)
				assert.InDelta(t, c.after, time.Since(begun), float64(time.Millisecond))
				r := get(t, "/")
				r.Body = nil
				_, err = rt.RoundTrip(r) //nolint:bodyclose // there is none
				require.ErrorIs(t, err, c.want)
			})
		})
	}
}

func TestCallThatFailsFreesTheLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	rt := httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
		return nil, errDown
	}), k, byName("a"))
	_, err := rt.RoundTrip(get(t, "/")) //nolint:bodyclose // there is none
	require.Equal(t, errDown, err)
	assert.Empty(t, store.Owner("a"))
	rt = httpmw.Transport(tripper(func(*http.Request) (*http.Response, error) {
		panic(errDown)
	}), k, byName("a"))
	assert.PanicsWithError(t, errDown.Error(), func() {
		_, _ = rt.RoundTrip(get(t, "/")) //nolint:bodyclose // there is none
	})
	assert.Empty(t, store.Owner("a"))
	assert.Len(t, store.Calls(script.Release), 2)
}

func TestLockLostDuringTheCall(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, quick)
	store.Script(script.Renew, script.Gone())
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	//nolint:bodyclose // there is none
	_, err := call(t, httpmw.Transport(nil, k, byName("a")), s.URL, http.NoBody)
	require.ErrorIs(t, err, renewer.ErrLost)
}

func TestErrorOfACallThatLostItsLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		s.Script(script.Renew, script.Gone())
		rt := httpmw.Transport(tripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, errDown
		}), k, byName("a"))
		_, err := rt.RoundTrip(get(t, "/")) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, errDown)
		require.ErrorIs(t, err, renewer.ErrLost)
	})
}

type idler struct {
	tripper

	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	base := &idler{}
	(&http.Client{Transport: httpmw.Transport(base, k, byName("a"))}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	(&http.Client{Transport: httpmw.Transport(base.tripper, k, byName("a"))}).CloseIdleConnections()
}

// The time that a client gives a call bounds the wait, and is not taken for a busy lock.
func TestClientsTimeout(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	release := hold(t, k, "a")
	client := http.Client{
		Transport: httpmw.Transport(nil, k, byName("a")),
		Timeout:   50 * time.Millisecond,
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/",
		http.NoBody)
	require.NoError(t, err)
	_, err = client.Do(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, renewer.ErrHeld)
	release()
}

// A client takes a lock for each redirect, having given the one before back.
func TestRedirects(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	mux := http.NewServeMux()
	mux.Handle("/a", http.RedirectHandler("/b", http.StatusSeeOther))
	mux.HandleFunc("/b", ok)
	s := serve(t, mux)
	byPath := func(r *http.Request) (string, error) { return r.URL.Path, nil }
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/a", http.NoBody)
	req.RequestURI = ""
	res, err := (&http.Client{Transport: httpmw.Transport(s.Client().Transport, k, byPath)}).Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, []string{"/a", "/b"}, names(store))
	assert.Empty(t, store.Owner("/a"))
	assert.Equal(t, "done", read(res).body)
	assert.Empty(t, store.Owner("/b"))
}
