package httpmw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// What Respond writes is what ErrorOf returns, so that a responder can write it in another form.
func TestErrorOfIsWhatRespondAnswers(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"held":          renewer.ErrHeld,
		"down":          renewer.ErrUnavailable,
		"lost":          &renewer.LostError{},
		"a bad key":     httpmw.ErrKey,
		"a bad body":    errors.Join(httpmw.ErrBody, &http.MaxBytesError{Limit: 7}),
		"any other":     errors.New(secret),
		"an *Error":     &httpmw.Error{Status: http.StatusLocked, Err: renewer.ErrHeld},
		"with a detail": &httpmw.Error{Status: http.StatusConflict, Detail: "Ask at the desk."},
		"with a type": &httpmw.Error{
			Status: http.StatusConflict, Type: "https://example.com/full", Title: "Full",
			Err: renewer.ErrHeld,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			httpmw.Respond(w, get(t, "/"), err)
			e := httpmw.ErrorOf(err)
			typ := e.Type
			switch {
			case e.Title == "" && e.Detail == "" && errors.Is(e.Err, renewer.ErrHeld):
				typ = httpmw.TypeBusy // of Err, since the *Error does not say
			case typ == "":
				typ = "about:blank"
			}
			p := requireProblem(t, read(w.Result()), e.Status, typ)
			if e.Title != "" {
				assert.Equal(t, e.Title, p.Title)
			}
			if e.Detail != "" || e.Title != "" {
				assert.Equal(t, e.Detail, p.Detail)
			}
		})
	}
}
