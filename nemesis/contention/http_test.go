package contention_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func openHTTP(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) caller {
	return callHTTP(t, serveHTTP(t, k, wait, do))
}

func serveHTTP(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) *httptest.Server {
	var policy httpmw.Option
	switch wait {
	case 0:
		policy = lockmw.Refuse()
	case newestWins:
		policy = lockmw.Replace()
	case newestWaits:
		policy = lockmw.Latest()
	default:
		policy = lockmw.Wait(wait)
	}
	key := func(r *http.Request) lockmw.Set { return lockOf(r.Header.Get("X-Key")) }
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch err := do(r.Context()); {
		case r.Context().Err() != nil: // the caller has gone, or the lock has: nothing to say
		case ofALock(err):
			httpmw.Respond(w, r, err)
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(http.StatusOK)
		}
	}
	server := httptest.NewUnstartedServer(
		httpmw.Middleware(k, key, policy)(http.HandlerFunc(handler)))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of the panic
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func callHTTP(t *testing.T, server *httptest.Server) caller {
	return func(ctx context.Context, key string) (outcome, string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if !assert.NoError(t, err) {
			return "", ""
		}
		r.Header.Set("X-Key", key)
		resp, err := server.Client().Do(r)
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return cancelled, err.Error()
			}
			return broken, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		leaksNothing(t, key, string(body))
		return outcomeOfHTTP(t, resp, body), resp.Status + " " + string(body)
	}
}

const problemTypes = "https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#"

func outcomeOfHTTP(t *testing.T, resp *http.Response, body []byte) outcome {
	switch resp.StatusCode {
	case http.StatusOK:
		return done
	case http.StatusUnprocessableEntity:
		return failed
	}
	again := resp.Header.Get("Retry-After") != ""
	if len(body) == 0 && resp.StatusCode == http.StatusServiceUnavailable && again {
		return lost // whose body can't be sent by a writer that is not wrapped
	}
	if len(body) == 0 && resp.StatusCode == http.StatusConflict && !again {
		return replaced // as it is
	}
	if !assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type")) {
		return ""
	}
	var problem struct {
		Type   string
		Status int
	}
	assert.NoError(t, json.Unmarshal(body, &problem))
	assert.Equal(t, resp.StatusCode, problem.Status)
	switch {
	case resp.StatusCode == http.StatusConflict && again && problem.Type == problemTypes+"busy",
		resp.StatusCode == http.StatusServiceUnavailable && again &&
			problem.Type == problemTypes+"busy":
		return busy
	case (resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusTooManyRequests) &&
		again && problem.Type == problemTypes+"limit":
		return full
	case resp.StatusCode == http.StatusServiceUnavailable && again &&
		problem.Type == problemTypes+"unavailable":
		return unavailable
	case resp.StatusCode == http.StatusServiceUnavailable && again &&
		problem.Type == problemTypes+"lost":
		return lost
	case resp.StatusCode == http.StatusConflict && !again &&
		problem.Type == problemTypes+"replaced":
		return replaced
	case resp.StatusCode == http.StatusBadRequest && !again &&
		problem.Type == problemTypes+"bad-request":
		return badKey
	default:
		return ""
	}
}
