package idempotent_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

// buy sends a request with an Idempotency-Key.
func buy(t *testing.T, s *httptest.Server, path string) reply {
	t.Helper()
	return send(t, s, http.MethodPost, path, strings.NewReader("pen"), "Idempotency-Key",
		"k", "User", "ann")
}

// Two routes whose prefixes are stripped are not one: what counts is what the
// client has asked for.
func TestStrippedPrefixesAreTwoRequests(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	once := idempotent.Middleware(k, idempotent.Config{Caller: byUser})
	say := func(what string) http.Handler {
		return once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, what)
		}))
	}
	mux := http.NewServeMux()
	mux.Handle("/charges/", http.StripPrefix("/charges", say("charged")))
	mux.Handle("/refunds/", http.StripPrefix("/refunds", say("refunded")))
	s := serve(t, mux)
	assert.Equal(t, "charged", buy(t, s, "/charges/7").Text)
	assert.Equal(t, http.StatusUnprocessableEntity, buy(t, s, "/refunds/7").StatusCode)
	assert.Equal(t, "charged", buy(t, s, "/charges/7").Text)
}

// Early hints reach the client with their headers, and are no part of what is
// stored.
func TestEarlyHintsReachTheClient(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			s := serve(t, idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", "</a.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Link")
				w.WriteHeader(http.StatusCreated)
			})), edit)
			for _, replayed := range []string{"", "true"} {
				var hints []string
				ctx := httptrace.WithClientTrace(t.Context(),
					&httptrace.ClientTrace{Got1xxResponse: func(code int,
						h textproto.MIMEHeader,
					) error {
						assert.Equal(t, http.StatusEarlyHints, code)
						hints = append(hints, h.Get("Link"))
						return nil
					}})
				a := buyOn(ctx, t, s)
				assert.Equal(t, http.StatusCreated, a.StatusCode)
				assert.Empty(t, a.Header.Get("Link"))
				assert.Equal(t, replayed, a.Header.Get("Idempotent-Replayed"))
				if replayed == "" {
					assert.Equal(t, []string{"</a.css>; rel=preload"}, hints)
				} else {
					assert.Empty(t, hints)
				}
			}
		})
	}
}

func buyOn(ctx context.Context, t *testing.T, s *httptest.Server) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("User", "ann")
	res, err := s.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return read(res)
}

// Trailers reach the client, the first time and when the answer is replayed,
// announced or not.
func TestTrailersReachTheClient(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{
		"no body": 0, "small": 10,
		"large": 2 * maxAnswer,
	} {
		for proto, edit := range protocols {
			t.Run(name+" by "+proto, func(t *testing.T) {
				t.Parallel()
				k, _ := scripted(t)
				s := serve(t, idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Trailer", "X-Sum, X-Never")
					w.Header().Set(http.TrailerPrefix+"X-Early", "1")
					w.WriteHeader(http.StatusOK)
					_, _ = io.WriteString(w, strings.Repeat("x", size))
					w.Header().Set("X-Sum", "1234")
					w.Header().Set(http.TrailerPrefix+"X-Late", "5678")
				})), edit, uncomplaining(t))
				for range 2 {
					a := buy(t, s, "/")
					if a.StatusCode == http.StatusConflict && size > maxAnswer {
						continue // it was too large to be replayed
					}
					assert.Len(t, a.Text, size)
					assert.Empty(t, a.Header.Get("X-Sum"))
					assert.Empty(t, a.Trailer.Get("X-Never"))
					a.Trailer.Del("X-Never") // announced only
					assert.Equal(t,
						http.Header{
							"X-Early": {"1"}, "X-Sum": {"1234"},
							"X-Late": {"5678"},
						}, a.Trailer)
				}
			})
		}
	}
}

// The deadlines of a connection are the handler's to set, as without the guard.
func TestDeadlinesReachTheConnection(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			late := func(c *http.ResponseController) error {
				return c.SetWriteDeadline(time.Now().Add(soon))
			}
			passed := func(c *http.ResponseController) error {
				return c.SetWriteDeadline(time.Now().Add(-time.Second))
			}
			for name, set := range map[string]func(*http.ResponseController) error{
				"late":   late,
				"passed": passed,
			} {
				s := serve(t, idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					c := http.NewResponseController(w)
					assert.NoError(t, set(c))
					assert.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
					assert.ErrorIs(t, c.Flush(), http.ErrNotSupported,
						"nothing goes out before it is stored")
					_, _, err := c.Hijack()
					assert.ErrorIs(t, err, http.ErrNotSupported)
					ok(w, r)
				})), edit, quiet)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL,
					http.NoBody)
				require.NoError(t, err)
				r.Header.Set("Idempotency-Key", proto+name)
				r.Header.Set("User", "ann")
				res, err := s.Client().Do(r)
				if err == nil {
					_ = res.Body.Close()
				}
				assert.Equal(t, name == "passed", err != nil, "%s: %v", name, err)
			}
		})
	}
}
