package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/serve"
)

// door is a page that asks for the password "sesame".
type door struct {
	http.Handler

	log bytes.Buffer
}

func newDoor() *door {
	d := &door{}
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	d.Handler = serve.Asking("sesame", slog.New(slog.NewTextHandler(&d.log, nil)), inside)
	return d
}

// login tries a password, "" for none, and returns the status and how long the
// answer took.
func (d *door) login(ctx context.Context, from, password string) (int, time.Duration) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = from
	if password != "" {
		r.SetBasicAuth("ana", password)
	}
	begun, w := time.Now(), httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code, time.Since(begun)
}

// A program that guesses as fast as it can, by as many connections as it likes,
// and does not wait for answers, has four guesses a second; who knows the
// password waits for none of that, and the log tells of it.
func TestGuessesAreSlowAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		heard := 0
		impatient, leave := context.WithCancel(t.Context())
		leave()
		for range 10 * 100 { // for ten seconds
			for range 10 {
				if status, took := d.login(impatient, "192.0.2.1:4711", "guess"); took == 0 &&
					status == http.StatusOK { // what a recorder has of no answer
					heard++
				}
			}
			<-time.After(serve.Pause / 100)
			status, took := d.login(t.Context(), "192.0.2.2:1", "sesame")
			assert.Equal(t, http.StatusOK, status)
			assert.Zero(t, took)
		}
		assert.LessOrEqual(t, heard, 11*serve.MostEach)
		assert.GreaterOrEqual(t, heard, 9*serve.MostEach)
		<-time.After(2 * serve.Pause)
		synctest.Wait()
		text := d.log.String()
		lines := strings.Count(text, "\n")
		assert.Equal(t, lines, strings.Count(text, `msg="wrong password" client=192.0.2.1 `))
		assert.LessOrEqual(t, lines, 13)
		told := 0
		for line := range strings.Lines(text) {
			var n int
			_, after, _ := strings.Cut(line, "logins=")
			_, err := fmt.Sscan(after, &n)
			assert.NoError(t, err)
			told += n
		}
		assert.Equal(t, heard, told)
		assert.NotContains(t, text, "guess")
		assert.NotContains(t, text, "ana")
	})
}

// One mistake costs its client a moment. No password at all is how a browser
// begins.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		for _, c := range []struct {
			password string
			status   int
			took     time.Duration
		}{
			{"", http.StatusUnauthorized, 0},
			{"wrong", http.StatusUnauthorized, serve.Pause},
			{"sesame", http.StatusOK, 0},
		} {
			status, took := d.login(t.Context(), "[2001:db8::1]:80", c.password)
			assert.Equal(t, c.status, status, c.password)
			assert.Equal(t, c.took, took, c.password)
		}
		assert.Equal(t, 1, strings.Count(d.log.String(), "\n"))
	})
}

// Many clients keep no more goroutines than are allowed in all, and a network
// of IPv6 is one.
func TestGuessesOfManyAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		statuses := make(chan int, 1000)
		for i := range 1000 {
			from := fmt.Sprintf("[2001:db8:0:%x::%x]:80", i/10, i)
			go func() {
				status, _ := d.login(t.Context(), from, "guess")
				statuses <- status
			}()
		}
		synctest.Wait()
		assert.Len(t, statuses, 1000-serve.MostAll, "the others are refused at once")
		for len(statuses) > 0 {
			assert.Equal(t, http.StatusTooManyRequests, <-statuses)
		}
		status, _ := d.login(t.Context(), "192.0.2.2:1", "sesame")
		assert.Equal(t, http.StatusTooManyRequests, status, "what is right is not told either")
		<-time.After(serve.Pause)
		synctest.Wait()
		assert.Len(t, statuses, serve.MostAll)
		status, _ = d.login(t.Context(), "192.0.2.2:1", "sesame")
		assert.Equal(t, http.StatusOK, status)
	})
}

// The name of this machine can be written in several ways, and others look like
// it.
func TestLocalNames(t *testing.T) {
	t.Parallel()
	handler := serve.ForLocalNames(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST": 200, "localhost.": 200, "localhost.:80": 200,
		"127.0.0.1": 200, "127.0.0.2:80": 200, "[::1]": 200, "[::1]:80": 200, "::1": 200,
		"[localhost0": 421, "[::10": 421, "localhost]": 421, "[": 421, "]": 421, "[]": 421,
		"": 421, "localhost..": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
		"evil.example": 421, "0.0.0.0": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}
